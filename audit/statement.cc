#include "audit/statement.h"

#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/json_reader.h"
#include "audit/merkle.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr std::array kKinds = {CertificateKind::kForget,       CertificateKind::kEdit,
                               CertificateKind::kEvict,        CertificateKind::kShredded,
                               CertificateKind::kRetrainCheck, CertificateKind::kTenantClosed,
                               CertificateKind::kKeyHandover,  CertificateKind::kRestored};
constexpr std::array kVerdicts = {VerdictClass::kBitIdentical, VerdictClass::kProven,
                                  VerdictClass::kBounded, VerdictClass::kUncertified};

// What the statement is about: the memory after the change or, without one, the log before it.
std::string SubjectName(const CertificateBody& body) {
  if (body.change.has_value()) return absl::StrCat("memory:", body.change->memory_uid);
  return absl::StrCat("log:", body.origin);
}

Digest SubjectDigest(const CertificateBody& body) {
  if (body.change.has_value()) return body.change->root_after;
  return body.previous_leaf_hash.value_or(EmptyRoot());
}

Json ToJson(const PartitionSizes& partition) {
  Json json = Json::MakeObject();
  json.Set("error", Json::Integer(partition.error));
  json.Set("margin", Json::Integer(partition.margin));
  json.Set("reserve", Json::Integer(partition.reserve));
  return json;
}

Json ToJson(const Residuals& residuals) {
  Json json = Json::MakeObject();
  json.Set("condition", Json::Double(residuals.condition));
  json.Set("decisionBound", Json::Double(residuals.decision_bound));
  json.Set("dualityGap", Json::Double(residuals.duality_gap));
  if (residuals.gap_bound.has_value()) json.Set("gapBound", Json::Double(*residuals.gap_bound));
  json.Set("kktResidual", Json::Double(residuals.kkt_residual));
  json.Set("precisionBits", Json::Integer(residuals.precision_bits));
  if (residuals.readout_bound.has_value()) {
    json.Set("readoutBound", Json::Double(*residuals.readout_bound));
  }
  json.Set("slack", Json::Double(residuals.slack));
  json.Set("weightBound", Json::Double(residuals.weight_bound));
  return json;
}

Json ToJson(const Selection& selection) {
  Json scope = Json::MakeObject();
  scope.Set("later", Json::String(kScopeLater));
  scope.Set("now", Json::String(kScopeNow));
  Json json = Json::MakeObject();
  json.Set("budget", Json::Integer(selection.budget));
  json.Set("reserve", Json::Integer(selection.reserve));
  json.Set("retained", Json::Integer(selection.retained));
  json.Set("scope", std::move(scope));
  json.Set("surplus", Json::Integer(selection.surplus));
  return json;
}

Json ToJson(const StateChange& change) {
  Json partition = Json::MakeObject();
  partition.Set("after", ToJson(change.partition_after));
  partition.Set("before", ToJson(change.partition_before));
  Json root = Json::MakeObject();
  root.Set("after", Json::String(Hex(change.root_after)));
  root.Set("before", Json::String(Hex(change.root_before)));
  Json json = Json::MakeObject();
  json.Set("config", Json::String(Hex(change.config)));
  json.Set("memory", Json::String(change.memory_uid));
  json.Set("partition", std::move(partition));
  if (change.refit.has_value()) {
    Json refit = Json::MakeObject();
    refit.Set("bitsEqual", Json::Bool(change.refit->bits_equal));
    refit.Set("deviation", Json::Double(change.refit->deviation));
    json.Set("refit", std::move(refit));
  }
  json.Set("residuals", ToJson(change.residuals));
  json.Set("root", std::move(root));
  if (change.selection.has_value()) json.Set("selection", ToJson(*change.selection));
  json.Set("verdict", Json::String(Name(change.verdict)));
  return json;
}

