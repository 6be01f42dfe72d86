// ValidateBody: the rules of docs/certificate_format.md, section 3.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "audit/certificate.h"
#include "audit/json.h"
#include "audit/utc_time.h"
#include "audit/utf8.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr size_t kMaxSlugBytes = 64;
constexpr size_t kMaxBuildBytes = 256;
constexpr size_t kMaxTextBytes = 1024;
constexpr size_t kUidDigits = 32;
constexpr uint32_t kMaxPrecisionBits = 65536;

absl::Status Refuse(absl::string_view field, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
}

bool IsSlug(absl::string_view text, absl::string_view punctuation) {
  return !text.empty() && text.size() <= kMaxSlugBytes &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
                  punctuation.find(c) != absl::string_view::npos;
         });
}

// No control characters (C0, DEL, and C1, which UTF-8 writes as C2 80 to C2 9F): such text is shown
// on terminals.
bool IsText(absl::string_view text) {
  if (text.size() > kMaxTextBytes || !IsValidUtf8(text)) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint8_t byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return false;
    if (byte == 0xC2 && static_cast<uint8_t>(text[i + 1]) < 0xA0) return false;
  }
  return true;
}

absl::Status ValidateIntegers(absl::string_view field, std::initializer_list<uint64_t> values) {
  for (const uint64_t value : values) {
    if (value > kMaxJsonInteger) return Refuse(field, "an integer above 2^53 - 1");
  }
  return absl::OkStatus();
}

absl::Status ValidatePartition(absl::string_view field, const PartitionSizes& partition) {
  LETHE_RETURN_IF_ERROR(
      ValidateIntegers(field, {partition.margin, partition.error, partition.reserve}));
  // No overflow: each is below 2^53.
  return ValidateIntegers(field, {partition.total()});
}

absl::Status ValidateResiduals(const Residuals& residuals) {
  const auto bound = [](absl::string_view name, double value) {
    return value >= 0.0 ? absl::OkStatus()
                        : Refuse(absl::StrCat("change.residuals.", name), "negative or NaN");
  };
  LETHE_RETURN_IF_ERROR(bound("kktResidual", residuals.kkt_residual));
  LETHE_RETURN_IF_ERROR(bound("dualityGap", residuals.duality_gap));
  LETHE_RETURN_IF_ERROR(bound("weightBound", residuals.weight_bound));
  LETHE_RETURN_IF_ERROR(bound("decisionBound", residuals.decision_bound));
  if (residuals.gap_bound.has_value() != residuals.readout_bound.has_value()) {
    return Refuse("change.residuals.gapBound", "there exactly when readoutBound is");
  }
  LETHE_RETURN_IF_ERROR(bound("gapBound", residuals.gap_bound.value_or(0.0)));
  LETHE_RETURN_IF_ERROR(bound("readoutBound", residuals.readout_bound.value_or(0.0)));
  LETHE_RETURN_IF_ERROR(bound("condition", residuals.condition));
  if (std::isnan(residuals.slack)) return Refuse("change.residuals.slack", "NaN");
  if (residuals.precision_bits > kMaxPrecisionBits) {
    return Refuse("change.residuals.precisionBits", "above 65536");
  }
  return absl::OkStatus();
}

absl::Status ValidateVerdict(const StateChange& change) {
  const bool claims_equal = change.verdict == VerdictClass::kBitIdentical;
  const bool equal = change.refit.has_value() && change.refit->bits_equal;
  if (claims_equal != equal) {
    return Refuse("change.verdict", "bit-identical exactly when a refit gave equal bits");
  }
  if (!change.refit.has_value()) return absl::OkStatus();
  if (!(change.refit->deviation >= 0.0)) {
    return Refuse("change.refit.deviation", "negative or NaN");
  }
  if (equal && change.refit->deviation > 0.0) {
    return Refuse("change.refit.deviation", "must be 0 when the bits are equal");
  }
  // A refit that disagrees refutes the proof as well.
  if (!equal && change.verdict == VerdictClass::kProven) {
    return Refuse("change.verdict", "not proven when a refit gave other bits");
  }
  return absl::OkStatus();
}

