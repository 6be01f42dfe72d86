// lethe health: what grpc.health.v1 says of the server, for probes that cannot speak TLS
// themselves.
#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/channel.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/health.h"
#include "client/cli/render.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"

namespace lethe::cli {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
// A length below 128 is one byte of a message.
constexpr size_t kMaxServiceName = 127;

// HealthCheckRequest{1: service}. Debian has no library with these two messages, and they are too
// small for a copy of the file that defines them.
std::string Request(const std::string& service) {
  if (service.empty()) return "";
  return absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
}

// Of HealthCheckResponse{1: status}.
std::string StatusName(absl::string_view response) {
  if (response == "\x08\x01") return "SERVING";
  if (response == "\x08\x02") return "NOT_SERVING";
  return "UNKNOWN";
}

int Health(Context& context, const std::string& service) {
  if (service.size() > kMaxServiceName) {
    return context.UsageError(absl::StrCat("--service: at most ", kMaxServiceName, " bytes"));
  }
  const absl::StatusOr<std::string> health = CheckHealth(context.ConnectionOptions(), service);
  if (!health.ok()) return context.RpcError(health.status());
  Print(context, {{"address", context.globals.address}, {"service", service}, {"health", *health}},
        absl::StrCat(*health, "\n"));
  return *health == "SERVING" ? kExitOk
                              : kExitRpcBase + static_cast<int>(absl::StatusCode::kUnavailable);
}

}  // namespace

absl::StatusOr<std::string> CheckHealth(const client::Options& options,
                                        const std::string& service) {
  absl::Status made;
  grpc::GenericStub stub(client::MakeChannel(options, made));
  if (!made.ok()) return made;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(options.deadline));
  const grpc::Slice slice(Request(service));
  const grpc::ByteBuffer request(&slice, 1);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, kMethod, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  int tag = 0;
  call->Finish(&response, &status, &tag);
  void* done = nullptr;
  bool ok = false;
  queue.Next(&done, &ok);
  if (!status.ok()) {
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  std::vector<grpc::Slice> slices;
  if (!response.Dump(&slices).ok()) return absl::InternalError("an answer that cannot be read");
  std::string bytes;
  for (const grpc::Slice& part : slices) {
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return StatusName(bytes);
}

void AddHealthCommand(CLI::App& app, Context& context, Action& action) {
  auto service = std::make_shared<std::string>();
  CLI::App* verb =
      AddVerb(app, "health", "Ask whether the server takes calls; needs no credentials",
              "Exit status 0 when the answer is SERVING, 78 when it is another one.");
  verb->add_option("--service", *service, "One service, such as lethe.v1.MemoryService")
      ->type_name("NAME");
  verb->callback([&context, &action, service] {
    action = [&context, service] { return Health(context, *service); };
  });
}

}  // namespace lethe::cli
