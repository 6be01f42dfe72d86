#include "core/batched/cpu/polish.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/batched/cpu/factor.h"

namespace lethe::batched {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);
// A sum of weights is 1 within this.
template <typename T>
constexpr T kMass = 256 * std::numeric_limits<T>::epsilon();

template <typename T>
T SumOfWeights(const Workspace<T>& work) {
  PackOf<T> sum = {};
  for (size_t i = 0; i < work.rows; i += kPack<T>) sum += LoadPack(work.x.get() + i);
  return SumOf<T>(sum);
}

// 2 Ka + rho a - diag(K), without mu.
template <typename T>
void Gradient(Workspace<T>& work) {
  using Pack = PackOf<T>;
  T* g = work.gradient.get();
  work.Multiply(work.x.get(), g);
  const Pack ridge = SplatOf<T>(work.ridge);
  for (size_t i = 0; i < work.rows; i += kPack<T>) {
    const Pack product = LoadPack(g + i);
    const Pack rest =
        MultiplyAdd(ridge, LoadPack(work.x.get() + i), -LoadPack(work.diagonal.get() + i));
    StorePack<T>(product + product + rest, g + i);
  }
}

// The ends of mu at which nothing outside the margin is violated: max over R of -g, min over E.
template <typename T>
void Interval(Workspace<T>& work) {
  T low = -std::numeric_limits<T>::infinity();
  T high = std::numeric_limits<T>::infinity();
  for (size_t i = 0; i < work.n; ++i) {
    if (work.label(i) == Label::kReserve) low = std::max(low, -work.gradient[i]);
    if (work.label(i) == Label::kError) high = std::min(high, -work.gradient[i]);
  }
  work.mu_low = low;
  work.mu_high = high;
}

// mu for weights that are not a solution: the mean over the margin, or from the interval.
template <typename T>
void ChooseThreshold(Workspace<T>& work) {
  T sum = 0;
  size_t margin = 0;
  for (size_t i = 0; i < work.n; ++i) {
    if (work.label(i) != Label::kMargin) continue;
    sum -= work.gradient[i];
    ++margin;
  }
  if (margin > 0) {
    work.mu = work.mu_low = work.mu_high = sum / static_cast<T>(margin);
    return;
  }
  Interval(work);
  const bool low = std::isfinite(work.mu_low);
  const bool high = std::isfinite(work.mu_high);
  work.mu = low && high ? work.mu_low + (work.mu_high - work.mu_low) / 2
            : low       ? work.mu_low
            : high      ? work.mu_high
                        : T{0};
}

template <typename T>
void AddThreshold(Workspace<T>& work) {
  for (size_t i = 0; i < work.n; ++i) work.gradient[i] += work.mu;
}

template <typename T>
void MeasureGap(Workspace<T>& work) {
  T gap = 0;
  for (size_t i = 0; i < work.n; ++i) {
    const T g = work.gradient[i];
    gap += g > 0 ? work.x[i] * g : (work.x[i] - work.box) * g;
  }
  work.gap = gap;
}

// Solves (10) into solution (delta) and returns nu. Requires a factor, a margin, gradients.
template <typename T>
T Correction(Workspace<T>& work) {
  T* const delta = work.solution.get();
  T* const ones = work.ones.get();
  for (size_t k = 0; k < work.margin; ++k) {
    delta[k] = -work.gradient[work.order[k]];
    ones[k] = 1;
  }
  Solve<T, 2>(work.factor.get(), work.factor_stride, work.margin, work.inverse_pivots.get(),
              {delta, ones});
  T along = 0;
  T total = 0;
  for (size_t k = 0; k < work.margin; ++k) {
    along += delta[k];
    total += ones[k];
  }
  const T nu = (along - (1 - SumOfWeights(work))) / total;
  for (size_t k = 0; k < work.margin; ++k) delta[k] -= nu * ones[k];
  return nu;
}

// Gradients at x with the mu that has just been found.
template <typename T>
void Refresh(Workspace<T>& work) {
  Gradient(work);
  AddThreshold(work);
}

template <typename T>
T Floor(const Workspace<T>& work) {
  return 4 * std::numeric_limits<T>::epsilon() * (work.scale + work.ridge);
}

