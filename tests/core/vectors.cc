#include "tests/core/vectors.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/core/vectors_json.h"

namespace lethe::svdd {
namespace {

using nlohmann::json;

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
    VectorCase vector{data["name"], VectorOptions(data), {}, {State(data, data["full"])}};
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
