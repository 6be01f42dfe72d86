#include "tests/bench/data.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>

#include "absl/strings/string_view.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "core/base/check.h"

namespace lethe::bench {
namespace {

class BytesOf {
 public:
  template <typename T>
  void Add(const T& value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes_.append(raw, sizeof(T));
  }
  void Add(const std::optional<double>& value) {
    Add(value.has_value());
    Add(value.value_or(0.0));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace

double Random::Uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

double Random::Normal() {
  const double radius = std::sqrt(-2.0 * std::log1p(-Uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * Uniform());
}

size_t Random::Below(size_t count) {
  LETHE_CHECK(count > 0);
  return static_cast<size_t>(Uniform() * static_cast<double>(count));
}

Vector Random::Normals(size_t size, double deviation) {
  Vector out(size);
  for (double& coordinate : out) coordinate = deviation * Normal();
  return out;
}

Vector Random::Near(const Vector& centre, double deviation) {
  Vector out = centre;
  for (double& coordinate : out) coordinate += deviation * Normal();
  return out;
}

std::vector<size_t> Random::Subset(size_t count, size_t below) {
  LETHE_CHECK(count <= below);
  std::vector<size_t> all(below);
  std::iota(all.begin(), all.end(), size_t{0});
  for (size_t i = 0; i < count; ++i) std::swap(all[i], all[i + Below(below - i)]);
  all.resize(count);
  std::sort(all.begin(), all.end());
  return all;
}

double SquaredDistance(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (size_t k = 0; k < a.size(); ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  return sum;
}

double Rbf(const Vector& a, const Vector& b, double gamma) {
  return std::exp(-gamma * SquaredDistance(a, b));
}

std::unique_ptr<svdd::ExactMemory> MakeMemory(double gamma,
                                              svdd::Capacity capacity,
                                              size_t key_dimension,
                                              size_t value_dimension) {
  auto memory = svdd::ExactMemory::Create({{kernel::KernelKind::kRbf, gamma},
                                           capacity,
                                           svdd::DuplicatesPolicy::kShared,
                                           static_cast<int>(key_dimension),
                                           static_cast<int>(value_dimension)});
  LETHE_CHECK(memory.ok());
  return *std::move(memory);
}

void InsertAll(svdd::ExactMemory& memory,
               std::span<const Token> tokens,
               std::span<const svdd::TokenHandle> handles) {
  std::vector<svdd::NewToken> batch;
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.push_back({handles[i], tokens[i].key, tokens[i].value});
  }
  LETHE_CHECK(memory.Insert(batch).ok());
}

void InsertAll(svdd::ExactMemory& memory, std::span<const Token> tokens) {
  std::vector<svdd::TokenHandle> handles(tokens.size());
  std::iota(handles.begin(), handles.end(), svdd::TokenHandle{0});
  InsertAll(memory, tokens, handles);
}

std::string StateDigest(const svdd::Snapshot& state) {
  BytesOf out;
  out.Add(static_cast<uint8_t>(state.options.kernel.kind));
  out.Add(state.options.kernel.parameter);
  out.Add(state.options.capacity.total());
  out.Add(state.options.capacity.box());
  out.Add(static_cast<uint8_t>(state.options.duplicates));
  out.Add(static_cast<uint8_t>(state.phase));
  out.Add(state.counts.margin);
  out.Add(state.counts.error);
  out.Add(state.counts.reserve);
  out.Add(state.mu);
  out.Add(state.mu_low);
  out.Add(state.mu_high);
  for (const svdd::SupportToken& support : state.supports) {
    out.Add(support.handle);
    out.Add(static_cast<uint8_t>(support.label));
    out.Add(support.alpha);
  }
  for (const double coordinate : state.keys) out.Add(coordinate);
  for (const double coordinate : state.values) out.Add(coordinate);
  const audit::Digest digest = audit::Sha256({out.bytes().data(), out.bytes().size()});
  return audit::Hex(digest);
}

double Median(Vector values) {
  if (values.empty()) return 0.0;
  const size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Largest(const Vector& values) {
  return values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
}

}  // namespace lethe::bench
