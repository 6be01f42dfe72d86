// Logs of many certificates, made through the service and without the network, for tests/show.
//
//   log_tool append DATA COUNT [ROTATE_EVERY]
//       a tenant "log" with COUNT certificates: cold refits, and a forget with its two in ten;
//       prints what an append cost at the beginning and at the end
//   log_tool race DATA THREADS FORGETS
//       so many threads, each forgetting so often, at once
//   log_tool export DATA PATH
//       its export, and what it took
//   log_tool proofs DATA
//       a line for each two sizes m <= n: m n root(m) root(n) proof, in base64
//   log_tool key DATA
//       the verification keys, the first one first
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "audit/encoding.h"
#include "audit/export.h"
#include "audit/export_sinks.h"
#include "audit/tree_proof.h"
#include "core/program/event_log.h"
#include "server/service/service.h"

namespace lethe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kTenant[] = "log";
constexpr char kMemory[] = "tokens";
constexpr uint64_t kWindow = 1000;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

[[noreturn]] void Die(absl::string_view what, const absl::Status& status) {
  std::cerr << "log_tool: " << what << ": " << status << "\n";
  std::exit(1);
}
void Must(absl::string_view what, const absl::Status& status) {
  if (!status.ok()) Die(what, status);
}
template <typename T>
T Must(absl::string_view what, absl::StatusOr<T> result) {
  if (!result.ok()) Die(what, result.status());
  return *std::move(result);
}

double PeakMebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

class Tool {
 public:
  explicit Tool(const std::string& data) : log_(2, program::LogLevel::kError) {
    service::ServiceOptions options;
    options.data = data;
    options.origin = "lethe.example";
    options.tenant.log = &log_;
    service_ = Must("open", service::Service::Open(options));
  }

  void Create() {
    Must("tenant", service_->CreateTenant(kTenant, call_).status());
    service::MemoryConfig config;
    config.kernel = kernel::Kernel{.kind = kernel::KernelKind::kRbf, .parameter = 0.5};
    config.capacity = 8.0;
    config.key_dimension = 2;
    config.value_dimension = 1;
    Must("memory", service_->CreateMemory(kTenant, kMemory, config, call_).status());
  }

  void Append(uint64_t count, uint64_t rotate_every) {
    // A few tokens that stay.
    for (int i = 0; i < 12; ++i) Insert(absl::StrCat("kept-", i), i);
    std::vector<double> windows;  // seconds, a window of appends each
    Clock::duration window{};
    const uint64_t window_size = std::min(kWindow, count);
    for (uint64_t made = 0; made < count;) {
      const uint64_t before = made;
      // An erasure makes two certificates, the second about its keys.
      const bool forget = made % 10 == 8 && made + 2 <= count;
      const std::string id = absl::StrCat("token-", made);
      if (forget) Insert(id, static_cast<int>(made / 10 % 7));
      const auto start = Clock::now();
      if (forget) {
        Forget(id);
        made += 2;
      } else if (rotate_every > 0 && made % rotate_every == rotate_every - 3) {
        Must("rotate", service_->RotateKey(call_).status());
        ++made;
      } else {
        Must("verify", service_->Verify(kTenant, kMemory, call_).status());
        ++made;
      }
      window += Clock::now() - start;
      if (made / window_size != before / window_size) {
        windows.push_back(Seconds(window));
        window = {};
      }
    }
    std::printf("appended %lu first %.3f last %.3f ratio %.3f peak %.0f\n", count, windows.front(),
                windows.back(), windows.back() / windows.front(), PeakMebibytes());
  }

  void Race(int threads, int forgets) {
    for (int t = 0; t < threads; ++t) {
      for (int i = 0; i < forgets; ++i) Insert(absl::StrCat("token-", t, "-", i), t * forgets + i);
    }
    std::atomic<int> ready = 0;
    std::vector<std::thread> racers;
    for (int t = 0; t < threads; ++t) {
      racers.emplace_back([this, t, threads, forgets, &ready] {
        ++ready;
        while (ready < threads) std::this_thread::yield();
        for (int i = 0; i < forgets; ++i) Forget(absl::StrCat("token-", t, "-", i));
      });
    }
    for (std::thread& racer : racers) racer.join();
    std::printf("forgot %d\n", threads * forgets);
  }

