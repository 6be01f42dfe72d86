#include "client/cli/render.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace lethe::cli {
namespace {

template <typename Enum>
std::string Lower(Enum value) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(client::ToString(value)), {{"_", "-"}});
}

Json Optional(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json ToJson(const client::MemoryConfig& config) {
  Json json;
  const client::Kernel kernel = config.kernel.value_or(client::Kernel());
  const bool dot = kernel.kind == client::Kernel::Kind::kExpDot;
  json["kernel"] = {{"kind", client::ToString(kernel.kind)},
                    {dot ? "scale" : "gamma", kernel.parameter}};
  if (config.box.has_value()) json["box"] = *config.box;
  if (config.capacity.has_value()) json["capacity"] = *config.capacity;
  json["duplicates"] = Lower(config.duplicates);
  json["key_dimension"] = config.key_dimension;
  json["value_dimension"] = config.value_dimension;
  if (config.encoder_info.has_value()) {
    json["encoder"] = {{"sha256", config.encoder_info->sha256},
                       {"raw_key_dimension", config.encoder_info->raw_key_dimension},
                       {"raw_value_dimension", config.encoder_info->raw_value_dimension}};
  }
  return json;
}

Json ToJson(const client::Destruction& destruction) {
  return {{"certificate_id", destruction.certificate_id},
          {"stores", cli::ToJson(destruction.stores)},
          {"exceptions", destruction.exceptions}};
}

// What the answers of forget, evict and edit have in common.
template <typename Result>
void AddOutcome(Json& json, const Result& result) {
  json["partition_before"] = cli::ToJson(result.before);
  json["partition_after"] = cli::ToJson(result.after);
  json["verdict"] = Lower(result.verdict);
  json["certificate_id"] = result.certificate_id;
  json["request_id"] = result.request_id;
  json["state_digest"] = result.state_digest;
  json["replayed"] = result.replayed;
  if (result.receipt.has_value()) {
    json["receipt"] = {{"request_salt", absl::BytesToHexString(result.receipt->request_salt)},
                       {"subject_salt", absl::BytesToHexString(result.receipt->subject_salt)}};
  }
  if (result.destruction.has_value()) json["destruction"] = ToJson(*result.destruction);
}

void AddDestruction(Fields& fields, const std::optional<client::Destruction>& destruction) {
  if (!destruction.has_value()) return;
  fields.push_back({"keys destroyed", destruction->certificate_id});
  AddLevels(fields, destruction->stores);
  for (const std::string& exception : destruction->exceptions) {
    fields.push_back({"not covered", exception});
  }
}

template <typename Result>
void AddOutcome(Fields& fields, const Result& result) {
  fields.push_back({"before", Text(result.before)});
  fields.push_back({"after", Text(result.after)});
  if (result.verdict != client::Verdict::kUnspecified) {
    fields.push_back({"verdict", Text(result.verdict)});
  }
  if (!result.certificate_id.empty()) fields.push_back({"certificate", result.certificate_id});
  if (!result.state_digest.empty()) fields.push_back({"state digest", result.state_digest});
  if (!result.request_id.empty()) {
    fields.push_back({"request id", absl::StrCat(result.request_id,
                                                 result.replayed ? " (answered before)" : "")});
  }
  if (result.receipt.has_value()) {
    fields.push_back({"request salt", absl::BytesToHexString(result.receipt->request_salt)});
    if (!result.receipt->subject_salt.empty()) {
      fields.push_back({"subject salt", absl::BytesToHexString(result.receipt->subject_salt)});
    }
  }
  AddDestruction(fields, result.destruction);
}

}  // namespace

std::string Text(const client::Partition& partition) {
  return absl::StrCat(FormatCount(partition.margin), " margin, ", FormatCount(partition.error),
                      " error, ", FormatCount(partition.reserve), " reserve");
}

std::string Text(client::Verdict verdict) { return Lower(verdict); }

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json ToJson(const client::Tenant& tenant) {
  return {{"name", tenant.name},
          {"create_time", tenant.create_time},
          {"log_origin", tenant.log_origin},
          {"verification_key", tenant.verification_key},
          {"certificate_count", tenant.certificate_count},
          {"memory_count", tenant.memory_count}};
}

Json ToJson(const std::vector<client::StoreLevel>& stores) {
  Json json = Json::array();
  for (const client::StoreLevel& level : stores) {
    json.push_back({{"store", level.store}, {"level", level.level}, {"evidence", level.evidence}});
  }
  return json;
}

void AddLevels(Fields& fields, const std::vector<client::StoreLevel>& stores) {
  for (const client::StoreLevel& level : stores) {
    fields.push_back({absl::StrCat("  ", level.store), level.level});
  }
}

Json ToJson(const client::MemoryDeletion& deletion) {
  Json json = {{"erased_tokens", deletion.erased_tokens},
               {"certificate_id", deletion.certificate_id}};
  if (deletion.destruction.has_value()) json["destruction"] = ToJson(*deletion.destruction);
  return json;
}