template <typename T>
bool Join(size_t i, Workspace<T>& work) {
  T* const row = work.update.get();
  const T* const column = work.matrix.get() + i * work.stride;
  for (size_t k = 0; k < work.margin; ++k) row[k] = 2 * column[work.order[k]];
  row[work.margin] = 2 * column[i] + work.ridge;
  if (!AppendRow(work.factor.get(), work.factor_stride, work.margin, Floor(work),
                 work.inverse_pivots.get(), row)) {
    return false;
  }
  work.order[work.margin] = static_cast<uint32_t>(i);
  work.position[i] = static_cast<uint32_t>(work.margin++);
  work.labels[i] = static_cast<uint8_t>(Label::kMargin);
  return true;
}

template <typename T>
void Leave(size_t i, Label to, Workspace<T>& work) {
  const size_t at = work.position[i];
  RemoveRow(work.factor.get(), work.factor_stride, work.margin, at, work.inverse_pivots.get(),
            work.update.get());
  for (size_t k = at + 1; k < work.margin; ++k) {
    work.order[k - 1] = work.order[k];
    work.position[work.order[k]] = static_cast<uint32_t>(k - 1);
  }
  --work.margin;
  work.labels[i] = static_cast<uint8_t>(to);
  work.x[i] = to == Label::kError ? work.box : T{0};
}

// Points that violate (8) at the solution on the labels, in flips. Returns how many.
template <typename T>
size_t FindFlips(Workspace<T>& work) {
  const T tolerance = work.sign_tolerance();
  size_t count = 0;
  for (size_t i = 0; i < work.n; ++i) {
    const T weight = work.x[i];
    const T g = work.gradient[i];
    bool flip = false;
    switch (work.label(i)) {
      case Label::kMargin:
        flip = !(weight >= 0 && weight <= work.box);
        break;
      case Label::kError:
        flip = g > tolerance;
        break;
      case Label::kReserve:
        flip = g < -tolerance;
        break;
    }
    work.flips[count] = static_cast<uint32_t>(i);
    count += flip ? 1 : 0;
  }
  return count;
}

enum class Ending { kSolved, kFailed, kNotPositiveDefinite };

template <typename T>
bool Flip(size_t count, Workspace<T>& work) {
  // Few flips move the factor, many make it anew.
  const bool few = count * 12 <= work.margin;
  for (size_t at = 0; at < count; ++at) {
    const size_t i = work.flips[at];
    if (work.label(i) == Label::kMargin) {
      const Label to = work.x[i] > 0 ? Label::kError : Label::kReserve;
      if (few) {
        Leave(i, to, work);
      } else {
        work.labels[i] = static_cast<uint8_t>(to);
        work.x[i] = to == Label::kError ? work.box : T{0};
      }
    } else if (few) {
      if (!Join(i, work)) return false;
    } else {
      work.labels[i] = static_cast<uint8_t>(Label::kMargin);
    }
  }
  return few || FactoriseMargin(work);
}

// Flips all violators at a time while that makes them fewer.
template <typename T>
Ending BlockPivots(const Options& options, Workspace<T>& work) {
  if (!FactoriseMargin(work)) return Ending::kNotPositiveDefinite;
  constexpr int kPatience = 1;
  size_t least = kNone;
  int patience = kPatience;
  for (int round = 0; round < std::max(options.block_rounds, 1); ++round) {
    ++work.rounds;
    if (work.margin > 0) {
      work.mu += Correction(work);
      for (size_t k = 0; k < work.margin; ++k) work.x[work.order[k]] += work.solution[k];
      Refresh(work);
    } else {
      // All at their bounds: nothing moves, and the sum is 1 or no solution has these labels.
      if (std::abs(1 - SumOfWeights(work)) > kMass<T>) return Ending::kFailed;
      Judge(work);
    }
    const size_t count = FindFlips(work);
    if (count == 0) return Ending::kSolved;
    if (count < least) {
      least = count;
      patience = kPatience;
    } else if (--patience < 0) {
      return Ending::kFailed;
    }
    if (round + 1 >= options.block_rounds) return Ending::kFailed;
    if (!Flip(count, work)) return Ending::kNotPositiveDefinite;
    Refresh(work);
  }
  return Ending::kFailed;
}