// An eviction takes what no readout shows: tokens of weight 0, and copies of a group that stays in
// the margin. Which of the two the surplus was depends on the memory's policy for equal keys; it is
// one for the whole memory.
absl::Status ValidateSelection(const CertificateBody& body) {
  const StateChange& change = *body.change;
  const Selection& selection = *change.selection;
  LETHE_RETURN_IF_ERROR(ValidateIntegers(
      "change.selection",
      {selection.budget, selection.reserve, selection.surplus, selection.retained}));
  if (selection.budget == 0) return Refuse("change.selection.budget", "must be at least 1");
  if (selection.reserve + selection.surplus != body.counts.erased) {
    return Refuse("change.selection", "reserve plus surplus must be counts.erased");
  }
  if (selection.retained != change.partition_after.total()) {
    return Refuse("change.selection.retained", "must be the number of tokens after");
  }
  if (selection.retained < selection.budget) {
    return Refuse("change.selection.retained", "is below the budget: more was taken than asked");
  }
  const PartitionSizes& before = change.partition_before;
  const PartitionSizes& after = change.partition_after;
  if (after.error != before.error) {
    return Refuse("change.partition", "an eviction takes no token at the box");
  }
  const bool from_margin = after.margin < before.margin;
  const uint64_t margin_taken = from_margin ? selection.surplus : 0;
  if (after.margin > before.margin || before.margin - after.margin != margin_taken) {
    return Refuse("change.partition",
                  "an eviction takes all of its surplus from the margin or none");
  }
  if (from_margin && after.margin == 0) {
    return Refuse("change.partition", "an eviction leaves every group of the margin a token");
  }
  if (change.verdict != VerdictClass::kProven && change.verdict != VerdictClass::kBitIdentical) {
    return Refuse("change.verdict", "an eviction needs a proven partition");
  }
  return absl::OkStatus();
}

// What each kind may do to the number of tokens.
absl::Status ValidateEffect(const CertificateBody& body) {
  const StateChange& change = *body.change;
  const uint64_t before = change.partition_before.total();
  const uint64_t after = change.partition_after.total();
  const uint64_t erased = body.counts.erased;
  const bool evicts = body.kind == CertificateKind::kEvict;
  const bool edits = body.kind == CertificateKind::kEdit;
  if (evicts != change.selection.has_value()) {
    return Refuse("change.selection", evicts ? "missing in an eviction" : "only in an eviction");
  }
  if ((evicts || edits) && erased == 0) {
    return Refuse("counts.erased", "an edit or an eviction without effect has no certificate");
  }
  if ((evicts || edits) && !change.residuals.gap_bound.has_value()) {
    return Refuse("change.residuals.gapBound", "missing for this kind");
  }
  switch (body.kind) {
    case CertificateKind::kForget:
    case CertificateKind::kEvict:
      if (before < after || before - after != erased) {
        return Refuse("change.partition", "before minus after must be counts.erased");
      }
      break;
    case CertificateKind::kEdit:
      if (before != after) return Refuse("change.partition", "an edit keeps the number of tokens");
      break;
    case CertificateKind::kRetrainCheck:
      if (erased != 0) return Refuse("counts.erased", "a check erases nothing");
      if (change.partition_before != change.partition_after) {
        return Refuse("change.partition", "a check changes nothing");
      }
      if (!change.refit.has_value()) return Refuse("change.refit", "missing in a check");
      break;
    case CertificateKind::kShredded:
    case CertificateKind::kTenantClosed:
    case CertificateKind::kKeyHandover:
    case CertificateKind::kRestored:
      break;
  }
  if (erased == 0 && change.root_before != change.root_after) {
    return Refuse("change.root", "changed although nothing was erased");
  }
  if (erased > 0 && change.root_before == change.root_after) {
    return Refuse("change.root", "unchanged although tokens were erased");
  }
  return evicts ? ValidateSelection(body) : absl::OkStatus();
}

