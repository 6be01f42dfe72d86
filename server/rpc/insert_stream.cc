#include "server/rpc/insert_stream.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/calls/convert.h"
#include "server/rpc/handlers.h"
#include "server/rpc/parse.h"
#include "server/service/names.h"
#include "server/service/retry_delay.h"
#include "server/service/validate.h"

namespace lethe::rpc {
namespace {

constexpr size_t kMaxQueuedMessages = 256;
// Payloads make 10,000 tokens as large as 640 MB, so bytes are bounded as well. The last message
// read may go beyond this by its own size.
constexpr size_t kMaxQueuedBytes = size_t{32} << 20;

std::chrono::steady_clock::time_point DueAfter(absl::Duration limit) {
  return std::chrono::steady_clock::now() +
         absl::ToChronoMilliseconds(std::min(limit, absl::Hours(24)));
}

}  // namespace

InsertStream::InsertStream(grpc::CallbackServerContext* context,
                           service::Service* service,
                           const MethodCalls* method,
                           CallRegistry* registry,
                           const PeerWatchOptions& limits,
                           const StartThread& start_thread)
    : context_(context),
      service_(service),
      registry_(registry),
      limits_(limits),
      call_(context, method) {
  absl::Status status = EnterCall();
  if (status.ok()) status = Begin(start_thread);
  if (!status.ok()) {
    Finish(FinishCall(status));
    return;
  }
  StartRead(&incoming_);
}

absl::Status InsertStream::Begin(const StartThread& start_thread) {
  LETHE_RETURN_IF_ERROR(registry_->Enter(this, [this] { Stop(); }));
  registered_ = true;
  // gRPC would swallow what is thrown here, and free this while the registry still knows it.
  try {
    const auto run = [this] { Run(); };
    worker_ = start_thread ? start_thread(run) : std::thread(run);
  } catch (const std::exception&) {  // EAGAIN, or no memory
    registry_->Leave(this);
    registered_ = false;
    return service::WithRetryDelay(
        absl::ResourceExhaustedError("no thread can be had for a stream; try again later"),
        absl::Seconds(1));
  }
  return absl::OkStatus();
}

void InsertStream::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
}

void InsertStream::OnReadDone(bool ok) {
  bool read_more = false;
  {
    MutexLock lock(mutex_);
    if (!ok) {
      reads_done_ = true;
    } else if (stopping_) {
      // The read that was under way when the stop came: not taken, not acknowledged, and the last.
    } else if (absl::Status status =
                   Guarded([this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return Accept(incoming_); });
               !status.ok()) {
      input_status_ = std::move(status);
      reads_done_ = true;
    } else if (QueueFull()) {
      read_paused_ = true;
    } else {
      read_more = true;
    }
  }
  changed_.notify_all();
  if (read_more) StartRead(&incoming_);
}

void InsertStream::OnWriteDone(bool ok) {
  {
    MutexLock lock(mutex_);
    writing_ = false;
    if (!ok) broken_ = true;
  }
  changed_.notify_all();
}

void InsertStream::OnCancel() {
  {
    MutexLock lock(mutex_);
    broken_ = true;
  }
  changed_.notify_all();
}

void InsertStream::OnDone() {
  if (worker_.joinable()) {
    // Finish is the last thing that the worker does, and may call this from within.
    if (worker_.get_id() == std::this_thread::get_id()) {
      worker_.detach();
    } else {
      worker_.join();
    }
  }
  if (registered_) registry_->Leave(this);
  delete this;
}

absl::Status InsertStream::Accept(const grpc::ByteBuffer& bytes) {
  v1::InsertStreamRequest request;
  LETHE_RETURN_IF_ERROR(ParseMessage(bytes, &request));
  if (!started_) {
    LETHE_RETURN_IF_ERROR(service::CheckName("tenant", request.tenant()));
    LETHE_RETURN_IF_ERROR(service::CheckName("memory", request.memory()));
    tenant_ = request.tenant();
    memory_ = request.memory();
  } else {
    if (!request.tenant().empty() && request.tenant() != tenant_) {
      return service::FieldError("tenant", "cannot change within a stream");
    }
    if (!request.memory().empty() && request.memory() != memory_) {
      return service::FieldError("memory", "cannot change within a stream");
    }
    if (request.sequence() <= last_sequence_) {
      return service::FieldError("sequence", "must be above that of the message before");
    }
  }
  // Every message: what the caller may do can change while the stream lives.
  LETHE_RETURN_IF_ERROR(call_.Admit(tenant_, memory_));
  LETHE_RETURN_IF_ERROR(
      service::CheckBatchSize("tokens", static_cast<size_t>(request.tokens_size())));
  started_ = true;
  last_sequence_ = request.sequence();
  Message message{.sequence = request.sequence(),
                  .bytes = request.ByteSizeLong(),
                  .tokens = calls::FromProto(request.tokens())};
  queued_tokens_ += message.tokens.size();
  queued_bytes_ += message.bytes;
  queue_.push_back(std::move(message));
  return absl::OkStatus();
}

bool InsertStream::QueueFull() const {
  return queue_.size() >= kMaxQueuedMessages || queued_tokens_ >= service::kMaxBatch ||
         queued_bytes_ >= kMaxQueuedBytes;
}