// The worst violator outside the margin, or kNone.
template <typename T>
size_t Worst(const Workspace<T>& work, bool first) {
  T worst = work.sign_tolerance();
  size_t which = kNone;
  for (size_t i = 0; i < work.n; ++i) {
    const Label label = work.label(i);
    if (label == Label::kMargin) continue;
    const T violation = label == Label::kError ? work.gradient[i] : -work.gradient[i];
    if (violation > worst) {
      which = i;
      if (first) return which;
      worst = violation;
    }
  }
  return which;
}

// A primal active-set method from the feasible x: to the solution on the margin, or to the first
// bound on the way; there, the worst violator joins. After a step of length 0 the first one does
// (Bland), until something moves again.
template <typename T>
Ending SinglePivots(Workspace<T>& work) {
  if (!FactoriseMargin(work)) return Ending::kNotPositiveDefinite;
  const size_t most = 50 + 10 * work.n;
  bool stuck = false;
  Gradient(work);
  ChooseThreshold(work);
  AddThreshold(work);
  for (size_t pivot = 0; pivot < most; ++pivot) {
    ++work.rounds;
    if (work.margin > 0) {
      const T nu = Correction(work);
      T length = 1;
      size_t blocking = kNone;
      for (size_t k = 0; k < work.margin; ++k) {
        const size_t i = work.order[k];
        const T delta = work.solution[k];
        const T room = delta < 0 ? work.x[i] : work.box - work.x[i];
        const T moved = std::abs(delta);
        if (moved <= room || work.margin == 1) continue;
        const T until = std::max(room, T{0}) / moved;
        if (until < length || blocking == kNone) {
          length = std::min(length, until);
          blocking = k;
        }
      }
      stuck = blocking != kNone && length == 0;
      for (size_t k = 0; k < work.margin; ++k) {
        T& weight = work.x[work.order[k]];
        weight = std::clamp(weight + length * work.solution[k], T{0}, work.box);
      }
      work.mu += length * nu;
      if (blocking != kNone) {
        // By (10); what rounding loses here shows when all is computed afresh.
        for (size_t k = 0; k < work.margin; ++k) work.gradient[work.order[k]] *= 1 - length;
        const Label to = work.solution[blocking] < 0 ? Label::kReserve : Label::kError;
        Leave(work.order[blocking], to, work);
        continue;
      }
    }
    Refresh(work);
    const size_t joining = Worst(work, stuck);
    if (joining == kNone) {
      return Ending::kSolved;
    }
    if (!Join(joining, work)) return Ending::kNotPositiveDefinite;
    // Its own gradient is what must vanish now.
    if (work.margin == 1) {
      work.mu -= work.gradient[joining];
      Refresh(work);
    }
  }
  return Ending::kFailed;
}

// Corrects what rounding has left of (10) where the margin is badly conditioned. Requires the
// factor of the labels and fresh gradients.
template <typename T>
void Refine(Workspace<T>& work) {
  constexpr T kEnough = 8 * std::numeric_limits<T>::epsilon();
  for (int round = 0; round < 2 && work.margin > 0; ++round) {
    T residual = 0;
    for (size_t k = 0; k < work.margin; ++k) {
      residual = std::max(residual, std::abs(work.gradient[work.order[k]]));
    }
    if (residual <= kEnough * (work.scale + work.ridge) &&
        std::abs(1 - SumOfWeights(work)) <= kEnough) {
      return;
    }
    work.mu += Correction(work);
    for (size_t k = 0; k < work.margin; ++k) {
      T& weight = work.x[work.order[k]];
      weight = std::clamp(weight + work.solution[k], T{0}, work.box);
    }
    Refresh(work);
  }
}