Json ToJson(const ErasureCounts& counts) {
  Json json = Json::MakeObject();
  json.Set("alreadyErased", Json::Integer(counts.already_erased));
  json.Set("erased", Json::Integer(counts.erased));
  json.Set("held", Json::Integer(counts.held));
  json.Set("matched", Json::Integer(counts.matched));
  json.Set("notFound", Json::Integer(counts.not_found));
  return json;
}

Json ToJson(const KeyDestruction& destruction) {
  Json json = Json::MakeObject();
  Json epochs = Json::MakeArray();
  for (const uint64_t epoch : destruction.epochs) epochs.Append(Json::Integer(epoch));
  json.Set("epochs", std::move(epochs));
  if (destruction.erasures.has_value()) {
    Json erasures = Json::MakeObject();
    erasures.Set("first", Json::Integer(destruction.erasures->first));
    erasures.Set("last", Json::Integer(destruction.erasures->last));
    json.Set("erasures", std::move(erasures));
  }
  json.Set("keys", Json::Integer(destruction.keys));
  return json;
}

Json ToJson(const Restoration& restoration) {
  Json json = Json::MakeObject();
  json.Set("reapplied", Json::Integer(restoration.reapplied));
  json.Set("removed", Json::Integer(restoration.removed));
  json.Set("size", Json::Integer(restoration.size));
  return json;
}

Json ToJson(const StoreErasure& store) {
  Json json = Json::MakeObject();
  json.Set("evidence", Json::String(store.evidence));
  json.Set("level", Json::String(store.level));
  json.Set("store", Json::String(store.store));
  return json;
}

Json Predicate(const CertificateBody& body) {
  Json json = Json::MakeObject();
  json.Set("build", Json::String(body.build));
  if (body.change.has_value()) json.Set("change", ToJson(*body.change));
  json.Set("counts", ToJson(body.counts));
  if (body.destruction.has_value()) json.Set("destruction", ToJson(*body.destruction));
  Json exceptions = Json::MakeArray();
  for (const std::string& exception : body.exceptions) exceptions.Append(Json::String(exception));
  json.Set("exceptions", std::move(exceptions));
  if (body.handover.has_value()) {
    Json handover = Json::MakeObject();
    handover.Set("next", Json::String(body.handover->next));
    json.Set("handover", std::move(handover));
  }
  json.Set("kind", Json::String(Name(body.kind)));
  json.Set("origin", Json::String(body.origin));
  if (body.previous_leaf_hash.has_value()) {
    json.Set("previousLeafHash", Json::String(Hex(*body.previous_leaf_hash)));
  }
  json.Set("request", Json::String(Hex(body.request_commitment)));
  if (body.restoration.has_value()) json.Set("restoration", ToJson(*body.restoration));
  json.Set("sequence", Json::Integer(body.sequence));
  Json stores = Json::MakeArray();
  for (const StoreErasure& store : body.stores) stores.Append(ToJson(store));
  json.Set("stores", std::move(stores));
  if (body.subject_commitment.has_value()) {
    json.Set("subject", Json::String(Hex(*body.subject_commitment)));
  }
  json.Set("time", Json::String(body.time));
  return json;
}

template <typename Enum, size_t N>
Enum ReadName(JsonReader& reader, absl::string_view key, const std::array<Enum, N>& known) {
  const std::string name = reader.String(key);
  for (const Enum value : known) {
    if (Name(value) == name) return value;
  }
  reader.Fail(key, "not a known name");
  return known[0];
}

PartitionSizes ReadPartition(JsonReader& parent, absl::string_view key) {
  JsonReader reader = parent.Child(key);
  PartitionSizes partition;
  partition.error = reader.Integer("error");
  partition.margin = reader.Integer("margin");
  partition.reserve = reader.Integer("reserve");
  parent.Adopt(reader);
  return partition;
}

