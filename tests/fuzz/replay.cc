// Runs every target over its corpus once, so that what was found stays found in every build:
//
//     fuzz_replay FOLDER [FILE...]     FOLDER/calls, FOLDER/json, ...; with files, those alone
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace lethe::fuzz {
namespace {

struct Target {
  const char* name;
  void (*run)(absl::string_view input);
};
constexpr Target kTargets[] = {{"audit", FuzzAudit},
                               {"calls", FuzzCalls},
                               {"csv", FuzzCsv},
                               {"http_message", FuzzHttpMessage},
                               {"json", FuzzJson}};

// The file that a target is at, for the line that says what went wrong.
char at[4096];

void SayWhere(int signal) {
  constexpr char kText[] = "fuzz_replay: ended at ";
  // Nothing better can be done where this fails.
  (void)!::write(STDERR_FILENO, kText, sizeof kText - 1);
  (void)!::write(STDERR_FILENO, at, std::strlen(at));
  (void)!::write(STDERR_FILENO, "\n", 1);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

bool RunFile(const Target& target, const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file.good() && !file.eof()) {
    std::fprintf(stderr, "fuzz_replay: cannot read %s\n", path.c_str());
    return false;
  }
  std::snprintf(at, sizeof at, "%s", path.c_str());
  Say(path.string());
  target.run(bytes);
  return true;
}

// False where it has no corpus.
bool RunFolder(const Target& target, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) {
    std::fprintf(stderr, "fuzz_replay: nothing in %s\n", folder.c_str());
    return false;
  }
  const auto begin = std::chrono::steady_clock::now();
  for (const std::filesystem::path& path : files) {
    if (!RunFile(target, path)) return false;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%s: %zu inputs in %.2f s\n", target.name, files.size(), took.count());
  return true;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fprintf(stderr, "usage: fuzz_replay FOLDER [FILE...]\n");
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS}) ::signal(signal, SayWhere);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  bool good = true;
  for (const Target& target : kTargets) {
    if (arguments.size() == 1) {
      good &= RunFolder(target, std::filesystem::path(arguments[0]) / target.name);
      continue;
    }
    for (size_t i = 1; i < arguments.size(); ++i) {
      const std::filesystem::path path(arguments[i]);
      if (path.parent_path().filename() == target.name) good &= RunFile(target, path);
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace lethe::fuzz

int main(int argc, char** argv) {
  return lethe::fuzz::Main(std::vector<std::string>(argv + 1, argv + argc));
}
