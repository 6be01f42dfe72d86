#include "audit/report.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "audit/encoding.h"
#include "audit/statement.h"

namespace lethe::audit {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kLabelColumns = 14;

struct CheckLine {
  Failure failure;  // what this check reports when it fails
  absl::string_view name;
  absl::string_view words;
};

// In the order of VerifyCertificate.
constexpr std::array<CheckLine, 8> kChecks = {{
    {Failure::kMalformedEnvelope, "envelope", "canonical JSON with exactly one signature"},
    {Failure::kWrongPayloadType, "type", "application/vnd.in-toto+json"},
    {Failure::kUnknownKey, "key", "the envelope names the pinned key"},
    {Failure::kBadSignature, "signature", "Ed25519, by the pinned key over type and payload"},
    {Failure::kNonCanonicalPayload, "payload", "the one canonical text of its JSON value"},
    {Failure::kBadStatement, "statement", "complete, within limits, its numbers agree"},
    {Failure::kOriginMismatch, "origin", "belongs to the log of the key"},
    {Failure::kLeafMismatch, "leaf", "the log entry of this certificate"},
}};

size_t CodePoints(absl::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

// The longest prefix of at most `columns` code points, at a space where there is one.
size_t LineLength(absl::string_view text, size_t columns) {
  if (CodePoints(text) <= columns) return text.size();
  size_t end = 0;
  for (size_t points = 0; end < text.size(); ++end) {
    const bool starts_point = (static_cast<uint8_t>(text[end]) & 0xC0) != 0x80;
    if (starts_point && points++ == columns) break;
  }
  const size_t space = text.substr(0, end).rfind(' ');
  return space == absl::string_view::npos || space == 0 ? end : space;
}

// "  label       value", the value wrapped and indented under itself.
void AppendField(std::string& out, absl::string_view label, absl::string_view value) {
  absl::string_view rest = value;
  std::string head = absl::StrCat("  ", label);
  do {
    head.resize(std::max(kLabelColumns, head.size() + 1), ' ');
    const size_t length = LineLength(rest, kColumns - std::min(head.size(), kColumns / 2));
    absl::StrAppend(&out, head, rest.substr(0, length), "\n");
    rest.remove_prefix(length);
    while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
    head.clear();
  } while (!rest.empty());
}

void AppendPartition(std::string& out, const PartitionSizes& before, const PartitionSizes& after) {
  absl::StrAppendFormat(&out, "  %-12s%16s%16s%16s\n", "partition", "before", "after", "change");
  const auto line = [&](absl::string_view name, uint64_t from, uint64_t to) {
    const std::string change =
        from == to ? "0"
                   : (to > from ? absl::StrCat("+", to - from) : absl::StrCat("-", from - to));
    absl::StrAppendFormat(&out, "    %-10s%16d%16d%16s\n", name, from, to, change);
  };
  line("margin", before.margin, after.margin);
  line("error", before.error, after.error);
  line("reserve", before.reserve, after.reserve);
  line("all", before.total(), after.total());
}

void AppendVerdict(std::string& out, const StateChange& change) {
  AppendField(out, "verdict", Name(change.verdict));
  const Residuals& residuals = change.residuals;
  std::vector<std::string> facts = {
      absl::StrFormat("KKT residual %.3g", residuals.kkt_residual),
      absl::StrFormat("duality gap %.3g", residuals.duality_gap),
      absl::StrFormat("slack %.3g", residuals.slack),
      absl::StrFormat("weights within %.3g", residuals.weight_bound),
      absl::StrFormat("decision within %.3g", residuals.decision_bound),
      absl::StrFormat("condition %.3g", residuals.condition),
      absl::StrFormat("%d bits", residuals.precision_bits)};
  if (residuals.gap_bound.has_value()) {
    facts.push_back(absl::StrFormat("gap at most %.3g", *residuals.gap_bound));
  }
  if (residuals.readout_bound.has_value()) {
    facts.push_back(
        absl::StrFormat("readout within %.3g of the largest value", *residuals.readout_bound));
  }
  AppendField(out, "residuals", absl::StrJoin(facts, ", "));
  if (change.refit.has_value()) {
    AppendField(out, "cold refit",
                change.refit->bits_equal ? std::string("every bit equal")
                                         : absl::StrFormat("differs, by at most %.3g a weight",
                                                           change.refit->deviation));
  }
}

void AppendSelection(std::string& out, const Selection& selection) {
  AppendField(out, "selection",
              absl::StrCat(
                  "budget ", selection.budget, ": ", selection.reserve, " taken from the reserve, ",
                  selection.surplus, " surplus copies; ", selection.retained, " retained",
                  selection.retained > selection.budget ? ", as the rest carries weight" : ""));
  AppendField(out, "scope",
              "At that time no readout and no label of a group with weight changed. From then on "
              "changes are measured against the tokens retained: one that arrives later could have "
              "given weight to a token that was taken out.");
}

void AppendCounts(std::string& out, const ErasureCounts& counts) {
  AppendField(out, "tokens",
              absl::StrCat("matched ", counts.matched, ", erased ", counts.erased, ", not found ",
                           counts.not_found, ", already erased ", counts.already_erased, ", held ",
                           counts.held));
}

void AppendDestruction(std::string& out, const KeyDestruction& destruction) {
  if (destruction.erasures.has_value()) {
    AppendField(out, "destroyed",
                absl::StrCat("the data keys of every erasure in certificates ",
                             destruction.erasures->first, " to ", destruction.erasures->last, "; ",
                             destruction.keys, " were live before"));
  }
  if (!destruction.epochs.empty()) {
    AppendField(
        out, "epochs",
        absl::StrCat("key-encryption keys destroyed: ", absl::StrJoin(destruction.epochs, ", "),
                     "; older copies of keys wrapped under them are of no use"));
  }
}

void AppendRestoration(std::string& out, const Restoration& restoration) {
  AppendField(out, "restored",
              absl::StrCat("from a copy whose log had ", restoration.size, " certificates; ",
                           restoration.reapplied, " later ones put back, ", restoration.removed,
                           " tokens taken out again"));
}

// The check that a failure belongs to; a malformed leaf fails at the line of the leaf.
Failure CheckOf(Failure failure) {
  return failure == Failure::kMalformedLeaf ? Failure::kLeafMismatch : failure;
}

}  // namespace

std::string DescribeChecks(const CertificateResult& result, bool leaf_given) {
  std::string out;
  bool reached = true;
  for (const CheckLine& check : kChecks) {
    absl::string_view mark = reached ? "ok" : "-";
    absl::string_view words = check.words;
    if (reached && !result.ok() && check.failure == CheckOf(result.failure)) {
      mark = "FAILED";
      reached = false;
    } else if (check.failure == Failure::kLeafMismatch && !leaf_given) {
      mark = "-";
      words = "not given";
    }
    absl::StrAppendFormat(&out, "  %-8s%-12s%s\n", mark, check.name, words);
  }
  return out;
}

std::string DescribeBody(const CertificateBody& body) {
  std::string out;
  AppendField(out, "kind", Name(body.kind));
  AppendField(out, "log", body.origin);
  AppendField(out, "sequence", absl::StrCat(body.sequence));
  AppendField(
      out, "previous",
      body.previous_leaf_hash.has_value() ? Hex(*body.previous_leaf_hash) : "none, the first");
  AppendField(out, "time", body.time);
  AppendField(out, "build", body.build);
  AppendField(out, "request", Hex(body.request_commitment));
  if (body.subject_commitment.has_value()) {
    AppendField(out, "subject", Hex(*body.subject_commitment));
  }
  if (body.change.has_value()) {
    AppendField(out, "memory", body.change->memory_uid);
    AppendField(out, "config", Hex(body.change->config));
    AppendField(out, "root before", Hex(body.change->root_before));
    AppendField(out, "root after", Hex(body.change->root_after));
    AppendPartition(out, body.change->partition_before, body.change->partition_after);
    AppendVerdict(out, *body.change);
    if (body.change->selection.has_value()) AppendSelection(out, *body.change->selection);
  }
  if (body.handover.has_value()) {
    AppendField(out, "next key", body.handover->next);
  } else {
    AppendCounts(out, body.counts);
  }
  if (body.destruction.has_value()) AppendDestruction(out, *body.destruction);
  if (body.restoration.has_value()) AppendRestoration(out, *body.restoration);
  for (const StoreErasure& store : body.stores) {
    AppendField(out, "store",
                absl::StrCat(store.store, ": ", store.level, store.evidence.empty() ? "" : "; ",
                             store.evidence));
  }
  for (const std::string& exception : body.exceptions) AppendField(out, "exception", exception);
  if (body.exceptions.empty()) AppendField(out, "exceptions", "none");
  return out;
}

std::string DescribeInOneLine(const CertificateBody& body) {
  std::string line =
      absl::StrFormat("%6d  %s  %-13s erased %d", body.sequence, body.time.substr(0, 19) + "Z",
                      Name(body.kind), body.counts.erased);
  if (body.change.has_value()) {
    const auto sizes = [](const PartitionSizes& partition) {
      return absl::StrCat(partition.margin, "/", partition.error, "/", partition.reserve);
    };
    absl::StrAppend(&line, "  ", sizes(body.change->partition_before), " -> ",
                    sizes(body.change->partition_after));
  }
  return line.substr(0, kColumns);
}

std::string FailureWords(const ChainResult& result) {
  const std::string word(Name(result.failure));
  return result.failure == Failure::kEmptyChain
             ? word
             : absl::StrCat(word, " at entry ", result.failed_index);
}

std::string DescribeFailure(absl::string_view words, absl::string_view message) {
  std::string out = absl::StrCat("REFUSED   ", words, "\n");
  AppendField(out, "", message);
  return out;
}

Json ReportJson(const CertificateResult& result) {
  Json json = Json::MakeObject();
  json.Set("failure", Json::String(Name(result.failure)));
  json.Set("message", Json::String(result.message));
  if (result.ok()) {
    json.Set("id", Json::String(result.id));
    json.Set("leafHash", Json::String(Hex(result.leaf_hash)));
    json.Set("statement", StatementToJson(*result.body));
  }
  return json;
}

Json ReportJson(const ChainResult& result) {
  Json json = Json::MakeObject();
  json.Set("entries", Json::Integer(result.verified));
  json.Set("failure", Json::String(Name(result.failure)));
  json.Set("message", Json::String(result.message));
  json.Set("root", Json::String(Hex(result.root)));
  if (!result.ok()) json.Set("failedIndex", Json::Integer(result.failed_index));
  if (result.verified > 0) json.Set("lastLeafHash", Json::String(Hex(result.last_leaf_hash)));
  return json;
}

}  // namespace lethe::audit
