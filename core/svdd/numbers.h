// A vector of one of our arithmetics, with the one operation that solving lives on.
#ifndef LETHE_CORE_SVDD_NUMBERS_H_
#define LETHE_CORE_SVDD_NUMBERS_H_

#include <utility>
#include <vector>

#include "core/base/dd_vector.h"
#include "core/base/mp_real.h"

namespace lethe::svdd {

template <typename Real>
class Numbers {
 public:
  void Zero(size_t size) { values_.assign(size, Real(0.0)); }
  const Real& operator[](size_t i) const { return values_[i]; }
  void Set(size_t i, Real value) { values_[i] = std::move(value); }
  // this += a x. Requires equal sizes.
  void AddScaled(const Real& a, const Numbers& x) {
    const Real minus = -a;
    for (size_t i = 0; i < values_.size(); ++i) SubtractProduct(values_[i], minus, x.values_[i]);
  }

 private:
  std::vector<Real> values_;
};

// In packs.
template <>
class Numbers<DoubleDouble> {
 public:
  void Zero(size_t size) { values_.Zero(size); }
  DoubleDouble operator[](size_t i) const { return values_[i]; }
  void Set(size_t i, DoubleDouble value) { values_.Set(i, value); }
  void AddScaled(DoubleDouble a, const Numbers& x) {
    lethe::AddScaled(a, x.values_.high(), x.values_.low(), values_.high(), values_.low(),
                     values_.size());
  }

 private:
  DdVector values_;
};

}  // namespace lethe::svdd

#endif  // LETHE_CORE_SVDD_NUMBERS_H_
