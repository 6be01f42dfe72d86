#include "tests/variants/vectors_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/core/vectors_json.h"

namespace lethe::svdd {
namespace {

using nlohmann::json;

std::vector<std::vector<double>> Rows(const json& array) {
  std::vector<std::vector<double>> rows;
  for (const json& row : array) rows.push_back(Numbers(row));
  return rows;
}

VectorCase CaseOf(const json& data) {
  return {data["name"], VectorOptions(data), Rows(data["keys"]), Rows(data["values"]),
          Rows(data["queries"])};
}

}  // namespace

std::vector<VectorCase> ReadVectors(const std::string& path) {
  std::ifstream file(path);
  const json document = json::parse(file, nullptr, false);
  std::vector<VectorCase> cases;
  if (document.is_discarded()) return cases;
  for (const json& data : document["cases"]) cases.push_back(CaseOf(data));
  return cases;
}

}  // namespace lethe::svdd
