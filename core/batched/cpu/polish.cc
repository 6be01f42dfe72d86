#include "core/batched/cpu/polish.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/batched/cpu/factor.h"
#include "core/batched/method/polish.h"

namespace lethe::batched {
namespace {

template <typename T>
class PolishSteps {
 public:
  using Real = T;

  explicit PolishSteps(Workspace<T>& work) : work_(work) {}

  Numbers<T>& numbers() { return work_; }

  T SumOfWeights() const {
    Pack sum = {};
    for (size_t i = 0; i < work_.rows; i += kW) sum += LoadPack(work_.x.get() + i);
    return SumOf<T>(sum);
  }
  void Gradient() {
    T* const g = work_.gradient.get();
    const T* const x = work_.x.get();
    const T* const diagonal = work_.diagonal.get();
    const size_t rows = work_.rows;
    work_.Multiply(x, g);
    const Pack ridge = SplatOf<T>(work_.ridge);
    for (size_t i = 0; i < rows; i += kW) {
      const Pack product = LoadPack(g + i);
      const Pack rest = MultiplyAdd(ridge, LoadPack(x + i), -LoadPack(diagonal + i));
      StorePack<T>(product + product + rest, g + i);
    }
  }
  void AddThreshold() {
    for (size_t i = 0; i < work_.n; ++i) work_.gradient[i] += work_.mu;
  }
  MarginThreshold<T> OfMargin() const {
    // Selections instead of branches here and below: labels have no order that a processor guesses.
    MarginThreshold<T> result;
    for (size_t i = 0; i < work_.n; ++i) {
      const bool margin = work_.label(i) == Label::kMargin;
      result.sum -= margin ? work_.gradient[i] : T{0};
      result.count += margin ? size_t{1} : size_t{0};
    }
    return result;
  }
  void Interval() {
    T low = -std::numeric_limits<T>::infinity();
    T high = std::numeric_limits<T>::infinity();
    for (size_t i = 0; i < work_.n; ++i) {
      if (work_.label(i) == Label::kReserve) low = std::max(low, -work_.gradient[i]);
      if (work_.label(i) == Label::kError) high = std::min(high, -work_.gradient[i]);
    }
    work_.mu_low = low;
    work_.mu_high = high;
  }
  T Gap() const {
    T gap = 0;
    for (size_t i = 0; i < work_.n; ++i) gap += GapOf(work_.x[i], work_.gradient[i], work_.box);
    return gap;
  }

  bool FactoriseMargin() { return batched::FactoriseMargin(work_); }
  T Correction() {
    T* const delta = work_.solution.get();
    T* const ones = work_.ones.get();
    for (size_t k = 0; k < work_.margin; ++k) {
      delta[k] = -work_.gradient[work_.order[k]];
      ones[k] = 1;
    }
    Solve<T, 2>(work_.factor.get(), work_.factor_stride, work_.margin, work_.inverse_pivots.get(),
                {delta, ones});
    T along = 0;
    T total = 0;
    for (size_t k = 0; k < work_.margin; ++k) {
      along += delta[k];
      total += ones[k];
    }
    const T nu = (along - (1 - SumOfWeights())) / total;
    for (size_t k = 0; k < work_.margin; ++k) delta[k] -= nu * ones[k];
    return nu;
  }
  T MarginResidual() const {
    T residual = 0;
    for (size_t k = 0; k < work_.margin; ++k) {
      residual = std::max(residual, std::abs(work_.gradient[work_.order[k]]));
    }
    return residual;
  }
  Blocking<T> FirstBound() const {
    Blocking<T> blocking;
    const size_t margin = work_.margin;
    if (margin == 1) return blocking;
    const T box = work_.box;
    T least = std::numeric_limits<T>::infinity();
    for (size_t k = 0; k < margin; ++k) {
      const T weight = work_.x[work_.order[k]];
      const T delta = work_.solution[k];
      const T above = box - weight;
      const T room = delta < 0 ? weight : above;
      const T moved = std::abs(delta);
      // Infinite or not a number where no bound is passed, and at most 1 where one is.
      const T until = std::max(room, T{0}) / (moved <= room ? T{0} : moved);
      blocking.row = until < least ? k : blocking.row;
      least = until < least ? until : least;
    }
    blocking.length = std::min(blocking.length, least);
    return blocking;
  }
  void MoveMargin(T length, bool clamp) {
    for (size_t k = 0; k < work_.margin; ++k) {
      T& weight = work_.x[work_.order[k]];
      weight += length * work_.solution[k];
      if (clamp) weight = std::clamp(weight, T{0}, work_.box);
    }
  }
  void ScaleMarginGradient(T by) {
    for (size_t k = 0; k < work_.margin; ++k) work_.gradient[work_.order[k]] *= by;
  }
  Pivot Leaving(const Blocking<T>& blocking) const {
    return {work_.order[blocking.row],
            work_.solution[blocking.row] < 0 ? Label::kReserve : Label::kError};
  }

