#include "tests/bench/regimes.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lethe::bench {
namespace {

constexpr size_t kHours = 48;

}  // namespace

absl::StatusOr<Regimes> Regimes::Make(const std::string& path, uint64_t seed) {
  Regimes regimes;
  regimes.path_ = path;
  if (path.empty()) {
    Random random(seed);
    regimes.stays_ = SyntheticStays(200, kHours, random);
    return regimes;
  }
  auto stays = ReadStays(path, kHours);
  if (!stays.ok()) return stays.status();
  if (stays->empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--icu: no stay of ", kHours, " hours"));
  }
  regimes.stays_ = *std::move(stays);
  return regimes;
}

std::string Regimes::Name(Regime regime) const {
  switch (regime) {
    case Regime::kGaussian:
      return "Gaussian";
    case Regime::kRedundant:
      return "redundant";
    case Regime::kIcu:
      return path_.empty() ? "ICU stand-in" : "ICU hours";
    case Regime::kLearned:
      return "learned-like";
  }
  return "";
}

std::string Regimes::Note() const {
  if (path_.empty()) {
    return "ICU stand-in: made-up hours with the form of intensive care (slow drift around a level "
           "of each stay, excursions); --icu FILE takes real ones.";
  }
  return absl::StrCat("ICU hours: ", stays_.size(), " stays of 48 hours from the file of --icu.");
}

TokenSource::TokenSource(const Regimes& regimes, Regime regime, uint64_t seed)
    : regimes_(&regimes), regime_(regime), random_(seed) {
  for (int c = 0; c < 4; ++c) centres_.push_back(random_.Normals(kRegimeDimension, 2.0));
}

Vector TokenSource::NextKey() {
  switch (regime_) {
    case Regime::kGaussian:
      break;
    case Regime::kRedundant:
      return random_.Near(centres_[turn_++ % centres_.size()], 0.02);
    case Regime::kIcu:
      if (stay_ == nullptr || hour_ == stay_->keys.size()) {
        const bool first = stay_ == nullptr;
        stay_ = &regimes_->stays()[random_.Below(regimes_->stays().size())];
        hour_ = first ? random_.Below(stay_->keys.size() / 2 + 1) : 0;
      }
      return stay_->keys[hour_++];
    case Regime::kLearned: {
      Vector key = random_.Normals(kRegimeDimension, 1.0);
      const double length = std::sqrt(SquaredDistance(key, Vector(key.size(), 0.0)));
      for (double& coordinate : key) coordinate *= 4.0 / length;
      return key;
    }
  }
  return random_.Normals(kRegimeDimension, 1.0);
}

Token TokenSource::Next() {
  Token token;
  token.key = NextKey();
  token.value = random_.Normals(kRegimeValues, 1.0);
  return token;
}

std::vector<Token> TokenSource::Take(size_t count) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(Next());
  return tokens;
}

}  // namespace lethe::bench