Residuals ReadResiduals(JsonReader& parent) {
  JsonReader reader = parent.Child("residuals");
  Residuals residuals;
  residuals.condition = reader.Double("condition");
  residuals.decision_bound = reader.Double("decisionBound");
  residuals.duality_gap = reader.Double("dualityGap");
  residuals.gap_bound = reader.OptionalDouble("gapBound");
  residuals.kkt_residual = reader.Double("kktResidual");
  const uint64_t bits = reader.Integer("precisionBits");
  if (bits > std::numeric_limits<uint32_t>::max()) reader.Fail("precisionBits", "too large");
  residuals.precision_bits = static_cast<uint32_t>(bits);
  residuals.readout_bound = reader.OptionalDouble("readoutBound");
  residuals.slack = reader.Double("slack");
  residuals.weight_bound = reader.Double("weightBound");
  parent.Adopt(reader);
  return residuals;
}

Selection ReadSelection(JsonReader& parent) {
  JsonReader reader = parent.Child("selection");
  Selection selection;
  selection.budget = reader.Integer("budget");
  selection.reserve = reader.Integer("reserve");
  selection.retained = reader.Integer("retained");
  JsonReader scope = reader.Child("scope");
  scope.Expect("later", kScopeLater);
  scope.Expect("now", kScopeNow);
  reader.Adopt(scope);
  selection.surplus = reader.Integer("surplus");
  parent.Adopt(reader);
  return selection;
}

StateChange ReadChange(JsonReader& parent) {
  JsonReader reader = parent.Child("change");
  StateChange change;
  change.config = reader.HexDigest("config");
  change.memory_uid = reader.String("memory");
  JsonReader partition = reader.Child("partition");
  change.partition_after = ReadPartition(partition, "after");
  change.partition_before = ReadPartition(partition, "before");
  reader.Adopt(partition);
  if (reader.Has("refit")) {
    JsonReader refit = reader.Child("refit");
    change.refit.emplace();
    change.refit->bits_equal = refit.Bool("bitsEqual");
    change.refit->deviation = refit.Double("deviation");
    reader.Adopt(refit);
  }
  change.residuals = ReadResiduals(reader);
  JsonReader root = reader.Child("root");
  change.root_after = root.HexDigest("after");
  change.root_before = root.HexDigest("before");
  reader.Adopt(root);
  if (reader.Has("selection")) change.selection = ReadSelection(reader);
  change.verdict = ReadName(reader, "verdict", kVerdicts);
  parent.Adopt(reader);
  return change;
}

ErasureCounts ReadCounts(JsonReader& parent) {
  JsonReader reader = parent.Child("counts");
  ErasureCounts counts;
  counts.already_erased = reader.Integer("alreadyErased");
  counts.erased = reader.Integer("erased");
  counts.held = reader.Integer("held");
  counts.matched = reader.Integer("matched");
  counts.not_found = reader.Integer("notFound");
  parent.Adopt(reader);
  return counts;
}

KeyDestruction ReadDestruction(JsonReader& parent) {
  JsonReader reader = parent.Child("destruction");
  KeyDestruction destruction;
  const Json::Array& epochs = reader.Array("epochs");
  if (epochs.size() > kMaxEpochs) reader.Fail("epochs", "too many");
  for (size_t i = 0; i < epochs.size() && i < kMaxEpochs; ++i) {
    const uint64_t* epoch = epochs[i].as_integer();
    if (epoch == nullptr) {
      reader.Fail("epochs", "an element is not an integer");
      break;
    }
    destruction.epochs.push_back(*epoch);
  }
  if (reader.Has("erasures")) {
    JsonReader erasures = reader.Child("erasures");
    destruction.erasures.emplace();
    destruction.erasures->first = erasures.Integer("first");
    destruction.erasures->last = erasures.Integer("last");
    reader.Adopt(erasures);
  }
  destruction.keys = reader.Integer("keys");
  parent.Adopt(reader);
  return destruction;
}

Restoration ReadRestoration(JsonReader& parent) {
  JsonReader reader = parent.Child("restoration");
  Restoration restoration;
  restoration.reapplied = reader.Integer("reapplied");
  restoration.removed = reader.Integer("removed");
  restoration.size = reader.Integer("size");
  parent.Adopt(reader);
  return restoration;
}

