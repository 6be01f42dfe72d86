#include "client/cli/erasure_view.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "audit/encoding.h"

namespace lethe::cli {
namespace {

void AddUnlessEmpty(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = text;
}

void AddUnlessEmpty(Fields& fields, const char* name, const std::string& text) {
  if (!text.empty()) fields.emplace_back(name, text);
}

}  // namespace

Json ToJson(const client::ErasureRequest& request) {
  Json json = {{"tenant", request.tenant},
               {"id", request.id},
               {"state", std::string(client::ToText(request.state))}};
  AddUnlessEmpty(json, "source", request.source);
  AddUnlessEmpty(json, "regulation", request.regulation);
  AddUnlessEmpty(json, "controller_id", request.controller_id);
  json["received_time"] = request.received_time;
  json["due_time"] = request.due_time;
  json["extended"] = request.extended;
  AddUnlessEmpty(json, "extension_reason", request.extension_reason);
  AddUnlessEmpty(json, "start_time", request.start_time);
  AddUnlessEmpty(json, "begin_time", request.begin_time);
  AddUnlessEmpty(json, "end_time", request.end_time);
  json["matched"] = request.counts.matched;
  json["erased"] = request.counts.erased;
  json["not_found"] = request.counts.not_found;
  json["already_erased"] = request.counts.already_erased;
  json["held"] = request.counts.held;
  AddUnlessEmpty(json, "hold", request.hold_id);
  AddUnlessEmpty(json, "failure", request.failure);
  json["attempts"] = request.attempts;
  json["personal"] = request.personal;
  json["receipts"] = request.receipts;
  json["replayed"] = request.replayed;
  Json certificates = Json::array();
  for (const client::ErasureCertificate& made : request.certificates) {
    certificates.push_back({{"id", made.id},
                            {"memory", made.memory},
                            {"sha256", made.sha256},
                            {"shredded", made.shredded_id}});
  }
  json["certificates"] = std::move(certificates);
  json["stores"] = ToJson(request.stores);
  return json;
}

Fields ToFields(const client::ErasureRequest& request) {
  Fields fields = {{"request", request.id},
                   {"tenant", request.tenant},
                   {"state", std::string(client::ToText(request.state))}};
  AddUnlessEmpty(fields, "hold", request.hold_id);
  AddUnlessEmpty(fields, "failure", request.failure);
  AddUnlessEmpty(fields, "source", request.source);
  AddUnlessEmpty(fields, "regulation", request.regulation);
  AddUnlessEmpty(fields, "controller's id", request.controller_id);
  fields.emplace_back("received", request.received_time);
  fields.emplace_back("due", absl::StrCat(request.due_time, request.extended ? " (extended)" : ""));
  AddUnlessEmpty(fields, "reason", request.extension_reason);
  AddUnlessEmpty(fields, "not before", request.start_time);
  AddUnlessEmpty(fields, "begun", request.begin_time);
  AddUnlessEmpty(fields, "ended", request.end_time);
  fields.emplace_back("erased", FormatCount(request.counts.erased));
  fields.emplace_back("held", FormatCount(request.counts.held));
  fields.emplace_back("not found", FormatCount(request.counts.not_found));
  if (request.attempts > 0) fields.emplace_back("failed attempts", FormatCount(request.attempts));
  for (const client::ErasureCertificate& made : request.certificates) {
    fields.emplace_back("certificate", absl::StrCat(made.id, " of ", made.memory));
  }
  if (!request.stores.empty()) AddLevels(fields, request.stores);
  if (request.receipts) fields.emplace_back("receipts", "can be taken");
  return fields;
}

Json ToJson(const client::Discovery& discovery) {
  Json memories = Json::array();
  for (const client::DiscoveredMemory& found : discovery.memories) {
    memories.push_back({{"memory", found.memory}, {"tokens", found.tokens}});
  }
  return {{"tokens", discovery.tokens},
          {"held", discovery.held},
          {"not_found", discovery.not_found},
          {"holds", discovery.hold_ids},
          {"memories", std::move(memories)}};
}

Fields ToFields(const client::Discovery& discovery) {
  Fields fields = {{"tokens", FormatCount(discovery.tokens)},
                   {"held", FormatCount(discovery.held)},
                   {"not found", FormatCount(discovery.not_found)}};
  for (const std::string& hold : discovery.hold_ids) fields.emplace_back("hold", hold);
  for (const client::DiscoveredMemory& found : discovery.memories) {
    fields.emplace_back("memory", absl::StrCat(found.memory, " ", FormatCount(found.tokens)));
  }
  return fields;
}

Json ToJson(const client::Hold& hold) {
  Json json = {{"tenant", hold.tenant},
               {"id", hold.id},
               {"in_force", hold.in_force},
               {"place_time", hold.place_time}};
  AddUnlessEmpty(json, "release_time", hold.release_time);
  AddUnlessEmpty(json, "subject", hold.subject);
  AddUnlessEmpty(json, "reason", hold.reason);
  json["replayed"] = hold.replayed;
  return json;
}

Fields ToFields(const client::Hold& hold) {
  Fields fields = {{"hold", hold.id},
                   {"tenant", hold.tenant},
                   {"in force", hold.in_force ? "yes" : "no"},
                   {"placed", hold.place_time}};
  AddUnlessEmpty(fields, "released", hold.release_time);
  AddUnlessEmpty(fields, "subject", hold.subject);
  AddUnlessEmpty(fields, "reason", hold.reason);
  return fields;
}

Json ToJson(const client::ErasureReceipt& receipt) {
  return {{"certificate", receipt.certificate_id},
          {"identity", receipt.identity},
          {"request_id", receipt.request_id},
          {"request_salt", audit::Hex(receipt.receipt.request_salt)},
          {"subject_salt", audit::Hex(receipt.receipt.subject_salt)}};
}

}  // namespace lethe::cli
