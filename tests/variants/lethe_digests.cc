// lethe-digests: every bit that the core publishes, as one digest a stream of changes. Whatever
// compiler, optimisation or libm built and runs it, the lines must be the same (build_variants.sh).
//
//   lethe-digests VECTORS [ROUNDS]   the cases of tests/golden/svdd.json, then ROUNDS (1) seeds of
//                                    every regime; one line each, and one over all of them
//   lethe-digests --libm             a digest of libm's exp, which may differ: it tells which of
//                                    libm's versions runs
//
// Published are: phase, counts, handles, labels, weights, mu or its interval, the radius, and the
// readout, shares, sums and decision of a query. Bounds and reports of how a state was reached are
// not part of it. Keys are drawn without libm.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "core/svdd/memory.h"
#include "tests/variants/vectors_file.h"

namespace lethe::svdd {
namespace {

// FNV-1a, 64 bits: tells different bits apart, and is nobody's secret.
class Digest {
 public:
  void Add(uint64_t word) {
    for (int byte = 0; byte < 8; ++byte) {
      hash_ = (hash_ ^ (word >> (8 * byte) & 0xff)) * 0x100000001b3;
    }
  }
  void Add(double value) { Add(std::bit_cast<uint64_t>(value)); }
  void Add(const std::optional<double>& value) {
    Add(uint64_t{value.has_value()});
    Add(value.value_or(0.0));
  }
  void Add(const std::vector<double>& values) {
    Add(uint64_t{values.size()});
    for (const double value : values) Add(value);
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

void AddState(const Snapshot& state, Digest& digest) {
  digest.Add(uint64_t{static_cast<uint8_t>(state.phase)});
  digest.Add(state.counts.margin);
  digest.Add(state.counts.error);
  digest.Add(state.counts.reserve);
  digest.Add(state.mu);
  digest.Add(state.mu_low);
  digest.Add(state.mu_high);
  digest.Add(state.radius_squared);
  for (const SupportToken& token : state.supports) {
    digest.Add(token.handle);
    digest.Add(uint64_t{static_cast<uint8_t>(token.label)});
    digest.Add(token.alpha);
  }
}

void AddReadout(const Snapshot& state, std::span<const double> query, Digest& digest) {
  if (state.phase == Phase::kEmpty) return;
  const Readout readout = state.Query(query, true);
  digest.Add(readout.value);
  digest.Add(readout.shares);
  digest.Add(readout.log_denominator);
  digest.Add(readout.kernel_sum);
  digest.Add(readout.decision);
  digest.Add(readout.decision_low);
  digest.Add(readout.decision_high);
}

class Report {
 public:
  void Line(const std::string& name, const Digest& digest) {
    std::printf("%-40s %016llx\n", name.c_str(), static_cast<unsigned long long>(digest.value()));
    all_.Add(digest.value());
  }
  void Last() { Line("all", Digest(all_)); }

 private:
  Digest all_;
};

// Token by token, then each token forgotten from the full memory in turn.
void RunCase(const VectorCase& vector, Report& report) {
  Digest digest;
  auto memory = ExactMemory::Create(vector.options).value();
  for (size_t i = 0; i < vector.keys.size(); ++i) {
    const NewToken token{i, vector.keys[i], vector.values[i]};
    LETHE_CHECK(memory->Insert({&token, 1}).ok());
    AddState(*memory->snapshot(), digest);
  }
  for (const auto& query : vector.queries) AddReadout(*memory->snapshot(), query, digest);
  for (TokenHandle handle = 0; handle < vector.keys.size(); ++handle) {
    const auto state = memory->Preview({&handle, 1}).value();
    AddState(*state, digest);
    for (const auto& query : vector.queries) AddReadout(*state, query, digest);
  }
  report.Line("vector " + vector.name, digest);
}

enum class Keys { kGaussian, kNoise, kCopies, kGrid, kConstant };

struct Regime {
  std::string name;
  Keys keys;
  double noise;
  int dimension;
  kernel::Kernel kernel;
  Capacity capacity;
  DuplicatesPolicy duplicates;
  size_t tokens;  // retained once grown
  int steps;
};

class Stream {
 public:
  Stream(const Regime& regime, uint64_t seed) : regime_(regime), random_(seed) {
    for (int i = 0; i < 5; ++i) centres_.push_back(Gaussian(1.5));
    memory_ = ExactMemory::Create(
                  {regime.kernel, regime.capacity, regime.duplicates, regime.dimension, 3})
                  .value();
  }

  Digest Run() {
    Digest digest;
    Insert(regime_.tokens / 2);
    for (int step = 0; step < regime_.steps; ++step) {
      const uint64_t choice = Below(10);
      if (alive_.size() < 3 || (choice < 5 && alive_.size() < regime_.tokens)) {
        Insert(1 + Below(3));
      } else if (choice < 7) {
        Replace();
      } else {
        Forget(1 + Below(std::min<uint64_t>(3, alive_.size())));
      }
      AddState(*memory_->snapshot(), digest);
      AddReadout(*memory_->snapshot(), Gaussian(1.0), digest);
      AddReadout(*memory_->snapshot(), Key(), digest);
    }
    // Far from everything, where exp_dot's limit allows it; then back through warming to nothing.
    AddReadout(*memory_->snapshot(), Gaussian(20.0), digest);
    while (!alive_.empty()) {
      Forget(std::min<size_t>(alive_.size(), 1 + alive_.size() / 2));
      AddState(*memory_->snapshot(), digest);
    }
    return digest;
  }

 private:
  uint64_t Below(uint64_t limit) { return random_() % limit; }

  // Near enough to normal: a sum of twelve uniform numbers, every one exact.
  std::vector<double> Gaussian(double spread) {
    std::vector<double> key(static_cast<size_t>(regime_.dimension));
    for (double& coordinate : key) {
      double sum = -6.0;
      for (int i = 0; i < 12; ++i) sum += static_cast<double>(random_() >> 20) * 0x1p-44;
      coordinate = spread * sum;
    }
    return key;
  }

  std::vector<double> Key() {
    if (regime_.keys == Keys::kGaussian) return Gaussian(1.0);
    std::vector<double> key = centres_[Below(centres_.size())];
    if (regime_.keys == Keys::kConstant) key = centres_[0];
    if (regime_.keys == Keys::kGrid) {
      for (double& coordinate : key) coordinate = static_cast<double>(Below(4));
    }
    if (regime_.keys == Keys::kNoise) {
      const std::vector<double> noise = Gaussian(regime_.noise);
      for (size_t k = 0; k < key.size(); ++k) key[k] += noise[k];
    }
    return key;
  }

  struct Token {
    TokenHandle handle;
    std::vector<double> key;
    std::vector<double> value;
  };
  std::vector<Token> Fresh(size_t count) {
    std::vector<Token> tokens;
    for (size_t i = 0; i < count; ++i) {
      const TokenHandle handle = next_++;
      tokens.push_back({handle, Key(), {1.0, Gaussian(1.0)[0], static_cast<double>(handle)}});
      alive_.push_back(handle);
    }
    return tokens;
  }
  static std::vector<NewToken> View(const std::vector<Token>& tokens) {
    std::vector<NewToken> view;
    for (const Token& token : tokens) view.push_back({token.handle, token.key, token.value});
    return view;
  }
  std::vector<TokenHandle> Victims(size_t count) {
    std::vector<TokenHandle> victims;
    for (size_t i = 0; i < count; ++i) {
      const auto victim = alive_.begin() + static_cast<std::ptrdiff_t>(Below(alive_.size()));
      victims.push_back(*victim);
      alive_.erase(victim);
    }
    return victims;
  }

  void Insert(size_t count) {
    const std::vector<Token> tokens = Fresh(count);
    LETHE_CHECK(memory_->Insert(View(tokens)).ok());
  }
  void Forget(size_t count) { LETHE_CHECK(memory_->Forget(Victims(count)).ok()); }
  void Replace() {
    const std::vector<TokenHandle> victims = Victims(1 + Below(2));
    const std::vector<Token> tokens = Fresh(1 + Below(2));
    LETHE_CHECK(memory_->Replace(victims, View(tokens)).ok());
  }

  const Regime& regime_;
  std::mt19937_64 random_;
  std::vector<std::vector<double>> centres_;
  std::unique_ptr<ExactMemory> memory_;
  std::vector<TokenHandle> alive_;
  TokenHandle next_ = 1;
};

std::vector<Regime> Regimes() {
  constexpr kernel::Kernel kRbf{kernel::KernelKind::kRbf, 0.5};
  constexpr kernel::Kernel kLaplacian{kernel::KernelKind::kLaplacian, 0.6};
  constexpr kernel::Kernel kExpDot{kernel::KernelKind::kExpDot, 0.4};
  constexpr auto kShared = DuplicatesPolicy::kShared;
  const auto capacity = [](double n) { return Capacity::FromCapacity(n).value(); };
  const auto box = [](double c) { return Capacity::FromBox(c).value(); };
  return {
      {"gaussian", Keys::kGaussian, 0, 3, kRbf, capacity(6.5), kShared, 40, 40},
      {"gaussian_box", Keys::kGaussian, 0, 5, kRbf, box(0.13), kShared, 40, 40},
      {"gaussian_integer", Keys::kGaussian, 0, 3, kRbf, capacity(9), kShared, 40, 40},
      {"wide",
       Keys::kGaussian,
       0,
       2,
       {kernel::KernelKind::kRbf, 1e-5},
       capacity(5.5),
       kShared,
       24,
       15},
      {"many_dimensions",
       Keys::kGaussian,
       0,
       67,
       {kernel::KernelKind::kRbf, 0.008},
       capacity(7.5),
       kShared,
       40,
       15},
      {"many_supports", Keys::kGaussian, 0, 4, kRbf, box(0.015), kShared, 240, 12},
      {"near_duplicates_1e-3", Keys::kNoise, 1e-3, 3, kRbf, capacity(6.5), kShared, 32, 25},
      {"near_duplicates_1e-9", Keys::kNoise, 1e-9, 3, kRbf, capacity(6.5), kShared, 30, 15},
      {"near_duplicates_1e-9_integer", Keys::kNoise, 1e-9, 2, kRbf, capacity(6), kShared, 30, 15},
      {"copies_shared", Keys::kCopies, 0, 3, kRbf, capacity(6.3), kShared, 30, 30},
      {"copies_oldest_first", Keys::kCopies, 0, 3, kRbf, capacity(6.3),
       DuplicatesPolicy::kOldestFirst, 30, 30},
      {"copies_newest_first", Keys::kCopies, 0, 3, kExpDot, capacity(6),
       DuplicatesPolicy::kNewestFirst, 30, 30},
      {"grid", Keys::kGrid, 0, 2, kRbf, capacity(6.5), kShared, 40, 30},
      {"grid_integer", Keys::kGrid, 0, 2, kRbf, capacity(4), DuplicatesPolicy::kOldestFirst, 40,
       30},
      {"grid_laplacian", Keys::kGrid, 0, 2, kLaplacian, capacity(6), kShared, 40, 30},
      {"constant", Keys::kConstant, 0, 2, kRbf, capacity(4.5), DuplicatesPolicy::kNewestFirst, 20,
       20},
      {"laplacian", Keys::kGaussian, 0, 3, kLaplacian, capacity(7.2), kShared, 40, 40},
      {"laplacian_near_duplicates", Keys::kNoise, 1e-6, 3, kLaplacian, capacity(5.5), kShared, 30,
       15},
      {"exp_dot", Keys::kGaussian, 0, 3, kExpDot, capacity(6.4), kShared, 40, 40},
      {"exp_dot_near_duplicates", Keys::kNoise, 1e-6, 3, kExpDot, capacity(6), kShared, 30, 15},
  };
}

Digest LibmDigest() {
  Digest digest;
  volatile double x = -40.0;  // nothing is computed by the compiler
  while (x < 1.0) {
    digest.Add(std::exp(x));
    x = x + 0.0013;
  }
  return digest;
}

int Main(int argc, char** argv) {
  Report report;
  if (argc == 2 && std::strcmp(argv[1], "--libm") == 0) {
    report.Line("libm", LibmDigest());
    return 0;
  }
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 1;
  if (argc < 2 || argc > 3 || rounds < 1) {
    std::fputs("usage: lethe-digests VECTORS [ROUNDS] | lethe-digests --libm\n", stderr);
    return 2;
  }
  const std::vector<VectorCase> vectors = ReadVectors(argv[1]);
  if (vectors.empty()) {
    std::fputs("lethe-digests: VECTORS holds no cases\n", stderr);
    return 1;
  }
  for (const VectorCase& vector : vectors) RunCase(vector, report);
  const std::vector<Regime> regimes = Regimes();
  for (const Regime& regime : regimes) {
    for (int seed = 1; seed <= rounds; ++seed) {
      report.Line(regime.name + " " + std::to_string(seed),
                  Stream(regime, static_cast<uint64_t>(seed)).Run());
    }
  }
  report.Last();
  return 0;
}

}  // namespace
}  // namespace lethe::svdd

int main(int argc, char** argv) { return lethe::svdd::Main(argc, argv); }