void ReadLists(JsonReader& parent, CertificateBody& body) {
  const Json::Array& exceptions = parent.Array("exceptions");
  if (exceptions.size() > kMaxExceptions) return parent.Fail("exceptions", "too many");
  for (const Json& exception : exceptions) {
    const std::string* text = exception.as_string();
    if (text == nullptr) return parent.Fail("exceptions", "an element is not a string");
    body.exceptions.push_back(*text);
  }
  const Json::Array& stores = parent.Array("stores");
  if (stores.size() > kMaxStores) return parent.Fail("stores", "too many");
  for (size_t i = 0; i < stores.size(); ++i) {
    JsonReader reader(stores[i], absl::StrCat(parent.path(), ".stores[", i, "]"));
    StoreErasure store;
    store.evidence = reader.String("evidence");
    store.level = reader.String("level");
    store.store = reader.String("store");
    parent.Adopt(reader);
    body.stores.push_back(std::move(store));
  }
}

CertificateBody ReadPredicate(JsonReader& parent) {
  JsonReader reader = parent.Child("predicate");
  CertificateBody body;
  body.build = reader.String("build");
  if (reader.Has("change")) body.change = ReadChange(reader);
  body.counts = ReadCounts(reader);
  if (reader.Has("destruction")) body.destruction = ReadDestruction(reader);
  ReadLists(reader, body);
  if (reader.Has("handover")) {
    JsonReader handover = reader.Child("handover");
    body.handover = KeyHandover{handover.String("next")};
    reader.Adopt(handover);
  }
  body.kind = ReadName(reader, "kind", kKinds);
  body.origin = reader.String("origin");
  body.previous_leaf_hash = reader.OptionalHexDigest("previousLeafHash");
  body.request_commitment = reader.HexDigest("request");
  if (reader.Has("restoration")) body.restoration = ReadRestoration(reader);
  body.sequence = reader.Integer("sequence");
  body.subject_commitment = reader.OptionalHexDigest("subject");
  body.time = reader.String("time");
  parent.Adopt(reader);
  return body;
}

void CheckSubject(JsonReader& parent, const CertificateBody& body) {
  const Json::Array& subjects = parent.Array("subject");
  if (subjects.size() != 1) return parent.Fail("subject", "exactly one is required");
  JsonReader reader(subjects[0], "subject[0]");
  JsonReader digest = reader.Child("digest");
  if (digest.HexDigest("sha256") != SubjectDigest(body)) {
    digest.Fail("sha256", "does not agree with the predicate");
  }
  reader.Adopt(digest);
  if (reader.String("name") != SubjectName(body)) {
    reader.Fail("name", "does not agree with the predicate");
  }
  parent.Adopt(reader);
}

}  // namespace

Json StatementToJson(const CertificateBody& body) {
  Json digest = Json::MakeObject();
  digest.Set("sha256", Json::String(Hex(SubjectDigest(body))));
  Json subject = Json::MakeObject();
  subject.Set("digest", std::move(digest));
  subject.Set("name", Json::String(SubjectName(body)));
  Json statement = Json::MakeObject();
  statement.Set("_type", Json::String(kStatementType));
  statement.Set("predicate", Predicate(body));
  statement.Set("predicateType", Json::String(kPredicateType));
  statement.Set("subject", Json::MakeArray({std::move(subject)}));
  return statement;
}

absl::StatusOr<CertificateBody> StatementFromJson(const Json& statement) {
  JsonReader reader(statement, "");
  reader.Expect("_type", kStatementType);
  reader.Expect("predicateType", kPredicateType);
  const CertificateBody body = ReadPredicate(reader);
  CheckSubject(reader, body);
  LETHE_RETURN_IF_ERROR(reader.Finish());
  LETHE_RETURN_IF_ERROR(ValidateBody(body));
  return body;
}

}  // namespace lethe::audit
