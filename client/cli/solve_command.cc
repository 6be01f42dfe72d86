#include <map>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/numbers.h"
#include "client/cli/render.h"
#include "client/cli/solve/solve.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::string vectors;
  bool summary = false;
};

Json Solution(const SolvedState& state, Json json) {
  json["partition"] = state.partition;
  Json alpha = Json::array();
  for (const double weight : state.alpha) alpha.push_back(FormatHex(weight));
  json["alpha"] = std::move(alpha);
  return json;
}

void AddExtras(const SolvedState& state, Json& json) {
  json["precision_bits"] = state.precision_bits;
  if (!state.readout.empty()) json["readout"] = state.readout;
  if (!state.decision.empty()) json["decision"] = state.decision;
}

struct Summary {
  uint64_t cases = 0;
  uint64_t deletions = 0;
  uint64_t equal_bits = 0;
  uint64_t inserts_equal = 0;
  uint64_t fallbacks = 0;
  std::map<int, uint64_t> rungs;  // states decided at so many bits

  std::string Text() const {
    std::string by_rung;
    for (const auto& [bits, states] : rungs) {
      absl::StrAppend(&by_rung, by_rung.empty() ? "" : ", ",
                      bits == 0 ? std::string("by definition") : absl::StrCat(bits, " bits"), ": ",
                      FormatCount(states));
    }
    return RenderFields(
        {{"cases", FormatCount(cases)},
         {"deletions", FormatCount(deletions)},
         {"equal bits",
          absl::StrCat(FormatCount(equal_bits), " of ", FormatCount(deletions), " deletions, ",
                       FormatCount(inserts_equal), " of ", FormatCount(cases), " inserts")},
         {"method", absl::StrCat(FormatCount(deletions - fallbacks), " walk, ",
                                 FormatCount(fallbacks), " fallback")},
         {"states decided", by_rung}});
  }
};

int Solve(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::vector<VectorCase>> cases = ReadVectorFile(arguments.vectors);
  if (!cases.ok()) {
    return context.FileError(absl::StrCat(arguments.vectors, ": ", cases.status().message()));
  }
  Summary summary;
  for (const VectorCase& problem : *cases) {
    const absl::StatusOr<SolvedCase> solved = SolveCase(problem);
    if (!solved.ok()) {
      return context.FileError(absl::StrCat(arguments.vectors, ": case \"", problem.name,
                                            "\": ", solved.status().message()));
    }
    Json json;
    json["name"] = problem.name;
    json["full"] = Solution(solved->full, Json::object());
    AddExtras(solved->full, json["full"]);
    Json deletions = Json::array();
    for (const SolvedDeletion& deletion : solved->deletions) {
      Json one = Solution(deletion.state, {{"deleted", deletion.deleted}});
      one["equal_bits_to_refit"] = deletion.equal_bits_to_refit;
      one["method"] = deletion.fallback ? "fallback" : "walk";
      AddExtras(deletion.state, one);
      deletions.push_back(std::move(one));
      ++summary.deletions;
      ++summary.rungs[deletion.state.precision_bits];
      summary.equal_bits += deletion.equal_bits_to_refit ? 1U : 0U;
      summary.fallbacks += deletion.fallback ? 1U : 0U;
    }
    json["after_deleting"] = std::move(deletions);
    context.io().out << Dump(json) << "\n";
    ++summary.cases;
    ++summary.rungs[solved->full.precision_bits];
    summary.inserts_equal += solved->insert_equals_refit ? 1U : 0U;
  }
  if (arguments.summary) context.io().err << summary.Text();
  return kExitOk;
}

}  // namespace

void AddSolveCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      AddVerb(app, "solve", "Solve a file of problems here, without a server",

              "Prints a JSON line a case: the solution for all tokens, and the state after each\n"
              "token was forgotten, compared bit by bit with a memory that never saw it.");
  verb->add_option("--vectors", arguments->vectors, "Problems, as in tests/golden/svdd.json")
      ->required()
      ->type_name("PATH");
  verb->add_flag("--summary", arguments->summary, "Counts on standard error at the end");
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Solve(context, *arguments); };
  });
}

}  // namespace lethe::cli