void InsertStream::Run() {
  const absl::Status status = Guarded([this] { return CommitLoop(); });
  Finish(FinishCall(status));  // the object may be gone now
}

absl::Status InsertStream::EnterCall() {
  MutexLock lock(mutex_);
  return call_.Enter();
}

grpc::Status InsertStream::FinishCall(const absl::Status& status) {
  MutexLock lock(mutex_);
  return call_.Finish(status);
}

absl::Status InsertStream::CommitLoop() {
  while (true) {
    Group group = NextGroup();
    if (group.resume_reading) StartRead(&incoming_);
    if (group.messages.empty()) {
      MutexLock lock(mutex_);
      if (broken_) return absl::CancelledError("the caller is gone");
      if (group.silent) {
        return absl::UnavailableError(
            absl::StrCat("no message came for ",
                         absl::FormatDuration(started_ ? limits_.idle : limits_.patience)));
      }
      if (!reads_done_) return absl::UnavailableError("the server is stopping");
      return input_status_;
    }
    v1::InsertStreamResponse response;
    LETHE_RETURN_IF_ERROR(Commit(std::move(group), &response));
    if (!Write(response)) return absl::CancelledError("the caller is gone");
  }
}

InsertStream::Group InsertStream::NextGroup() {
  MutexLock lock(mutex_);
  Relockable relockable(mutex_);
  const auto due = DueAfter(started_ ? limits_.idle : limits_.patience);
  Group group;
  while (queue_.empty() && !reads_done_ && !broken_ && !stopping_) {
    if (changed_.wait_until(relockable, due) == std::cv_status::no_timeout) continue;
    group.silent = queue_.empty() && !reads_done_ && !broken_ && !stopping_;
    if (group.silent) return group;
  }
  if (broken_) return group;
  size_t tokens = 0;
  size_t bytes = 0;
  while (!queue_.empty() &&
         (group.messages.empty() || (tokens + queue_.front().tokens.size() <= service::kMaxBatch &&
                                     bytes + queue_.front().bytes <= kMaxQueuedBytes))) {
    tokens += queue_.front().tokens.size();
    bytes += queue_.front().bytes;
    group.messages.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  queued_tokens_ -= tokens;
  queued_bytes_ -= bytes;
  group.resume_reading = read_paused_ && !stopping_ && !QueueFull();
  if (group.resume_reading) read_paused_ = false;
  return group;
}

absl::Status InsertStream::Commit(Group group, v1::InsertStreamResponse* response) {
  std::string tenant;
  std::string memory;
  {
    MutexLock lock(mutex_);
    tenant = tenant_;
    memory = memory_;
  }
  std::vector<std::vector<service::TokenInput>> batches;
  batches.reserve(group.messages.size());
  for (Message& message : group.messages) batches.push_back(std::move(message.tokens));
  LETHE_ASSIGN_OR_RETURN(
      const std::vector<service::InsertReply> replies,
      service_->InsertBatches(tenant, memory, std::move(batches), CallOptionsOf(context_)));
  response->set_acknowledged_sequence(group.messages.back().sequence);
  uint64_t inserted = 0;
  uint64_t unchanged = 0;
  uint64_t rejected = 0;
  for (size_t m = 0; m < replies.size(); ++m) {
    inserted += replies[m].inserted;
    unchanged += replies[m].unchanged;
    rejected += replies[m].rejected;
    for (size_t i = 0; i < replies[m].results.size(); ++i) {
      const service::InsertItem& item = replies[m].results[i];
      if (!item.error.has_value()) continue;
      v1::InsertStreamResponse::Rejection* rejection = response->add_rejections();
      rejection->set_sequence(group.messages[m].sequence);
      rejection->set_index(static_cast<uint32_t>(i));
      rejection->set_id(item.id);
      calls::ToProto(*item.error, rejection->mutable_error());
    }
  }
  response->set_inserted(inserted);
  response->set_unchanged(unchanged);
  response->set_rejected(rejected);
  calls::SetState(replies.back(), response);
  return absl::OkStatus();
}

bool InsertStream::Write(const v1::InsertStreamResponse& response) {
  outgoing_ = SerializeMessage(response);
  {
    MutexLock lock(mutex_);
    if (broken_) return false;
    writing_ = true;
  }
  const auto due = DueAfter(limits_.patience);
  StartWrite(&outgoing_);
  if (!WaitForWrite(due)) {
    // Without the lock: OnCancel takes it, and may be called from within.
    EndCall(context_, absl::UnavailableError("an acknowledgement was not taken for too long"));
    WaitForWrite(std::nullopt);
  }
  MutexLock lock(mutex_);
  return !broken_;
}

bool InsertStream::WaitForWrite(std::optional<std::chrono::steady_clock::time_point> due) {
  MutexLock lock(mutex_);
  Relockable relockable(mutex_);
  // Not left on broken_ alone: gRPC owns `outgoing_` until OnWriteDone, which always comes.
  while (writing_) {
    if (!due.has_value()) {
      changed_.wait(relockable);
    } else if (changed_.wait_until(relockable, *due) == std::cv_status::timeout) {
      return !writing_;
    }
  }
  return true;
}

}  // namespace lethe::rpc
