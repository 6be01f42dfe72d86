// The streams of the default connection, one attempt each.
//
// Internal to client/. Threads: as InsertStream and QueryStream (client/connection.h).
#ifndef LETHE_CLIENT_GRPC_STREAMS_H_
#define LETHE_CLIENT_GRPC_STREAMS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "lethe/v1/memory_service.grpc.pb.h"

namespace lethe::client {

// `stub` must outlive the stream.
std::unique_ptr<InsertStream> OpenGrpcInsertStream(v1::MemoryService::StubInterface& stub,
                                                   MemoryName name,
                                                   absl::Time deadline);
std::unique_ptr<QueryStream> OpenGrpcQueryStream(v1::MemoryService::StubInterface& stub,
                                                 absl::Time deadline);

// Streams that never were; Finish returns `status`.
std::unique_ptr<InsertStream> FailedInsertStream(absl::Status status);
std::unique_ptr<QueryStream> FailedQueryStream(absl::Status status);

}  // namespace lethe::client

#endif  // LETHE_CLIENT_GRPC_STREAMS_H_
