#include "tests/variants/vectors_file.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lethe::svdd {
namespace {

using nlohmann::json;

double Number(const json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

std::vector<std::vector<double>> Rows(const json& array) {
  std::vector<std::vector<double>> rows;
  for (const json& row : array) {
    rows.emplace_back();
    for (const json& entry : row) rows.back().push_back(Number(entry));
  }
  return rows;
}

VectorCase CaseOf(const json& data) {
  const std::string name = data["kernel"];
  const auto kind = name == "exp_dot" ? kernel::KernelKind::kExpDot
                    : name == "rbf"   ? kernel::KernelKind::kRbf
                                      : kernel::KernelKind::kLaplacian;
  const std::string policy = data["duplicates"];
  return {data["name"],
          {{kind, Number(data["params"][name == "exp_dot" ? "scale" : "gamma"])},
           Capacity::FromBox(Number(data["C"])).value(),
           policy == "shared"         ? DuplicatesPolicy::kShared
           : policy == "oldest_first" ? DuplicatesPolicy::kOldestFirst
                                      : DuplicatesPolicy::kNewestFirst,
           static_cast<int>(data["keys"][0].size()),
           static_cast<int>(data["values"][0].size())},
          Rows(data["keys"]),
          Rows(data["values"]),
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
