#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

#include "tests/bench/report.h"

namespace lethe::bench {

Machine ThisMachine() {
  Machine machine;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    machine.cpu = line.substr(line.find(": ") + 2);
    break;
  }
  if (machine.cpu.empty()) machine.cpu = "unknown";
  machine.cpus = static_cast<int>(std::thread::hardware_concurrency());
  machine.memory_gib = static_cast<double>(sysconf(_SC_PHYS_PAGES)) *
                       static_cast<double>(sysconf(_SC_PAGE_SIZE)) / (1024.0 * 1024 * 1024);
  utsname names{};
  if (uname(&names) == 0) machine.system = std::string(names.sysname) + " " + names.machine;
#ifdef __clang__
  machine.compiler = "clang++ " __clang_version__;
#else
  machine.compiler = "g++ " __VERSION__;
#endif
  machine.flags = LETHE_BENCH_FLAGS;
  return machine;
}

}  // namespace lethe::bench
