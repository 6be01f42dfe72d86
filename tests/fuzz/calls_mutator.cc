#include "tests/fuzz/calls_mutator.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/calls/unary_calls.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/messages.h"

namespace lethe::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMostCalls = 8;
constexpr int kMostElements = 24;
constexpr std::array kSteps = {"Work", "Restart", "Day"};
constexpr std::array kTexts = {"t",
                               "u",
                               "m",
                               "dot",
                               "empty",
                               "n",
                               "a0",
                               "a1",
                               "a5",
                               "b",
                               "gone",
                               "c1",
                               "held",
                               "later",
                               "x",
                               "",
                               "k",
                               "r1",
                               "canary~7f3a",
                               "@hold@",
                               "@certificate@",
                               "@request@",
                               "@cosignature@",
                               "2026-02-20T00:00:00Z",
                               "2026-13-01T00:00:00Z",
                               "https://controller.example/a",
                               "d41d8cd98f00b204e9800998ecf8427e",
                               "\u00e9\u4e2d",
                               "\x7f"};
constexpr std::array kDoubles = {0.0,  -0.0, 1.0,    -1.0,   0.5,   0.25,  1.0 / 3, 3.0,
                                 1e-9, 1e-8, 1e-300, 5e-324, 1e100, 1e300, 20.0,    4096.0};
constexpr std::array<uint64_t, 12> kNumbers = {0,
                                               1,
                                               2,
                                               3,
                                               4,
                                               7,
                                               100,
                                               1000,
                                               1001,
                                               10001,
                                               std::numeric_limits<uint32_t>::max(),
                                               std::numeric_limits<uint64_t>::max()};