// Labels by the weights alone, and what follows from them.
template <typename T>
void Conclude(Workspace<T>& work) {
  if (work.margin == 1) {
    // One point takes what the others leave, which may be nothing but rounding.
    const T tiny = 8 * std::numeric_limits<T>::epsilon() * work.box;
    T& weight = work.x[work.order[0]];
    if (weight <= tiny) weight = 0;
    if (weight >= work.box - tiny) weight = work.box;
  }
  for (size_t i = 0; i < work.n; ++i) {
    const Label label = work.x[i] <= 0          ? Label::kReserve
                        : work.x[i] >= work.box ? Label::kError
                                                : Label::kMargin;
    work.labels[i] = static_cast<uint8_t>(label);
  }
  Judge(work);
}

}  // namespace

template <typename T>
T GapTolerance(const Options& options, const Workspace<T>& work) {
  const T relative = options.tolerance > 0         ? static_cast<T>(options.tolerance)
                     : sizeof(T) == sizeof(double) ? T(0x1p-30)
                                                   : T(0x1p-16);
  return relative * (work.scale + work.ridge) *
         std::max(T{1}, work.box * static_cast<T>(work.n) / 4);
}

template <typename T>
void Judge(Workspace<T>& work) {
  Gradient(work);
  ChooseThreshold(work);
  AddThreshold(work);
  MeasureGap(work);
}

template <typename T>
bool FactoriseMargin(Workspace<T>& work) {
  work.margin = 0;
  for (size_t i = 0; i < work.n; ++i) {
    if (work.label(i) != Label::kMargin) continue;
    work.position[i] = static_cast<uint32_t>(work.margin);
    work.order[work.margin++] = static_cast<uint32_t>(i);
  }
  const size_t s = work.margin;
  for (size_t k = 0; k < s; ++k) {
    const T* from = work.matrix.get() + work.order[k] * work.stride;
    T* to = work.factor.get() + k * work.factor_stride;
    std::fill(to, to + k, T{0});
    for (size_t i = k; i < s; ++i) to[i] = 2 * from[work.order[i]];
    std::fill(to + s, to + work.factor_stride, T{0});
    to[k] += work.ridge;
  }
  return Factorise(work.factor.get(), work.factor_stride, s, Floor(work),
                   work.inverse_pivots.get());
}

template <typename T>
Outcome Polish(const Options& options, Workspace<T>& work) {
  work.rounds = 0;
  Judge(work);
  const T before = work.gap;
  std::copy(work.x.get(), work.x.get() + work.rows, work.saved.get());
  const T tolerance = GapTolerance(options, work);
  const auto accepted = [&] {
    // Not if a residual grows by it, unless it stays within what rounding leaves.
    return work.gap <= std::max(before, tolerance / 16) && work.gap <= tolerance &&
           std::abs(1 - SumOfWeights(work)) <= kMass<T>;
  };

  Ending ending = Ending::kFailed;
  if (options.block_rounds > 0) {
    ending = BlockPivots(options, work);
    if (ending == Ending::kSolved) {
      const bool flipped = work.rounds > 1;
      Refine(work);
      Conclude(work);
      if (accepted()) return flipped ? Outcome::kPolished : Outcome::kConverged;
    }
  }
  // From FISTA's iterate, which is feasible.
  const auto restore = [&] {
    work.margin = 0;
    std::copy(work.saved.get(), work.saved.get() + work.rows, work.x.get());
    Conclude(work);
  };
  restore();
  ending = SinglePivots(work);
  if (ending == Ending::kSolved) {
    Refine(work);
    Conclude(work);
    if (accepted()) return Outcome::kSinglePivot;
  }
  restore();
  if (ending == Ending::kNotPositiveDefinite) return Outcome::kNotPositiveDefinite;
  // FISTA may have come as near as rounding lets anybody, and then no polish is better.
  return work.gap <= tolerance ? Outcome::kConverged : Outcome::kUnsolved;
}

#define LETHE_INSTANTIATE(T)                                    \
  template T GapTolerance(const Options&, const Workspace<T>&); \
  template void Judge(Workspace<T>&);                           \
  template bool FactoriseMargin(Workspace<T>&);                 \
  template Outcome Polish(const Options&, Workspace<T>&);
LETHE_INSTANTIATE(float)
LETHE_INSTANTIATE(double)
#undef LETHE_INSTANTIATE

}  // namespace lethe::batched
