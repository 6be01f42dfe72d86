#include <cmath>
#include <nlohmann/json.hpp>

#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

using Json = nlohmann::ordered_json;

Json Value(const Cell& cell) {
  if (const auto* word = std::get_if<std::string>(&cell)) return *word;
  if (const auto* count = std::get_if<int64_t>(&cell)) return *count;
  if (const auto* number = std::get_if<double>(&cell)) {
    if (std::isfinite(*number)) return *number;
  }
  return nullptr;
}

Json Value(const Table& table) {
  Json columns = Json::array();
  for (const Column& column : table.columns) {
    columns.push_back({{"name", column.name}, {"unit", column.unit}});
  }
  Json rows = Json::array();
  for (const auto& cells : table.rows) {
    Json row = Json::object();
    for (size_t c = 0; c < cells.size(); ++c) row[table.columns[c].name] = Value(cells[c]);
    rows.push_back(std::move(row));
  }
  return {{"title", table.title}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

}  // namespace

std::string AsJson(const Report& report) {
  Json claims = Json::array();
  for (const Claim& claim : report.result.claims) {
    claims.push_back(
        {{"claim", claim.text}, {"figure", claim.figure}, {"bar", claim.bar}, {"ok", claim.ok}});
  }
  Json tables = Json::array();
  for (const Table& table : report.result.tables) tables.push_back(Value(table));
  const Machine& machine = report.machine;
  const Json json = {{"bench", report.name},
                     {"summary", report.summary},
                     {"quick", report.quick},
                     {"seconds", report.seconds},
                     {"seeds", report.result.seeds},
                     {"machine",
                      {{"cpu", machine.cpu},
                       {"cpus", machine.cpus},
                       {"memory_gib", machine.memory_gib},
                       {"system", machine.system},
                       {"compiler", machine.compiler},
                       {"flags", machine.flags},
                       {"threads", report.result.threads}}},
                     {"claims", std::move(claims)},
                     {"tables", std::move(tables)},
                     {"notes", report.result.notes}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lethe::bench
