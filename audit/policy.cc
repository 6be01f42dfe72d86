// ParsePolicy and CheckQuorum of witness.h.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/witness.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

using Words = std::vector<absl::string_view>;

absl::Status Refuse(absl::string_view problem) { return absl::InvalidArgumentError(problem); }

class PolicyParser {
 public:
  absl::Status Line(const Words& words) {
    if (policy_.logs.size() + policy_.entries.size() >= kMaxPolicyEntries) {
      return Refuse("too many logs, witnesses and groups");
    }
    if (words[0] == "log") return Log(words);
    if (words[0] == "witness") return Witness(words);
    if (words[0] == "group") return Group(words);
    if (words[0] == "quorum") return Quorum(words);
    return Refuse("begins with none of log, witness, group, quorum");
  }

  absl::StatusOr<WitnessPolicy> Finish() && {
    if (!has_quorum_) return Refuse("policy: no quorum line");
    return std::move(policy_);
  }

 private:
  absl::Status Log(const Words& words) {
    if (words.size() != 2 && words.size() != 3) return Refuse("expected log VKEY [URL]");
    LETHE_ASSIGN_OR_RETURN(VerificationKey key, VerificationKey::Parse(words[1]));
    for (const VerificationKey& other : policy_.logs) {
      if (other.raw() == key.raw()) return Refuse("the key of an earlier log");
    }
    policy_.logs.push_back(std::move(key));
    return absl::OkStatus();
  }

  absl::Status Witness(const Words& words) {
    if (words.size() != 3 && words.size() != 4) return Refuse("expected witness NAME VKEY [URL]");
    LETHE_ASSIGN_OR_RETURN(WitnessKey key, WitnessKey::Parse(words[2]));
    for (const WitnessPolicy::Entry& other : policy_.entries) {
      if (other.witness.has_value() && other.witness->raw() == key.raw()) {
        return Refuse("the key of an earlier witness");
      }
    }
    WitnessPolicy::Entry entry;
    entry.witness = std::move(key);
    return Define(words[1], std::move(entry));
  }

  absl::Status Group(const Words& words) {
    if (words.size() < 4) return Refuse("expected group NAME all|any|N MEMBER...");
    WitnessPolicy::Entry entry;
    for (size_t i = 3; i < words.size(); ++i) {
      LETHE_ASSIGN_OR_RETURN(const size_t member, Find(words[i]));
      // In one group only, so that no witness counts twice.
      if (is_member_[member]) return Refuse("a member that has been in a group already");
      is_member_[member] = true;
      entry.members.push_back(member);
    }
    uint64_t threshold = 0;
    if (words[2] == "all") {
      threshold = entry.members.size();
    } else if (words[2] == "any") {
      threshold = 1;
    } else if (!absl::SimpleAtoi(words[2], &threshold) || absl::StrCat(threshold) != words[2]) {
      return Refuse("the threshold is neither all nor any nor a number");
    }
    if (threshold < 1 || threshold > entry.members.size()) {
      return Refuse("the threshold is not between 1 and the number of members");
    }
    entry.threshold = static_cast<size_t>(threshold);
    return Define(words[1], std::move(entry));
  }

  absl::Status Quorum(const Words& words) {
    if (words.size() != 2) return Refuse("expected quorum NAME or quorum none");
    if (has_quorum_) return Refuse("a second quorum");
    has_quorum_ = true;
    if (words[1] == "none") return absl::OkStatus();
    LETHE_ASSIGN_OR_RETURN(policy_.quorum, Find(words[1]));
    return absl::OkStatus();
  }

  absl::Status Define(absl::string_view name, WitnessPolicy::Entry entry) {
    if (name == "none" || Find(name).ok()) return Refuse("a name that is taken");
    entry.name = std::string(name);
    policy_.entries.push_back(std::move(entry));
    is_member_.push_back(false);
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> Find(absl::string_view name) const {
    for (size_t i = 0; i < policy_.entries.size(); ++i) {
      if (policy_.entries[i].name == name) return i;
    }
    return Refuse("a name that no earlier line defines");
  }

  WitnessPolicy policy_;
  std::vector<bool> is_member_;
  bool has_quorum_ = false;
};

}  // namespace

absl::StatusOr<WitnessPolicy> ParsePolicy(absl::string_view text) {
  if (text.size() > kMaxPolicyBytes) return Refuse("policy: longer than 1 MiB");
  if (text.empty() || text.back() != '\n') return Refuse("policy: does not end with a newline");
  text.remove_suffix(1);
  PolicyParser parser;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto fail = [&](absl::string_view problem) {
      return Refuse(absl::StrCat("policy: line ", number, ": ", problem));
    };
    const bool clean = std::all_of(line.begin(), line.end(), [](char c) {
      const uint8_t byte = static_cast<uint8_t>(c);
      return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
    });
    if (!clean) return fail("a control character");
    const Words words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    if (const absl::Status status = parser.Line(words); !status.ok()) {
      return fail(status.message());
    }
  }
  return std::move(parser).Finish();
}

QuorumResult CheckQuorum(const Note& note, const WitnessPolicy& policy) {
  QuorumResult result;
  std::vector<bool> satisfied;
  for (const WitnessPolicy::Entry& entry : policy.entries) {
    if (!entry.witness.has_value()) {
      const auto count = std::count_if(entry.members.begin(), entry.members.end(),
                                       [&](size_t member) { return satisfied[member]; });
      satisfied.push_back(static_cast<size_t>(count) >= entry.threshold);
      continue;
    }
    std::optional<int64_t> latest;
    for (const NoteSignature& line : note.signatures) {
      if (!entry.witness->Owns(line)) continue;
      int64_t time = 0;
      if (!entry.witness->Verify(note.text, line, &time)) {
        result.failure = Failure::kWitnessQuorum;
        result.message =
            absl::StrCat("The cosignature of witness ", entry.name, " does not verify.");
        return result;
      }
      latest = std::max(latest.value_or(time), time);
    }
    if (latest.has_value()) result.cosignatures.push_back({entry.name, *latest});
    satisfied.push_back(latest.has_value());
  }
  if (policy.quorum.has_value() && !satisfied[*policy.quorum]) {
    result.failure = Failure::kWitnessQuorum;
    result.message = absl::StrCat("Only ", result.cosignatures.size(),
                                  " of the policy's witnesses have cosigned: no quorum.");
  } else {
    result.message = "Verified.";
  }
  return result;
}

}  // namespace lethe::audit
