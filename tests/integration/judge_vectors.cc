// judge_vectors TRUTH.json < OUTPUT
//
// Holds what `lethe solve --vectors TRUTH.json` printed against the 60-digit answers in the same
// file. Shares no code with the solver: a truth is a decimal of 25 digits, which strtod rounds to
// nearest once; a weight counts as right only when it has that very bit pattern.
//
// Prints one `name=value` line a figure; what is wrong goes to stderr. Exits 0 when every case of
// the file was answered and everything agrees, 1 when something is wrong, 2 when it cannot judge.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>

#include "nlohmann/json.hpp"

namespace {

using Json = nlohmann::json;

struct Tally {
  uint64_t right = 0;
  uint64_t all = 0;
};

class Judge {
 public:
  // One solved problem against its truth; `where` names it in complaints.
  void Problem(const std::string& where, const Json& truth, const Json& answer) {
    const bool same_partition = answer.at("partition") == truth.at("partition");
    Count(partitions_, same_partition, where + ": partition");
    const Json& want = truth.at("alpha");
    const Json& got = answer.at("alpha");
    if (got.size() != want.size()) {
      Complain(where + ": number of weights");
      weights_.all += want.size();
      return;
    }
    for (size_t i = 0; i < want.size(); ++i) {
      Count(weights_, Bits(got[i]) == Bits(want[i]), where + ": alpha[" + std::to_string(i) + "]");
    }
    ++rungs_[answer.at("precision_bits").get<int64_t>()];
    Near(where + ": decision", truth.value("decision", Json::array()),
         answer.value("decision", Json::array()));
    Near(where + ": readout", truth.value("readout", Json::array()),
         answer.value("readout", Json::array()));
  }

  void Case(const Json& truth, const Json& answer) {
    const std::string name = truth.at("name");
    Problem(name, truth.at("full"), answer.at("full"));
    std::map<int64_t, const Json*> answers;
    for (const Json& deletion : answer.at("after_deleting")) {
      if (!answers.emplace(deletion.at("deleted").get<int64_t>(), &deletion).second) {
        Complain(name + ": a deletion answered twice");
      }
    }
    if (answers.size() != truth.at("after_deleting").size()) {
      Complain(name + ": number of deletions");
    }
    for (const Json& deletion : truth.at("after_deleting")) {
      const int64_t deleted = deletion.at("deleted");
      const std::string where = name + " without " + std::to_string(deleted);
      const auto found = answers.find(deleted);
      if (found == answers.end()) {
        Complain(where + ": not answered");
        continue;
      }
      Problem(where, deletion, *found->second);
      const Json& said = *found->second;
      Count(equal_bits_, said.at("equal_bits_to_refit") == true, where + ": bits of the refit");
      ++methods_[said.at("method").get<std::string>()];
    }
  }

  void Complain(const std::string& what) {
    ++complaints_;
    if (complaints_ <= 20) std::cerr << "wrong: " << what << "\n";
  }

  // Every figure; true when nothing was wrong.
  bool Report(size_t cases) const {
    std::cout << "cases=" << cases << "\n";
    Print("partitions", partitions_);
    Print("weights", weights_);
    Print("equal_bits", equal_bits_);
    Print("readouts", readouts_);
    std::cout << "worst_readout=" << worst_ << "\n";
    for (const auto& [method, count] : methods_) {
      std::cout << "method_" << method << "=" << count << "\n";
    }
    for (const auto& [bits, count] : rungs_) std::cout << "rung_" << bits << "=" << count << "\n";
    std::cout << "wrong=" << complaints_ << "\n";
    return complaints_ == 0;
  }

 private:
  // The bits of a decimal or hexadecimal text, rounded to nearest, -0 as 0.
  static uint64_t Bits(const Json& text) {
    const std::string digits = text.get<std::string>();
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (digits.empty() || *end != '\0') throw std::runtime_error("not a number: " + digits);
    return std::bit_cast<uint64_t>(value + 0.0);
  }

  // Numbers, or arrays of them, that are fp64 arithmetic over the weights: 1e-13 of their size, or
  // of 1.
  void Near(const std::string& what, const Json& want, const Json& got) {
    if (want.is_array()) {
      if (!got.is_array() || got.size() != want.size()) {
        ++readouts_.all;
        Complain(what);
        return;
      }
      for (size_t i = 0; i < want.size(); ++i) {
        Near(what + "[" + std::to_string(i) + "]", want[i], got[i]);
      }
      return;
    }
    const double truth = std::strtod(want.get<std::string>().c_str(), nullptr);
    const double deviation = std::abs(got.get<double>() - truth) / std::max(1.0, std::abs(truth));
    worst_ = std::max(worst_, deviation);
    Count(readouts_, deviation <= 1e-13, what);
  }

  void Count(Tally& tally, bool right, const std::string& what) {
    ++tally.all;
    if (right) {
      ++tally.right;
    } else {
      Complain(what);
    }
  }

  static void Print(const char* name, const Tally& tally) {
    std::cout << name << "=" << tally.right << "/" << tally.all << "\n";
  }

  Tally partitions_;
  Tally weights_;
  Tally equal_bits_;
  Tally readouts_;  // and decisions
  double worst_ = 0.0;
  std::map<std::string, uint64_t> methods_;
  std::map<int64_t, uint64_t> rungs_;
  uint64_t complaints_ = 0;
};

int Run(const std::string& truth_path) {
  std::ifstream file(truth_path);
  const Json truth = Json::parse(file);
  std::map<std::string, Json> answers;
  Judge judge;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer = Json::parse(line);
    const std::string name = answer.at("name");
    if (!answers.emplace(name, std::move(answer)).second) judge.Complain(name + ": answered twice");
  }
  const Json& cases = truth.at("cases");
  for (const Json& a_case : cases) {
    const std::string name = a_case.at("name");
    const auto found = answers.find(name);
    if (found == answers.end()) {
      judge.Complain(name + ": not answered");
      continue;
    }
    judge.Case(a_case, found->second);
  }
  if (answers.size() > cases.size()) judge.Complain("answers to cases that do not exist");
  return judge.Report(cases.size()) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: judge_vectors TRUTH.json < OUTPUT\n";
    return 2;
  }
  try {
    return Run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "judge_vectors: " << error.what() << "\n";
    return 2;
  }
}