absl::Status ValidateChange(const CertificateBody& body) {
  const bool needs_change =
      body.kind != CertificateKind::kShredded && body.kind != CertificateKind::kTenantClosed &&
      body.kind != CertificateKind::kKeyHandover && body.kind != CertificateKind::kRestored;
  if (needs_change != body.change.has_value()) {
    return Refuse("change", needs_change ? "missing for this kind" : "not allowed for this kind");
  }
  if (!body.change.has_value()) return absl::OkStatus();
  const StateChange& change = *body.change;
  const bool uid_ok = change.memory_uid.size() == kUidDigits &&
                      change.memory_uid.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!uid_ok) return Refuse("change.memory", "not 32 lower-case hex digits");
  LETHE_RETURN_IF_ERROR(ValidatePartition("change.partition.before", change.partition_before));
  LETHE_RETURN_IF_ERROR(ValidatePartition("change.partition.after", change.partition_after));
  LETHE_RETURN_IF_ERROR(ValidateResiduals(change.residuals));
  LETHE_RETURN_IF_ERROR(ValidateVerdict(change));
  return ValidateEffect(body);
}

absl::Status ValidateCounts(const ErasureCounts& counts) {
  LETHE_RETURN_IF_ERROR(ValidateIntegers("counts", {counts.matched, counts.erased, counts.not_found,
                                                    counts.already_erased, counts.held}));
  if (counts.matched != counts.erased + counts.held) {
    return Refuse("counts.matched", "must be erased + held");
  }
  return absl::OkStatus();
}

// A hand-over concerns the log alone. That the next key is another one than the signing key is for
// the verifier to check, who knows that key.
absl::Status ValidateHandover(const CertificateBody& body) {
  const bool hands_over = body.kind == CertificateKind::kKeyHandover;
  if (hands_over != body.handover.has_value()) {
    return Refuse("handover", hands_over ? "missing for this kind" : "not allowed for this kind");
  }
  if (!hands_over) return absl::OkStatus();
  const absl::StatusOr<VerificationKey> next = VerificationKey::Parse(body.handover->next);
  if (!next.ok()) return Refuse("handover.next", next.status().message());
  if (next->name() != body.origin) return Refuse("handover.next", "its name must be the origin");
  if (body.subject_commitment.has_value()) return Refuse("subject", "not allowed for this kind");
  if (body.counts != ErasureCounts{}) return Refuse("counts", "all 0 for this kind");
  if (!body.stores.empty()) return Refuse("stores", "empty for this kind");
  return absl::OkStatus();
}

// It is about keys, which several requests of several persons may have had.
absl::Status ValidateDestruction(const CertificateBody& body) {
  const bool destroys = body.kind == CertificateKind::kShredded;
  if (destroys != body.destruction.has_value()) {
    return Refuse("destruction", destroys ? "missing for this kind" : "not allowed for this kind");
  }
  if (!destroys) return absl::OkStatus();
  const KeyDestruction& destruction = *body.destruction;
  if (destruction.epochs.size() > kMaxEpochs) return Refuse("destruction.epochs", "too many");
  for (size_t i = 0; i < destruction.epochs.size(); ++i) {
    LETHE_RETURN_IF_ERROR(ValidateIntegers("destruction.epochs", {destruction.epochs[i]}));
    if (i > 0 && destruction.epochs[i] <= destruction.epochs[i - 1]) {
      return Refuse("destruction.epochs", "must increase");
    }
  }
  LETHE_RETURN_IF_ERROR(ValidateIntegers("destruction.keys", {destruction.keys}));
  if (!destruction.erasures.has_value()) {
    if (destruction.epochs.empty()) {
      return Refuse("destruction", "neither erasures nor epochs: nothing was destroyed");
    }
    if (destruction.keys != 0) return Refuse("destruction.keys", "must be 0 without erasures");
  } else {
    if (destruction.erasures->last < destruction.erasures->first) {
      return Refuse("destruction.erasures.last", "is below first");
    }
    if (destruction.erasures->last >= body.sequence) {
      return Refuse("destruction.erasures.last", "is not below the sequence");
    }
  }
  if (body.subject_commitment.has_value()) return Refuse("subject", "not allowed for this kind");
  if (body.counts != ErasureCounts{}) return Refuse("counts", "all 0 for this kind");
  return absl::OkStatus();
}

