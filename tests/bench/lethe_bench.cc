// lethe-bench: measures, compares and draws. docs/benches.md.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tests/bench/bench.h"
#include "tests/bench/report.h"

namespace lethe::bench {
namespace {

constexpr int kUsageStatus = 2;
constexpr size_t kNames = 21;

void PrintRow(const std::string& name, const std::string& text) {
  const std::string gap(kNames > name.size() + 2 ? kNames - name.size() - 2 : 1, ' ');
  std::cout << "  " << name << gap << Wrapped(text, 80 - kNames, kNames) << "\n";
}

void PrintFlags(const std::vector<Flag>& flags) {
  for (const Flag& flag : flags) PrintRow(absl::StrCat(flag.name, " ", flag.value), flag.help);
}

void PrintCommonFlags() {
  std::cout << "\nFor every bench:\n";
  PrintRow("--json FILE", "also write the result as JSON; - for standard output, and no text");
  PrintRow("--svg FILE", "also draw the result; - as above");
  PrintRow("--claims FILE",
           "also write a line a claim, \"ok|short CLAIM: FIGURE (bar BAR)\"; - as above");
  PrintRow("--seed N", "first seed of the random generators (1)");
  PrintRow("--quick", "a smaller form that takes seconds");
  PrintRow("--help", "what a bench measures and its own flags");
}

void PrintHelp() {
  std::cout << "usage: lethe-bench list\n"
               "       lethe-bench NAME [flags]\n"
               "       lethe-bench micro [Google Benchmark's flags]\n\nBenches:\n";
  for (const auto& [name, bench] : Benches()) PrintRow(name, bench.summary);
  PrintRow(
      "micro",
      "single operations of the core, by Google Benchmark; --benchmark_filter=REGEX takes some");
  PrintCommonFlags();
  bool first = true;
  for (const auto& [name, bench] : Benches()) {
    if (bench.flags.empty()) continue;
    if (std::exchange(first, false)) std::cout << "\nFor one bench:\n";
    for (const Flag& flag : bench.flags) {
      PrintRow(absl::StrCat(flag.name, " ", flag.value), absl::StrCat(flag.help, " (", name, ")"));
    }
  }
  std::cout << "\nExit status: 0 when every claim holds, 1 when one falls short or the bench\n"
               "failed, 2 for bad usage.\n";
}

void PrintBenchHelp(const Bench& bench) {
  std::cout << "usage: lethe-bench " << bench.name << " [flags]\n\n"
            << Wrapped(bench.summary, 80, 0) << "\n";
  if (!bench.flags.empty()) std::cout << "\nIts own flags:\n";
  PrintFlags(bench.flags);
  PrintCommonFlags();
}

int BadUsage(const std::string& what) {
  std::cerr << "lethe-bench: " << what << "\n";
  return kUsageStatus;
}

struct Order {
  Settings settings;
  std::string json;
  std::string svg;
  std::string claims;
  bool help = false;
};

// Nothing, or what is wrong with the words.
std::optional<std::string> Parse(const Bench& bench,
                                 const std::vector<std::string>& words,
                                 Order& order) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i];
    std::optional<std::string> value;
    if (const size_t equals = name.find('='); equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    const bool bare = name == "--quick" || name == "--help" || name == "-h";
    if (bare) {
      if (value.has_value()) return absl::StrCat(name, " takes no value");
      (name == "--quick" ? order.settings.quick : order.help) = true;
      continue;
    }
    const Flag* own = nullptr;
    for (const Flag& flag : bench.flags) {
      if (flag.name == name) own = &flag;
    }
    if (own == nullptr && name != "--json" && name != "--svg" && name != "--claims" &&
        name != "--seed") {
      return absl::StrCat("no flag ", name, " for ", bench.name, "; see lethe-bench ", bench.name,
                          " --help");
    }
    if (!value.has_value()) {
      if (i + 1 == words.size()) return absl::StrCat(name, " needs a value");
      value = words[++i];
    }
    if (value->empty()) return absl::StrCat(name, " needs a value");
    if (name == "--json") {
      order.json = *value;
    } else if (name == "--svg") {
      order.svg = *value;
    } else if (name == "--claims") {
      order.claims = *value;
    } else if (name == "--seed") {
      if (!absl::SimpleAtoi(*value, &order.settings.seed)) {
        return absl::StrCat("--seed: not a whole number: ", *value);
      }
    } else {
      int64_t count = 0;
      if (own->kind == Flag::Kind::kCount && (!absl::SimpleAtoi(*value, &count) || count < 1)) {
        return absl::StrCat(name, ": not a whole number above 0: ", *value);
      }
      order.settings.given[name] = *value;
    }
  }
  return std::nullopt;
}

bool Write(const std::string& path, const std::string& text) {
  if (path == "-") {
    std::cout << text << std::flush;
    return std::cout.good();
  }
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return true;
  std::cerr << "lethe-bench: cannot write " << path << ": " << std::strerror(errno) << "\n";
  return false;
}

int RunBench(const Bench& bench, const std::vector<std::string>& words) {
  Order order;
  if (const auto wrong = Parse(bench, words, order)) return BadUsage(*wrong);
  if (order.help) {
    PrintBenchHelp(bench);
    return 0;
  }
  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<Result> result = bench.run(order.settings);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (!result.ok()) {
    std::cerr << "lethe-bench: " << bench.name << ": " << result.status().message() << "\n";
    return absl::IsInvalidArgument(result.status()) ? kUsageStatus : 1;
  }
  const Report report{bench.name,    bench.summary,        *std::move(result),
                      ThisMachine(), order.settings.quick, took.count()};
  if (order.json != "-" && order.svg != "-" && order.claims != "-")
    std::cout << AsText(report) << std::flush;
  bool good = order.json.empty() || Write(order.json, AsJson(report));
  if (!order.svg.empty()) {
    if (report.result.plot.has_value()) {
      good &= Write(order.svg, AsSvg(report));
    } else {
      std::cerr << "lethe-bench: " << bench.name << ": nothing to draw\n";
    }
  }
  std::string lines;
  for (const Claim& claim : report.result.claims) {
    absl::StrAppend(&lines, AsLine(claim), "\n");
    good &= claim.ok;
  }
  if (!order.claims.empty()) good &= Write(order.claims, lines);
  return good ? 0 : 1;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty()) return BadUsage("which bench? See lethe-bench --help");
  if (words[0] == "--help" || words[0] == "-h") {
    PrintHelp();
    return 0;
  }
  if (words[0] == "list") {
    if (words.size() > 1) return BadUsage("list takes no arguments");
    for (const auto& [name, bench] : Benches()) PrintRow(name, bench.summary);
    return 0;
  }
  if (words[0] == "micro") return RunMicro(argc - 1, argv + 1);
  const auto bench = Benches().find(words[0]);
  if (bench == Benches().end()) {
    return BadUsage(absl::StrCat("no bench \"", words[0], "\"; see lethe-bench list"));
  }
  return RunBench(bench->second, {words.begin() + 1, words.end()});
}

}  // namespace
}  // namespace lethe::bench

int main(int argc, char** argv) { return lethe::bench::Main(argc, argv); }