  void Export(const std::string& path) {
    const auto start = Clock::now();
    const auto sink = Must("sink", audit::CreateExportSink(path));
    Must("export", service_->Export(kTenant, {}, *sink));
    Must("finish", sink->Finish());
    std::printf("exported seconds %.3f peak %.0f\n", Seconds(Clock::now() - start),
                PeakMebibytes());
  }

  void Proofs() {
    const auto log = Must("log", service_->OpenLog(kTenant));
    // All of them at once: every pair asks for some of each level.
    std::vector<std::vector<audit::Digest>> nodes;
    for (int level = 0; log->size() >> level > 0; ++level) {
      nodes.emplace_back();
      for (uint64_t i = 0; i < log->size() >> level; ++i) {
        nodes.back().push_back(Must("node", log->Node(level, i)));
      }
    }
    const auto node = [&nodes](int level, uint64_t index) -> absl::StatusOr<audit::Digest> {
      return nodes[static_cast<size_t>(level)][index];
    };
    std::vector<std::string> roots = {""};
    for (uint64_t n = 1; n <= log->size(); ++n) {
      roots.push_back(audit::Base64(Must("root", audit::RootAt(n, node))));
    }
    for (uint64_t n = 1; n <= log->size(); ++n) {
      for (uint64_t m = 1; m <= n; ++m) {
        const auto proof = Must("proof", audit::ConsistencyProof(m, n, node));
        const auto encode = [](std::string* out, const audit::Digest& hash) {
          out->append(audit::Base64(hash));
        };
        const std::string text = proof.empty() ? "-" : absl::StrJoin(proof, ",", encode);
        std::printf("%lu %lu %s %s %s\n", m, n, roots[m].c_str(), roots[n].c_str(), text.c_str());
      }
    }
  }

  void Keys() {
    const service::CheckpointInfo checkpoint = Must("key", service_->GetCheckpoint(kTenant));
    for (const service::LogKeyInfo& key : checkpoint.keys) std::printf("%s\n", key.vkey.c_str());
  }

 private:
  void Insert(const std::string& id, int place) {
    service::TokenInput token;
    token.id = id;
    token.key = {0.25 * (place % 40), 0.125 * (place % 9)};
    token.value = {1.0};
    Must("insert", service_->Insert(kTenant, kMemory, {token}, call_).status());
  }
  void Forget(const std::string& id) {
    service::ForgetInput input;
    input.tenant = kTenant;
    input.memory = kMemory;
    input.target = service::ForgetIds{{id}};
    input.request_id = absl::StrCat("forget-", id);
    Must("forget", service_->Forget(input, call_).status());
  }

  program::EventLog log_;
  std::unique_ptr<service::Service> service_;
  const service::CallOptions call_;
};

int Main(const std::vector<std::string>& words) {
  const size_t count = words.size();
  if (count < 2) return 2;
  const auto number = [&words](size_t i) { return std::strtoull(words[i].c_str(), nullptr, 10); };
  Tool tool(words[1]);
  if (words[0] == "append" && (count == 3 || count == 4)) {
    tool.Create();
    tool.Append(number(2), count == 4 ? number(3) : 0);
  } else if (words[0] == "race" && count == 4) {
    tool.Create();
    tool.Race(static_cast<int>(number(2)), static_cast<int>(number(3)));
  } else if (words[0] == "export" && count == 3) {
    tool.Export(words[2]);
  } else if (words[0] == "proofs" && count == 2) {
    tool.Proofs();
  } else if (words[0] == "key" && count == 2) {
    tool.Keys();
  } else {
    return 2;
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lethe

int main(int argc, char** argv) {
  const int code = lethe::Main(std::vector<std::string>(argv + 1, argv + argc));
  if (code == 2) std::cerr << "usage: log_tool append|race|export|proofs|key DATA ...\n";
  return code;
}
