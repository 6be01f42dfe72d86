// JSON from outside: the bodies of HTTP calls, and objects of others.
#include <google/protobuf/message.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/access/strict_json.h"
#include "server/calls/unary_calls.h"
#include "server/http/json.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/messages.h"
#include "tests/fuzz/targets.h"

namespace lethe::fuzz {
namespace {

using google::protobuf::Message;

constexpr char kStrict[] = "strict";

// One of a text, whatever its names are.
int DepthOf(const nlohmann::json& json) {
  int most = 0;
  if (!json.is_structured()) return most;
  for (const nlohmann::json& one : json) most = std::max(most, DepthOf(one));
  return most + 1;
}

class JsonReaders {
 public:
  JsonReaders() {
    SilenceProtobuf();
    for (const calls::UnaryCall& call : calls::AllUnaryCalls(nullptr)) {
      requests_.push_back(call.request);
      names_.push_back(call.method->name());
    }
    names_.emplace_back(kStrict);
  }

  void Run(absl::string_view input) const {
    const std::optional<Choice> choice = Choose(input, names_);
    if (!choice.has_value()) return;
    const absl::string_view text = choice->rest;
    if (choice->index == requests_.size()) return Strict(text);

    const absl::Status checked = http::CheckJson(text);
    if (checked.ok()) {
      const nlohmann::json json =
          nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
      Require(!json.is_discarded(), "what the check lets through is JSON");
      Require(DepthOf(json) <= http::kMaxJsonDepth, "and no deeper than it says");
    }
    const std::unique_ptr<Message> message(requests_[choice->index]->New());
    const absl::Status read = http::FromJson(text, message.get());
    Refused(checked, names_[choice->index]);
    Refused(read, names_[choice->index]);
    if (!read.ok()) return;
    Require(text.empty() || checked.ok(), "only what was checked is read");
    const absl::StatusOr<std::string> printed = http::ToJson(*message);
    RequireOk(printed.status(), "what was read can be printed");
    const std::unique_ptr<Message> again(requests_[choice->index]->New());
    RequireOk(http::FromJson(*printed, again.get()), "what was printed can be read");
    Require(WireBytes(*again) == WireBytes(*message), "and is the same message", *printed);
  }

 private:
  static void Refused(const absl::Status& status, absl::string_view what) {
    if (status.ok()) return;
    Require(status.code() == absl::StatusCode::kInvalidArgument, "wrong JSON is INVALID_ARGUMENT",
            status.ToString());
    CheckMessage(what, std::string(status.message()));
    Require(status.message().find(": ") != absl::string_view::npos, "a refusal names its place",
            status.ToString());
  }

  static void Strict(absl::string_view text) {
    const absl::StatusOr<nlohmann::json> json = access::ParseStrictObject(text);
    if (http::CheckJson(text).ok() && IsObject(text)) {
      RequireOk(json.status(), "what one strict reader takes, the other does");
    }
    if (!json.ok()) return CheckMessage(kStrict, std::string(json.status().message()));
    Require(json->is_object(), "an object");
    Require(DepthOf(*json) <= http::kMaxJsonDepth + 1, "no deeper than it says");
    const std::string printed = json->dump();
    const absl::StatusOr<nlohmann::json> again = access::ParseStrictObject(printed);
    RequireOk(again.status(), "what was printed can be read");
    Require(*again == *json || printed == again->dump(), "and is the same");
  }
  static bool IsObject(absl::string_view text) {
    return nlohmann::json::parse(text.begin(), text.end(), nullptr, false).is_object();
  }

  std::vector<const Message*> requests_;
  std::vector<std::string> names_;
};

}  // namespace

void FuzzJson(absl::string_view input) {
  static const JsonReaders* const readers = new JsonReaders;
  readers->Run(input);
}

}  // namespace lethe::fuzz