Fields ToFields(const client::MemoryDeletion& deletion) {
  Fields fields = {{"erased tokens", FormatCount(deletion.erased_tokens)},
                   {"certificate", deletion.certificate_id}};
  AddDestruction(fields, deletion.destruction);
  return fields;
}

Json ToJson(const client::Partition& partition) {
  return {{"margin", partition.margin}, {"error", partition.error}, {"reserve", partition.reserve}};
}

Json ToJson(const client::Memory& memory) {
  return {{"tenant", memory.name.tenant},    {"name", memory.name.memory},
          {"config", ToJson(memory.config)}, {"create_time", memory.create_time},
          {"phase", Lower(memory.phase)},    {"partition", ToJson(memory.partition)}};
}

Json ToJson(const client::QueryAnswer& answer) {
  Json json = {{"readout", answer.readout},
               {"log_denominator", answer.log_denominator},
               {"decision", Optional(answer.decision)},
               {"position", Lower(answer.position)},
               {"readout_bound", answer.readout_bound},
               {"decision_bound", Optional(answer.decision_bound)}};
  if (answer.local_share.has_value()) json["local_share"] = *answer.local_share;
  if (!answer.tokens.empty()) {
    Json tokens = Json::array();
    for (const client::QueryToken& token : answer.tokens) {
      tokens.push_back({{"id", token.id}, {"weight", token.weight}, {"share", token.share}});
    }
    json["tokens"] = std::move(tokens);
  }
  return json;
}

Json ToJson(const client::ForgetResult& result) {
  Json json = {{"matched", result.matched},
               {"erased", result.erased},
               {"not_found", result.not_found},
               {"already_erased", result.already_erased},
               {"held", result.held}};
  AddOutcome(json, result);
  return json;
}

Json ToJson(const client::EvictResult& result) {
  Json json = {{"evicted", result.evicted},   {"reserve", result.reserve},
               {"surplus", result.surplus},   {"held", result.held},
               {"retained", result.retained}, {"budget_reached", result.budget_reached}};
  AddOutcome(json, result);
  return json;
}

Json ToJson(const client::EditResult& result) {
  Json json = {{"edited", result.edited}, {"unchanged", result.unchanged}};
  AddOutcome(json, result);
  return json;
}

Json ToJson(const client::Description& description) {
  Json json = {{"memory", ToJson(description.memory)}, {"mu", Optional(description.mu)}};
  if (description.mu_interval.has_value()) {
    json["mu_interval"] = {{"low", Optional(description.mu_interval->low)},
                           {"high", Optional(description.mu_interval->high)}};
  }
  json["radius_squared"] = Optional(description.radius_squared);
  json["state_digest"] = description.state_digest;
  const client::SolverHealth& solver = description.solver;
  json["solver"] = {
      {"condition", solver.condition},           {"kkt_residual", solver.kkt_residual},
      {"duality_gap", solver.duality_gap},       {"slack", solver.slack},
      {"precision_bits", solver.precision_bits}, {"climbs", solver.climbs},
      {"fallbacks", solver.fallbacks},           {"residual", solver.residual},
      {"weight_bound", solver.weight_bound},     {"decision_bound", solver.decision_bound},
      {"readout_bound", solver.readout_bound},   {"gap_bound", solver.gap_bound},
      {"lambda_min", solver.lambda_min}};
  json["verdict"] = Lower(description.verdict);
  json["subjects"] = description.subjects;
  return json;
}

Json ToJson(const client::Certificate& certificate) {
  return {{"id", certificate.id},
          {"sequence", certificate.sequence},
          {"kind", certificate.kind},
          {"memory", certificate.memory},
          {"create_time", certificate.create_time},
          {"leaf_hash", certificate.leaf_hash},
          {"previous_leaf_hash", certificate.previous_leaf_hash},
          {"envelope", absl::Base64Escape(certificate.envelope)},
          {"leaf", absl::Base64Escape(certificate.leaf)}};
}

Fields ToFields(const client::Tenant& tenant) {
  return {{"tenant", tenant.name},
          {"created", tenant.create_time},
          {"log origin", tenant.log_origin},
          {"key", tenant.verification_key},
          {"certificates", FormatCount(tenant.certificate_count)},
          {"memories", FormatCount(tenant.memory_count)}};
}

Fields ToFields(const client::Memory& memory) {
  const client::MemoryConfig& config = memory.config;
  const client::Kernel kernel = config.kernel.value_or(client::Kernel());
  const bool dot = kernel.kind == client::Kernel::Kind::kExpDot;
  const std::string size = config.capacity.has_value()
                               ? absl::StrCat("capacity ", FormatNumber(*config.capacity))
                               : absl::StrCat("box ", FormatNumber(config.box.value_or(0.0)));
  Fields fields = {
      {"memory", memory.name.memory},
      {"tenant", memory.name.tenant},
      {"created", memory.create_time},
      {"kernel", absl::StrCat(client::ToString(kernel.kind), ", ", dot ? "scale " : "gamma ",
                              FormatNumber(kernel.parameter))},
      {"size", size},
      {"duplicates", Lower(config.duplicates)},
      {"dimensions",
       absl::StrCat("key ", config.key_dimension, ", value ", config.value_dimension)}};
  if (config.encoder_info.has_value()) {
    const client::EncoderInfo& encoder = *config.encoder_info;
    fields.push_back({"encoder", encoder.sha256});
    fields.push_back({"raw dimensions", absl::StrCat("key ", encoder.raw_key_dimension, ", value ",
                                                     encoder.raw_value_dimension)});
  }
  fields.push_back({"phase", Lower(memory.phase)});
  fields.push_back({"partition", Text(memory.partition)});
  return fields;
}