  size_t FindFlips() {
    const T tolerance = work_.sign_tolerance();
    size_t count = 0;
    for (size_t i = 0; i < work_.n; ++i) {
      work_.flips[count] = static_cast<uint32_t>(i);
      const bool violates =
          Violates(work_.label(i), work_.x[i], work_.gradient[i], work_.box, tolerance);
      count += violates ? size_t{1} : size_t{0};
    }
    flips_ = count;
    return count;
  }
  Pivot FlipAt(size_t at) const {
    const size_t i = work_.flips[at];
    return {i, Flipped(work_.label(i), work_.x[i])};
  }
  void RelabelFlips() {
    for (size_t at = 0; at < flips_; ++at) Relabel(FlipAt(at));
  }
  void Leave(Pivot pivot) {
    const size_t at = work_.position[pivot.point];
    RemoveRow(work_.factor.get(), work_.factor_stride, work_.margin, at, work_.inverse_pivots.get(),
              work_.update.get());
    for (size_t k = at + 1; k < work_.margin; ++k) {
      work_.order[k - 1] = work_.order[k];
      work_.position[work_.order[k]] = static_cast<uint32_t>(k - 1);
    }
    --work_.margin;
    Relabel(pivot);
  }
  bool Join(size_t i) {
    T* const row = work_.update.get();
    const T* const column = work_.matrix.get() + i * work_.stride;
    for (size_t k = 0; k < work_.margin; ++k) row[k] = 2 * column[work_.order[k]];
    row[work_.margin] = 2 * column[i] + work_.ridge;
    if (!AppendRow(work_.factor.get(), work_.factor_stride, work_.margin, work_.least_pivot(),
                   work_.inverse_pivots.get(), row)) {
      return false;
    }
    work_.order[work_.margin] = static_cast<uint32_t>(i);
    work_.position[i] = static_cast<uint32_t>(work_.margin++);
    work_.labels[i] = static_cast<uint8_t>(Label::kMargin);
    return true;
  }
  size_t Worst(bool first) const {
    T worst = work_.sign_tolerance();
    size_t which = kNoPoint;
    for (size_t i = 0; i < work_.n; ++i) {
      const Label label = work_.label(i);
      if (label == Label::kMargin) continue;
      const T violation = label == Label::kError ? work_.gradient[i] : -work_.gradient[i];
      if (violation > worst) {
        which = i;
        if (first) return which;
        worst = violation;
      }
    }
    return which;
  }
  T GradientOf(size_t point) const { return work_.gradient[point]; }

  void Save() { std::copy(work_.x.get(), work_.x.get() + work_.rows, work_.saved.get()); }
  void Restore() { std::copy(work_.saved.get(), work_.saved.get() + work_.rows, work_.x.get()); }
  void SnapSingle(T tiny) {
    T& weight = work_.x[work_.order[0]];
    if (weight <= tiny) weight = 0;
    if (weight >= work_.box - tiny) weight = work_.box;
  }
  void LabelByWeights() {
    // Bytes may stand for anything, so what a loop over labels reads is out of the workspace first.
    const size_t n = work_.n;
    const T box = work_.box;
    const T* const x = work_.x.get();
    uint8_t* const labels = work_.labels.get();
    for (size_t i = 0; i < n; ++i) labels[i] = static_cast<uint8_t>(LabelOfWeight(x[i], box));
  }

 private:
  using Pack = PackOf<T>;
  static constexpr size_t kW = kPack<T>;

  void Relabel(Pivot pivot) {
    work_.labels[pivot.point] = static_cast<uint8_t>(pivot.to);
    if (pivot.to == Label::kMargin) return;
    work_.x[pivot.point] = pivot.to == Label::kError ? work_.box : T{0};
  }

  Workspace<T>& work_;
  size_t flips_ = 0;
};

}  // namespace

template <typename T>
bool FactoriseMargin(Workspace<T>& work) {
  size_t s = 0;
  for (size_t i = 0; i < work.n; ++i) {
    // What stands there for another point is written over, or not looked at.
    work.position[i] = static_cast<uint32_t>(s);
    work.order[s] = static_cast<uint32_t>(i);
    s += work.label(i) == Label::kMargin ? size_t{1} : size_t{0};
  }
  work.margin = s;
  const size_t stride = work.factor_stride;
  for (size_t k = 0; k < s; ++k) {
    const T* from = work.matrix.get() + work.order[k] * work.stride;
    T* to = work.factor.get() + k * stride;
    for (size_t i = 0; i < stride; i += kPack<T>) StorePack<T>(PackOf<T>{}, to + i);
    for (size_t i = k; i < s; ++i) to[i] = 2 * from[work.order[i]];
    to[k] += work.ridge;
  }
  return Factorise(work.factor.get(), stride, s, work.least_pivot(), work.inverse_pivots.get());
}

template <typename T>
Outcome Polish(const Options& options, Workspace<T>& work) {
  PolishSteps<T> steps(work);
  return options.polish ? RunPolish(options, steps) : TakeAsItIs(options, steps);
}

template bool FactoriseMargin(Workspace<float>&);
template bool FactoriseMargin(Workspace<double>&);
template Outcome Polish(const Options&, Workspace<float>&);
template Outcome Polish(const Options&, Workspace<double>&);

}  // namespace lethe::batched
