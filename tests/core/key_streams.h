// Streams of keys like those that memories meet, for random lives: from plainly random ones to
// those that broke published procedures (near-duplicates, copies, exact ties).
#ifndef LETHE_TESTS_CORE_KEY_STREAMS_H_
#define LETHE_TESTS_CORE_KEY_STREAMS_H_

#include <array>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace lethe::svdd {

enum class KeyRegime : uint8_t {
  kGaussian,
  kClustered,
  kNoise2e2,  // one of a few places, noise 0.02
  kNoise1e3,
  kNoise1e6,
  kNoise1e9,
  kCopies,    // one of a few places, bit for bit
  kGrid,      // small integers: many exact ties
  kConstant,  // one key
  kVitals,    // a random walk of vital signs, read hourly, carried forward, quantised as charts are
  kLearned,   // unit norm, nearly orthogonal in high dimension, a few topics
  // Coordinates from 1e-20 to 40, few of them, some 1e-12 from others. Not in kKeyRegimes: it calls
  // for a dimension and a capacity of its own (life.cc).
  kMagnitudes,
};
inline constexpr std::array kKeyRegimes = {
    KeyRegime::kGaussian, KeyRegime::kClustered, KeyRegime::kNoise2e2, KeyRegime::kNoise1e3,
    KeyRegime::kNoise1e6, KeyRegime::kNoise1e9,  KeyRegime::kCopies,   KeyRegime::kGrid,
    KeyRegime::kConstant, KeyRegime::kVitals,    KeyRegime::kLearned,
};
// Letters, digits and underscores.
std::string_view Name(KeyRegime regime);

// Deterministic from its seed. Threads: compatible.
class KeyStream {
 public:
  KeyStream(KeyRegime regime, size_t dimension, uint64_t seed);

  std::vector<double> Next();
  // About the mean of |x|^2 and of |x - y|^2 over distinct places: what a kernel's width is chosen
  // by.
  double squared_norm() const { return squared_norm_; }
  double squared_distance() const { return squared_distance_; }

 private:
  std::vector<double> Gaussian(double spread);
  std::vector<double> NearPlace(double noise);
  std::vector<double> NextVitals();

  KeyRegime regime_;
  size_t dimension_;
  std::mt19937_64 random_;
  std::vector<std::vector<double>> places_;
  std::vector<double> vitals_;  // the patient's true state, in units of each sign
  std::vector<double> charted_;
  double squared_norm_ = 0.0;
  double squared_distance_ = 0.0;
};

}  // namespace lethe::svdd

#endif  // LETHE_TESTS_CORE_KEY_STREAMS_H_
