#include "client/grpc_streams.h"

#include <optional>
#include <utility>

#include "client/convert.h"
#include "grpcpp/client_context.h"

namespace lethe::client {
namespace {

class GrpcInsertStream : public InsertStream {
 public:
  GrpcInsertStream(v1::MemoryService::StubInterface& stub, MemoryName name, absl::Time deadline)
      : name_(std::move(name)) {
    context_.set_deadline(absl::ToChronoTime(deadline));
    stream_ = stub.InsertStream(&context_);
  }
  ~GrpcInsertStream() override { context_.TryCancel(); }

  bool Write(const InsertBatch& batch) override {
    v1::InsertStreamRequest message;
    if (!std::exchange(named_, true)) {
      message.set_tenant(name_.tenant);
      message.set_memory(name_.memory);
    }
    message.set_sequence(batch.sequence);
    message.mutable_tokens()->Reserve(static_cast<int>(batch.tokens.size()));
    for (const Token& token : batch.tokens) convert::ToWire(token, *message.add_tokens());
    return stream_->Write(message);
  }
  void WritesDone() override { stream_->WritesDone(); }
  std::optional<InsertAck> Read() override {
    v1::InsertStreamResponse message;
    if (!stream_->Read(&message)) return std::nullopt;
    return convert::FromWire(message);
  }
  absl::Status Finish() override { return convert::FromWire(stream_->Finish()); }
  void Cancel() override { context_.TryCancel(); }

 private:
  const MemoryName name_;
  bool named_ = false;
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriterInterface<v1::InsertStreamRequest, v1::InsertStreamResponse>>
      stream_;
};

class GrpcQueryStream : public QueryStream {
 public:
  GrpcQueryStream(v1::MemoryService::StubInterface& stub, absl::Time deadline) {
    context_.set_deadline(absl::ToChronoTime(deadline));
    stream_ = stub.QueryStream(&context_);
  }
  ~GrpcQueryStream() override { context_.TryCancel(); }

  bool Write(const QueryRequest& request) override {
    return stream_->Write(convert::ToWire(request));
  }
  void WritesDone() override { stream_->WritesDone(); }
  std::optional<QueryResult> Read() override {
    v1::QueryResponse message;
    if (!stream_->Read(&message)) return std::nullopt;
    return convert::FromWire(message);
  }
  absl::Status Finish() override { return convert::FromWire(stream_->Finish()); }
  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::QueryRequest, v1::QueryResponse>> stream_;
};

// A stream that never was.
template <typename Stream, typename Message, typename Item>
class FailedStream : public Stream {
 public:
  explicit FailedStream(absl::Status status) : status_(std::move(status)) {}
  bool Write(const Message&) override { return false; }
  void WritesDone() override {}
  std::optional<Item> Read() override { return std::nullopt; }
  absl::Status Finish() override { return status_; }
  void Cancel() override {}

 private:
  const absl::Status status_;
};

}  // namespace

std::unique_ptr<InsertStream> OpenGrpcInsertStream(v1::MemoryService::StubInterface& stub,
                                                   MemoryName name,
                                                   absl::Time deadline) {
  return std::make_unique<GrpcInsertStream>(stub, std::move(name), deadline);
}

std::unique_ptr<QueryStream> OpenGrpcQueryStream(v1::MemoryService::StubInterface& stub,
                                                 absl::Time deadline) {
  return std::make_unique<GrpcQueryStream>(stub, deadline);
}

std::unique_ptr<InsertStream> FailedInsertStream(absl::Status status) {
  return std::make_unique<FailedStream<InsertStream, InsertBatch, InsertAck>>(std::move(status));
}

std::unique_ptr<QueryStream> FailedQueryStream(absl::Status status) {
  return std::make_unique<FailedStream<QueryStream, QueryRequest, QueryResult>>(std::move(status));
}

}  // namespace lethe::client
