// From the bytes of a request to its message, with an error that names the field.
//
// The generated handlers would answer text that is no UTF-8 with INTERNAL and no word about where;
// so the bytes are taken as they come and parsed here.
#ifndef LETHE_SERVER_RPC_PARSE_H_
#define LETHE_SERVER_RPC_PARSE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"

namespace lethe::rpc {

// INVALID_ARGUMENT names the field that is not valid UTF-8 ("tokens[3].id: ..."), or that has more
// than 10,000 messages or texts, or says that the bytes are no such message, or hold more than
// 200,000 of them in all. The bytes are counted before anything is made of them: two bytes on the
// wire can stand for a message of hundreds in memory.
absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message);

// Requires a message below 2 GiB.
grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message);

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_PARSE_H_
