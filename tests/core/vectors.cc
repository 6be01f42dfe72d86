#include "tests/core/vectors.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lethe::svdd {
namespace {

using nlohmann::json;

double Number(const json& text) { return std::strtod(text.get<std::string>().c_str(), nullptr); }

std::vector<double> Numbers(const json& array) {
  std::vector<double> result;
  for (const json& entry : array) result.push_back(Number(entry));
  return result;
}

MemoryOptions Options(const json& data) {
  const std::string name = data["kernel"];
  kernel::Kernel kernel;
  if (name == "exp_dot") {
    kernel = {kernel::KernelKind::kExpDot, Number(data["params"]["scale"])};
  } else {
    kernel = {name == "rbf" ? kernel::KernelKind::kRbf : kernel::KernelKind::kLaplacian,
              Number(data["params"]["gamma"])};
  }
  const std::string duplicates = data["duplicates"];
  return {kernel, Capacity::FromBox(Number(data["C"])).value(),
          duplicates == "shared"         ? DuplicatesPolicy::kShared
          : duplicates == "oldest_first" ? DuplicatesPolicy::kOldestFirst
                                         : DuplicatesPolicy::kNewestFirst,
          static_cast<int>(data["keys"][0].size()), 2};
}

VectorState State(const json& data, const json& truth) {
  VectorState state;
  state.name = truth.contains("deleted") ? "deleted " + truth["deleted"].dump() : "full";
  for (const json& token : truth["tokens"]) {
    const size_t i = token.get<size_t>();
    state.tokens.push_back({i, Numbers(data["keys"][i]), Numbers(data["values"][i])});
  }
  state.alpha = truth["alpha"].get<std::vector<std::string>>();
  if (truth.contains("mu")) state.mu = truth["mu"];
  if (!state.tokens.empty()) {
    state.decision = truth["decision"].get<std::vector<std::string>>();
    state.readout = truth["readout"].get<std::vector<std::vector<std::string>>>();
  }
  return state;
}

std::vector<VectorCase> Load() {
  const json document =
      json::parse(std::ifstream(std::string(LETHE_SOURCE_DIR) + "/tests/golden/svdd.json"));
  std::vector<VectorCase> cases;
  for (const json& data : document["cases"]) {
    VectorCase vector{data["name"], Options(data), {}, {State(data, data["full"])}};
    for (const json& query : data["queries"]) vector.queries.push_back(Numbers(query));
    for (const json& truth : data["after_deleting"]) vector.states.push_back(State(data, truth));
    cases.push_back(std::move(vector));
  }
  return cases;
}

}  // namespace

const std::vector<VectorCase>& Vectors() {
  static const std::vector<VectorCase> cases = Load();
  return cases;
}

}  // namespace lethe::svdd