Fields ToFields(const client::ForgetResult& result) {
  Fields fields = {{"matched", FormatCount(result.matched)},
                   {"erased", FormatCount(result.erased)},
                   {"not found", FormatCount(result.not_found)},
                   {"already erased", FormatCount(result.already_erased)},
                   {"held", FormatCount(result.held)}};
  AddOutcome(fields, result);
  return fields;
}

Fields ToFields(const client::EvictResult& result) {
  Fields fields = {{"taken out", FormatCount(result.evicted)},
                   {"from reserve", FormatCount(result.reserve)},
                   {"surplus copies", FormatCount(result.surplus)},
                   {"held", FormatCount(result.held)},
                   {"retained", FormatCount(result.retained)},
                   {"budget reached", result.budget_reached ? "yes" : "no, the rest has weight"}};
  AddOutcome(fields, result);
  return fields;
}

Fields ToFields(const client::EditResult& result) {
  Fields fields = {{"edited", FormatCount(result.edited)},
                   {"unchanged", FormatCount(result.unchanged)}};
  AddOutcome(fields, result);
  return fields;
}

Fields ToFields(const client::Description& description) {
  Fields fields = ToFields(description.memory);
  fields.push_back({"subjects", FormatCount(description.subjects)});
  if (description.mu.has_value()) fields.push_back({"mu", FormatNumber(*description.mu)});
  if (description.mu_interval.has_value()) {
    const auto& [low, high] = *description.mu_interval;
    fields.push_back(
        {"mu between", absl::StrCat(low.has_value() ? FormatNumber(*low) : "-inf", " and ",
                                    high.has_value() ? FormatNumber(*high) : "inf")});
  }
  if (description.radius_squared.has_value()) {
    fields.push_back({"radius squared", FormatNumber(*description.radius_squared)});
  }
  fields.push_back({"verdict", Text(description.verdict)});
  fields.push_back({"state digest", description.state_digest});
  const client::SolverHealth& solver = description.solver;
  fields.push_back({"kkt residual", FormatNumber(solver.kkt_residual, 3)});
  fields.push_back({"duality gap", FormatNumber(solver.duality_gap, 3)});
  fields.push_back({"slack", FormatNumber(solver.slack, 3)});
  fields.push_back({"condition", FormatNumber(solver.condition, 3)});
  fields.push_back({"lambda min", FormatNumber(solver.lambda_min, 3)});
  fields.push_back({"residual", FormatNumber(solver.residual, 3)});
  fields.push_back({"weight bound", FormatNumber(solver.weight_bound, 3)});
  fields.push_back({"decision bound", FormatNumber(solver.decision_bound, 3)});
  fields.push_back({"readout bound",
                    absl::StrCat(FormatNumber(solver.readout_bound, 3), " of the largest value")});
  fields.push_back({"gap bound", FormatNumber(solver.gap_bound, 3)});
  fields.push_back({"precision", absl::StrCat(solver.precision_bits, " bits")});
  fields.push_back({"climbs", FormatCount(solver.climbs)});
  fields.push_back({"fallbacks", FormatCount(solver.fallbacks)});
  return fields;
}

void Print(Context& context, const Json& json, const std::string& text) {
  std::ostream& out = context.io().out;
  switch (context.globals.output) {
    case OutputFormat::kTable:
      out << text;
      break;
    case OutputFormat::kJson:
      out << Dump(json, 2) << "\n";
      break;
    case OutputFormat::kJsonLines:
      out << Dump(json) << "\n";
      break;
  }
}

void ListPrinter::Add(const Json& json, std::vector<std::string> row) {
  switch (context_.globals.output) {
    case OutputFormat::kTable:
      table_.AddRow(std::move(row));
      break;
    case OutputFormat::kJson:
      array_.push_back(json);
      break;
    case OutputFormat::kJsonLines:
      context_.io().out << Dump(json) << "\n";
      break;
  }
}

void ListPrinter::Finish(const std::string& nothing) {
  if (context_.globals.output == OutputFormat::kJson) context_.io().out << Dump(array_, 2) << "\n";
  if (context_.globals.output == OutputFormat::kTable) {
    if (table_.empty()) {
      context_.Note(nothing);
    } else {
      context_.io().out << table_.Render();
    }
  }
}

}  // namespace lethe::cli