absl::Status ValidateRestoration(const CertificateBody& body) {
  const bool restores = body.kind == CertificateKind::kRestored;
  if (restores != body.restoration.has_value()) {
    return Refuse("restoration", restores ? "missing for this kind" : "not allowed for this kind");
  }
  if (!restores) return absl::OkStatus();
  const Restoration& restoration = *body.restoration;
  LETHE_RETURN_IF_ERROR(ValidateIntegers(
      "restoration", {restoration.size, restoration.reapplied, restoration.removed}));
  // No overflow: both are below 2^53.
  if (restoration.size + restoration.reapplied != body.sequence) {
    return Refuse("restoration", "size plus reapplied must be the sequence");
  }
  if (restoration.removed > 0 && restoration.reapplied == 0) {
    return Refuse("restoration.removed", "must be 0 where nothing came after the copy");
  }
  if (body.subject_commitment.has_value()) return Refuse("subject", "not allowed for this kind");
  const ErasureCounts removed = {.matched = restoration.removed, .erased = restoration.removed};
  if (body.counts != removed) {
    return Refuse("counts", "matched and erased must be restoration.removed, the others 0");
  }
  return absl::OkStatus();
}

absl::Status ValidateLists(const CertificateBody& body) {
  if (body.stores.size() > kMaxStores) return Refuse("stores", "too many");
  for (size_t i = 0; i < body.stores.size(); ++i) {
    const StoreErasure& store = body.stores[i];
    const std::string field = absl::StrCat("stores[", i, "]");
    if (!IsSlug(store.store, "._-")) return Refuse(field, "store: not 1 to 64 of [a-z0-9._-]");
    if (!IsSlug(store.level, "-")) return Refuse(field, "level: not 1 to 64 of [a-z0-9-]");
    if (!IsText(store.evidence))
      return Refuse(field, "evidence: not plain UTF-8 of at most 1024 bytes");
    for (size_t j = 0; j < i; ++j) {
      if (body.stores[j].store == store.store) return Refuse(field, "the store occurs twice");
    }
  }
  if (body.exceptions.size() > kMaxExceptions) return Refuse("exceptions", "too many");
  for (size_t i = 0; i < body.exceptions.size(); ++i) {
    if (!IsText(body.exceptions[i]) || body.exceptions[i].empty()) {
      return Refuse(absl::StrCat("exceptions[", i, "]"), "not plain UTF-8 of 1 to 1024 bytes");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateBody(const CertificateBody& body) {
  if (const absl::Status name = ValidateKeyName(body.origin); !name.ok()) {
    return Refuse("origin", name.message());
  }
  LETHE_RETURN_IF_ERROR(ValidateIntegers("sequence", {body.sequence}));
  if (body.previous_leaf_hash.has_value() == (body.sequence == 0)) {
    return Refuse("previousLeafHash", "absent exactly in the first certificate");
  }
  const bool build_ok = !body.build.empty() && body.build.size() <= kMaxBuildBytes &&
                        std::all_of(body.build.begin(), body.build.end(),
                                    [](char c) { return c >= 0x20 && c <= 0x7E; });
  if (!build_ok) return Refuse("build", "not 1 to 256 printable ASCII characters");
  if (!IsUtcTime(body.time)) return Refuse("time", "not RFC 3339 in UTC");
  LETHE_RETURN_IF_ERROR(ValidateCounts(body.counts));
  LETHE_RETURN_IF_ERROR(ValidateChange(body));
  LETHE_RETURN_IF_ERROR(ValidateHandover(body));
  LETHE_RETURN_IF_ERROR(ValidateDestruction(body));
  LETHE_RETURN_IF_ERROR(ValidateRestoration(body));
  return ValidateLists(body);
}

}  // namespace lethe::audit