struct Step {
  std::string name;
  std::unique_ptr<Message> request;  // null: no call
};

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {
    for (const calls::UnaryCall& call : calls::AllUnaryCalls(nullptr)) calls_.push_back(call);
  }

  std::string Mutate(absl::string_view input) {
    if (!Read(input)) return "";
    do {
      switch (Below(12)) {
        case 0:
          Insert(steps_.size(), NewStep());
          break;
        case 1:
          Insert(Below(steps_.size() + 1), Copy(steps_[Below(steps_.size())]));
          break;
        case 2:
          if (steps_.size() > 1) steps_.erase(steps_.begin() + Place());
          break;
        case 3:
          std::swap(steps_[Below(steps_.size())], steps_[Below(steps_.size())]);
          break;
        default:
          if (Step& step = steps_[Below(steps_.size())]; step.request != nullptr) {
            Change(*step.request);
          }
      }
    } while (Below(3) != 0);
    return Print();
  }

 private:
  size_t Below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }
  std::ptrdiff_t Place() { return static_cast<std::ptrdiff_t>(Below(steps_.size())); }

  std::unique_ptr<Message> RequestOf(const std::string& name) const {
    const auto found = std::find_if(calls_.begin(), calls_.end(),
                                    [&](const auto& call) { return call.method->name() == name; });
    return found == calls_.end() ? nullptr : std::unique_ptr<Message>(found->request->New());
  }

  bool Read(absl::string_view input) {
    for (const absl::string_view part : Parts(input, kMostCalls)) {
      Step step;
      const size_t end = std::min(part.find('\n'), part.size());
      step.name = std::string(part.substr(0, end));
      step.request = RequestOf(step.name);
      const bool known = step.request != nullptr ||
                         std::find(kSteps.begin(), kSteps.end(), step.name) != kSteps.end();
      if (!known) break;
      if (step.request != nullptr && !ReadText(std::string(part.substr(end)), *step.request)) break;
      steps_.push_back(std::move(step));
    }
    return !steps_.empty();
  }

  std::string Print() const {
    std::string text;
    for (const Step& step : steps_) {
      absl::StrAppend(&text, text.empty() ? "" : "---\n", step.name, "\n");
      if (step.request != nullptr) absl::StrAppend(&text, PrintText(*step.request));
    }
    return text;
  }

  Step Copy(const Step& step) const {
    Step copy{.name = step.name, .request = RequestOf(step.name)};
    if (copy.request != nullptr) copy.request->CopyFrom(*step.request);
    return copy;
  }
  void Insert(size_t place, Step step) {
    if (steps_.size() < kMostCalls) {
      steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(place), std::move(step));
    }
  }
  // Of tenant t and its memory m, where it has such fields.
  Step NewStep() {
    const size_t which = Below(calls_.size() + kSteps.size());
    if (which >= calls_.size()) return {.name = kSteps[which - calls_.size()], .request = nullptr};
    Step step{.name = calls_[which].method->name(), .request = nullptr};
    step.request = RequestOf(step.name);
    for (const auto& [name, value] : {std::pair("tenant", "t"), std::pair("memory", "m")}) {
      const FieldDescriptor* field = step.request->GetDescriptor()->FindFieldByName(name);
      if (field != nullptr)
        step.request->GetReflection()->SetString(step.request.get(), field, value);
    }
    for (int i = 0; i < step.request->GetDescriptor()->field_count(); ++i) {
      if (Below(2) == 0) ChangeField(*step.request, step.request->GetDescriptor()->field(i), 0);
    }
    return step;
  }

  void Change(Message& message, int depth = 0) {
    const google::protobuf::Descriptor* type = message.GetDescriptor();
    if (type->field_count() == 0) return;
    ChangeField(message,
                type->field(static_cast<int>(Below(static_cast<size_t>(type->field_count())))),
                depth);
  }

  void ChangeField(Message& message, const FieldDescriptor* field, int depth) {
    constexpr int kDeepest = 6;
    const Reflection& reflection = *message.GetReflection();
    if (depth > kDeepest) return;
    if (!field->is_repeated()) {
      if (Below(8) == 0) return reflection.ClearField(&message, field);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        return Change(*reflection.MutableMessage(&message, field), depth + 1);
      }
      return Set(message, field, -1);
    }
    const int size = reflection.FieldSize(message, field);
    const size_t what = Below(4);
    if (size == 0 || (what == 0 && size < kMostElements)) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        Message* added = reflection.AddMessage(&message, field);
        for (int i = 0; i < added->GetDescriptor()->field_count(); ++i) {
          ChangeField(*added, added->GetDescriptor()->field(i), depth + 1);
        }
        return;
      }
      return Set(message, field, -1);
    }
    if (what == 1) return reflection.RemoveLast(&message, field);
    const int at = static_cast<int>(Below(static_cast<size_t>(size)));
    if (what == 2) return reflection.SwapElements(&message, field, at, size - 1);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return Change(*reflection.MutableRepeatedMessage(&message, field, at), depth + 1);
    }
    Set(message, field, at);
  }

  // One value; `at` -1: the field itself, or another element of a list.
  void Set(Message& message, const FieldDescriptor* field, int at) {
    const Reflection& reflection = *message.GetReflection();
    const auto put = [&](auto set, auto set_at, auto add, auto value) {
      if (at >= 0) {
        (reflection.*set_at)(&message, field, at, value);
      } else if (field->is_repeated()) {
        (reflection.*add)(&message, field, value);
      } else {
        (reflection.*set)(&message, field, value);
      }
    };
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        return put(&Reflection::SetString, &Reflection::SetRepeatedString, &Reflection::AddString,
                   std::string(kTexts[Below(kTexts.size())]));
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        double value = kDoubles[Below(kDoubles.size())];
        if (Below(2) == 0) value = (static_cast<double>(Below(65)) - 32.0) / 8.0;
        if (Below(32) == 0) value = std::numeric_limits<double>::quiet_NaN();
        return put(&Reflection::SetDouble, &Reflection::SetRepeatedDouble, &Reflection::AddDouble,
                   value);
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        return put(&Reflection::SetBool, &Reflection::SetRepeatedBool, &Reflection::AddBool,
                   Below(2) == 0);
      case FieldDescriptor::CPPTYPE_UINT32:
        return put(&Reflection::SetUInt32, &Reflection::SetRepeatedUInt32, &Reflection::AddUInt32,
                   static_cast<uint32_t>(kNumbers[Below(kNumbers.size())]));
      case FieldDescriptor::CPPTYPE_UINT64:
        return put(&Reflection::SetUInt64, &Reflection::SetRepeatedUInt64, &Reflection::AddUInt64,
                   kNumbers[Below(kNumbers.size())]);
      case FieldDescriptor::CPPTYPE_ENUM:
        return put(
            &Reflection::SetEnumValue, &Reflection::SetRepeatedEnumValue, &Reflection::AddEnumValue,
            static_cast<int>(Below(static_cast<size_t>(field->enum_type()->value_count()) + 1)));
      default:
        Fail("the mutator knows the types of all fields", field->full_name());
    }
  }

  std::mt19937 random_;
  std::vector<calls::UnaryCall> calls_;
  std::vector<Step> steps_;
};

}  // namespace

std::string MutateCalls(absl::string_view input, uint32_t seed) {
  return Mutator(seed).Mutate(input);
}

}  // namespace lethe::fuzz
