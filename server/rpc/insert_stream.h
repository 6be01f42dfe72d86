// MemoryService.InsertStream: a bidirectional stream whose messages are committed in groups.
//
// gRPC's callbacks fill a bounded queue; one thread a stream takes what waits (up to 10,000 tokens
// and 32 MiB), commits it in one transaction and acknowledges the last sequence number of it, so
// that the cost of an fsync is shared while the order of acknowledgements is that of the messages.
// Reading pauses while the queue is full: flow control reaches the client.
//
// A bad message ends the stream with INVALID_ARGUMENT after everything before it has been committed
// and acknowledged. A callback stream rather than a synchronous one, because a failed commit must
// be able to end the stream while no message is arriving. docs/adr/0030.
#ifndef LETHE_SERVER_RPC_INSERT_STREAM_H_
#define LETHE_SERVER_RPC_INSERT_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "lethe/v1/memory_service.pb.h"
#include "server/rpc/call.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/call_threads.h"
#include "server/rpc/peer_watch.h"
#include "server/service/service.h"

namespace lethe::rpc {

class InsertStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Deletes itself when the call is over. The call is refused by the gate, or with
  // RESOURCE_EXHAUSTED when the registry has no place for it or no thread can be had. When the
  // registry stops it, nothing more is read, what has been read is committed and acknowledged, and
  // the stream ends with UNAVAILABLE; so it does when the client is silent, or does not take an
  // acknowledgement, for longer than the limits say. The pointers must outlive the call.
  InsertStream(grpc::CallbackServerContext* context,
               service::Service* service,
               const MethodCalls* method,
               CallRegistry* registry,
               const PeerWatchOptions& limits,
               const StartThread& start_thread);

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone() override;

 private:
  struct Message {
    uint64_t sequence = 0;
    size_t bytes = 0;  // of the message on the wire
    std::vector<service::TokenInput> tokens;
  };
  // A batch to commit, and whether reading was stopped and can go on.
  struct Group {
    std::vector<Message> messages;
    bool resume_reading = false;
    bool silent = false;  // nothing came for too long
  };

  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Accept(const grpc::ByteBuffer& bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool QueueFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Begin(const StartThread& start_thread);
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status EnterCall() ABSL_LOCKS_EXCLUDED(mutex_);
  grpc::Status FinishCall(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status CommitLoop() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for messages; an empty group means that there will be none, or that none came in time.
  Group NextGroup() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Commit(Group group, v1::InsertStreamResponse* response);
  // Writes and waits until it is written; false when the stream is broken.
  bool Write(const v1::InsertStreamResponse& response) ABSL_LOCKS_EXCLUDED(mutex_);
  // False when it is still under way at `due`.
  bool WaitForWrite(std::optional<std::chrono::steady_clock::time_point> due)
      ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::CallbackServerContext* const context_;
  service::Service* const service_;
  CallRegistry* const registry_;
  const PeerWatchOptions limits_;
  bool registered_ = false;
  std::thread worker_;

  grpc::ByteBuffer incoming_;  // owned by gRPC between StartRead and OnReadDone
  grpc::ByteBuffer outgoing_;  // owned by gRPC between StartWrite and OnWriteDone

  Mutex mutex_;
  RpcCall call_ ABSL_GUARDED_BY(mutex_);
  std::condition_variable_any changed_;
  std::deque<Message> queue_ ABSL_GUARDED_BY(mutex_);
  size_t queued_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t queued_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;  // the first message was accepted
  uint64_t last_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string tenant_ ABSL_GUARDED_BY(mutex_);
  std::string memory_ ABSL_GUARDED_BY(mutex_);
  absl::Status input_status_ ABSL_GUARDED_BY(mutex_);
  bool reads_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_paused_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_INSERT_STREAM_H_
