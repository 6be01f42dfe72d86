// The channel of a connection: encrypted or not, with the caller's token on each call.
#ifndef LETHE_CLIENT_CHANNEL_H_
#define LETHE_CLIENT_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/options.h"
#include "grpcpp/channel.h"

namespace lethe::client {

// Whether an address is this machine's: localhost, 127.0.0.0/8, ::1, a Unix socket. Every other
// name is taken for one of another machine.
bool IsLoopbackAddress(absl::string_view address);

// Never null. Where the options name files that cannot be read, `status` says so, and a channel of
// such options fails every call; it is OK otherwise. Requires a valid `options`, or that `status`
// is an error already, which stays.
std::shared_ptr<grpc::Channel> MakeChannel(const Options& options, absl::Status& status);

}  // namespace lethe::client

#endif  // LETHE_CLIENT_CHANNEL_H_
