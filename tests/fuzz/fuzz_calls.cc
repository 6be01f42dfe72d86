// Calls of the server, as gRPC and HTTP both make them (server/calls).
#include <google/protobuf/message.h>
#include <grpc/grpc.h>
#include <grpcpp/impl/grpc_library.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "lethe/v1/memory_service.pb.h"
#include "server/calls/unary_calls.h"
#include "server/http/json.h"
#include "server/rpc/parse.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/messages.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/world.h"

namespace lethe::fuzz {
namespace {

using google::protobuf::Message;

constexpr size_t kMostCalls = 8;
constexpr size_t kPieceBytes = 7;

// Steps that are no calls: what is due of erasure requests is done; the server is started anew; a
// day passes.
enum Step : size_t { kWork, kRestart, kDay, kSteps };
constexpr std::array<const char*, kSteps> kStepNames = {"Work", "Restart", "Day"};

class Calls {
 public:
  Calls() {
    SilenceProtobuf();
    grpc_init();
    Take();
    for (const calls::UnaryCall& call : calls_) names_.push_back(call.method->name());
    names_.insert(names_.end(), kStepNames.begin(), kStepNames.end());
  }

  void Run(absl::string_view input) {
    bool changed = false;
    // A message in the form of the wire may hold anything.
    const bool binary = !input.empty() && static_cast<unsigned char>(input[0]) >= 0x80;
    for (const absl::string_view part :
         binary ? std::vector<absl::string_view>{input} : Parts(input, kMostCalls)) {
      const std::optional<Choice> choice = Choose(part, names_);
      if (!choice.has_value()) break;
      if (choice->index >= calls_.size()) {
        changed = true;
        Do(static_cast<Step>(choice->index - calls_.size()));
        continue;
      }
      const calls::UnaryCall& call = calls_[choice->index];
      const std::unique_ptr<Message> request(call.request->New());
      if (!(binary ? ReadWire(choice->rest, *request)
                   : ReadText(world_.Fill(choice->rest), *request)))
        break;
      changed |= Make(call, *request);
    }
    world_.EndInput(changed);
    if (changed) Take();
  }

 private:
  void Take() { calls_ = calls::AllUnaryCalls(world_.service()); }

  // As gRPC gives it to a handler, in pieces.
  static bool ReadWire(absl::string_view bytes, Message& request) {
    std::vector<grpc::Slice> slices;
    for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
      const absl::string_view piece = bytes.substr(at, kPieceBytes);
      slices.emplace_back(piece.data(), piece.size());
    }
    const grpc::ByteBuffer buffer(slices.data(), slices.size());
    const absl::Status parsed = rpc::ParseMessage(buffer, &request);
    const std::unique_ptr<Message> whole(request.New());
    const bool good = whole->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
    if (parsed.ok()) {
      Require(good && WireBytes(*whole) == WireBytes(request), "a request is the same in pieces");
      return true;
    }
    World::CheckCode("a request", parsed);
    // An input is too short for more entries than a field may have.
    Require(!good || absl::StrContains(parsed.message(), "nested too deep"),
            "what is a message is taken for one", parsed.ToString());
    return false;
  }

  void Do(Step step) {
    if (step == kWork) world_.service()->RunDueErasures();
    if (step == kDay) world_.Pass(absl::Hours(24));
    if (step == kRestart) {
      world_.Restart();
      Take();
    }
  }

  // Whether it may have changed something.
  static bool Make(const calls::UnaryCall& call, const Message& request) {
    const std::unique_ptr<Message> answer(call.response->New());
    const absl::Status status = call.handle(request, {}, answer.get());
    World::CheckCode(call.method->name(), status);
    if (!status.ok()) return false;
    if (const auto* inserted = dynamic_cast<const v1::InsertResponse*>(answer.get())) {
      for (const v1::InsertResult& result : inserted->results()) {
        if (!result.has_error()) continue;
        World::CheckCode("Insert",
                         absl::Status(static_cast<absl::StatusCode>(result.error().code()),
                                      result.error().message()));
        CheckMessage("Insert", result.error().field());
      }
    }
    // What gRPC can send, HTTP can say.
    const absl::StatusOr<std::string> json = http::ToJson(*answer);
    RequireOk(json.status(), call.method->name());
    const std::unique_ptr<Message> again(call.response->New());
    RequireOk(http::FromJson(*json, again.get()), call.method->name());
    Require(WireBytes(*again) == WireBytes(*answer), "an answer is the same in JSON",
            call.method->name());
    const std::string& name = call.method->name();
    return name.rfind("Get", 0) != 0 && name.rfind("List", 0) != 0 && name != "Query" &&
           name != "Describe" && name != "Discover";
  }

  const grpc::internal::GrpcLibraryInitializer grpc_;
  World world_{"calls"};
  std::vector<calls::UnaryCall> calls_;
  std::vector<std::string> names_;
};

}  // namespace

void FuzzCalls(absl::string_view input) {
  static Calls* const calls = new Calls;
  calls->Run(input);
}

}  // namespace lethe::fuzz
