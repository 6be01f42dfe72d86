#include "tests/core/key_streams.h"

#include <algorithm>
#include <cmath>

namespace lethe::svdd {
namespace {

// Mean, spread, and the step that charts record: heart rate, systolic, diastolic and mean pressure,
// temperature, respiration, saturation.
struct Vital {
  double mean;
  double spread;
  double step;
};
constexpr std::array<Vital, 7> kVitals = {{{86, 18, 1},
                                           {119, 22, 1},
                                           {59, 13, 1},
                                           {79, 16, 1},
                                           {37.0, 0.8, 0.1},
                                           {19, 5, 1},
                                           {97, 3, 1}}};

constexpr size_t kPlaces = 6;

constexpr std::array kMagnitudes = {0.0,   1.0,    -1.0, 2.0,  -2.0,  0.5,       -0.5,
                                    1e-20, -1e-20, 1e-9, 35.0, -35.0, 1 + 1e-12, 1 - 1e-12,
                                    7.0,   -7.0,   0.3,  40.0, 3.0,   26.7};

}  // namespace

std::string_view Name(KeyRegime regime) {
  constexpr std::array<std::string_view, kKeyRegimes.size() + 1> kNames = {
      "gaussian", "clustered", "noise_2e_2", "noise_1e_3", "noise_1e_6", "noise_1e_9",
      "copies",   "grid",      "constant",   "vitals",     "learned",    "magnitudes"};
  return kNames[static_cast<size_t>(regime)];
}

KeyStream::KeyStream(KeyRegime regime, size_t dimension, uint64_t seed)
    : regime_(regime), dimension_(dimension), random_(seed) {
  for (size_t i = 0; i < kPlaces; ++i) places_.push_back(Gaussian(1.5));
  for (size_t k = 0; k < dimension_; ++k) {
    vitals_.push_back(kVitals[k % kVitals.size()].mean);
  }
  charted_ = vitals_;
  KeyStream sample = *this;
  std::vector<double> before = sample.Next();
  constexpr int kSamples = 64;
  for (int i = 0; i < kSamples; ++i) {
    std::vector<double> key = sample.Next();
    for (size_t k = 0; k < dimension_; ++k) {
      squared_norm_ += key[k] * key[k] / kSamples;
      squared_distance_ += (key[k] - before[k]) * (key[k] - before[k]) / kSamples;
    }
    before = std::move(key);
  }
  if (!(squared_norm_ > 0.0)) squared_norm_ = 1.0;
  if (!(squared_distance_ > 0.0)) squared_distance_ = 1.0;
}

std::vector<double> KeyStream::Gaussian(double spread) {
  std::normal_distribution<double> normal(0.0, spread);
  std::vector<double> key(dimension_);
  for (double& coordinate : key) coordinate = normal(random_);
  return key;
}

std::vector<double> KeyStream::NearPlace(double noise) {
  std::vector<double> key = Gaussian(noise);
  const auto& place = places_[std::uniform_int_distribution<size_t>(0, kPlaces - 1)(random_)];
  for (size_t k = 0; k < dimension_; ++k) key[k] += place[k];
  return key;
}

std::vector<double> KeyStream::NextVitals() {
  std::normal_distribution<double> normal;
  std::vector<double> key(dimension_);
  // Now and then the next patient.
  const bool admission = std::bernoulli_distribution(0.02)(random_);
  for (size_t k = 0; k < dimension_; ++k) {
    const Vital& vital = kVitals[k % kVitals.size()];
    if (admission) vitals_[k] = vital.mean + vital.spread * normal(random_);
    vitals_[k] += 0.1 * (vital.mean - vitals_[k]) + 0.3 * vital.spread * normal(random_);
    // Not read every hour: the last reading is carried forward.
    if (admission || std::bernoulli_distribution(0.4)(random_)) {
      charted_[k] = std::round(vitals_[k] / vital.step) * vital.step;
    }
    key[k] = (charted_[k] - vital.mean) / vital.spread;
  }
  return key;
}

std::vector<double> KeyStream::Next() {
  switch (regime_) {
    case KeyRegime::kGaussian:
      return Gaussian(1.0);
    case KeyRegime::kClustered:
      return NearPlace(0.3);
    case KeyRegime::kNoise2e2:
      return NearPlace(2e-2);
    case KeyRegime::kNoise1e3:
      return NearPlace(1e-3);
    case KeyRegime::kNoise1e6:
      return NearPlace(1e-6);
    case KeyRegime::kNoise1e9:
      return NearPlace(1e-9);
    case KeyRegime::kCopies:
      return places_[std::uniform_int_distribution<size_t>(0, kPlaces - 1)(random_)];
    case KeyRegime::kGrid: {
      std::vector<double> key(dimension_);
      for (double& coordinate : key) {
        coordinate = std::uniform_int_distribution(-1, 2)(random_);
        // The other zero is the same key.
        if (coordinate == 0.0 && std::bernoulli_distribution(0.3)(random_)) coordinate = -0.0;
      }
      return key;
    }
    case KeyRegime::kConstant:
      return places_[0];
    case KeyRegime::kVitals:
      return NextVitals();
    case KeyRegime::kMagnitudes: {
      std::vector<double> key(dimension_);
      for (double& coordinate : key) {
        coordinate =
            kMagnitudes[std::uniform_int_distribution<size_t>(0, kMagnitudes.size() - 1)(random_)];
      }
      return key;
    }
    case KeyRegime::kLearned:
      break;
  }
  std::vector<double> key = NearPlace(3.0);
  double norm = 0.0;
  for (const double coordinate : key) norm += coordinate * coordinate;
  norm = std::sqrt(norm);
  for (double& coordinate : key) coordinate /= norm;
  return key;
}

}  // namespace lethe::svdd
