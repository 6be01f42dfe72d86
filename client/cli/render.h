// The client's values as JSON and as text, and the one place where a command's data is printed.
#ifndef LETHE_CLIENT_CLI_RENDER_H_
#define LETHE_CLIENT_CLI_RENDER_H_

#include <string>

#include "client/cli/context.h"
#include "client/cli/table.h"
#include "client/types.h"
#include "nlohmann/json.hpp"

namespace lethe::cli {

using Json = nlohmann::ordered_json;

Json ToJson(const client::Tenant& tenant);
Json ToJson(const std::vector<client::StoreLevel>& stores);
// A line a place, indented.
void AddLevels(Fields& fields, const std::vector<client::StoreLevel>& stores);
Json ToJson(const client::MemoryDeletion& deletion);
Json ToJson(const client::Partition& partition);
Json ToJson(const client::Memory& memory);
Json ToJson(const client::QueryAnswer& answer);
Json ToJson(const client::ForgetResult& result);
Json ToJson(const client::EvictResult& result);
Json ToJson(const client::EditResult& result);
Json ToJson(const client::Description& description);
// Envelope and leaf as base64.
Json ToJson(const client::Certificate& certificate);

Fields ToFields(const client::Tenant& tenant);
Fields ToFields(const client::Memory& memory);
Fields ToFields(const client::MemoryDeletion& deletion);
Fields ToFields(const client::ForgetResult& result);
Fields ToFields(const client::EvictResult& result);
Fields ToFields(const client::EditResult& result);
Fields ToFields(const client::Description& description);

// "12 margin, 3 error, 40 reserve"
std::string Text(const client::Partition& partition);
// "bit-identical"
std::string Text(client::Verdict verdict);
// Invalid UTF-8 becomes U+FFFD. `indent` -1: one line.
std::string Dump(const Json& json, int indent = -1);

// One object: a sheet, indented JSON, or a JSON line.
void Print(Context& context, const Json& json, const std::string& text);
// Many objects of a listing.
class ListPrinter {
 public:
  ListPrinter(Context& context, std::vector<Column> columns)
      : context_(context), table_(std::move(columns)) {}
  void Add(const Json& json, std::vector<std::string> row);
  // Prints what is not printed yet. `nothing` is a note for an empty table.
  void Finish(const std::string& nothing);

 private:
  Context& context_;
  Table table_;
  Json array_ = Json::array();
};

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_RENDER_H_
