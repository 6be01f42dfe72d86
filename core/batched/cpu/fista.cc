#include "core/batched/cpu/fista.h"

#include <algorithm>
#include <utility>

#include "core/batched/cpu/projection.h"
#include "core/batched/method/fista.h"

namespace lethe::batched {
namespace {

template <typename T>
class FistaSteps {
 public:
  using Real = T;

  FistaSteps(const T* start, Workspace<T>& work)
      : work_(work),
        start_(start),
        rows_(work.rows),
        x_(work.x.get()),
        previous_(work.previous.get()),
        y_(work.y.get()),
        v_(work.v.get()) {}

  Numbers<T>& numbers() { return work_; }

  void PowerStart() {
    PowerSequence sequence;
    for (size_t i = 0; i < work_.n; ++i) y_[i] = sequence.Next<T>();
  }
  T PowerSquare() { return DotPadded(y_, y_, rows_); }
  void PowerStep(T by) {
    for (size_t i = 0; i < rows_; ++i) y_[i] *= by;
    work_.Multiply(y_, v_);
    std::copy(v_, v_ + rows_, y_);
  }

  void BeginEqual() {
    std::fill(x_, x_ + work_.n, 1 / static_cast<T>(work_.n));
    std::fill(x_ + work_.n, x_ + rows_, T{0});
    Restart();
  }
  void BeginAtStart() {
    for (size_t i = 0; i < work_.n; ++i) v_[i] = std::clamp(start_[i], T{0}, work_.box);
    ProjectTo(0);
    Restart();
  }
  void ForgetLabels() { std::fill(work_.labels.get(), work_.labels.get() + work_.n, uint8_t{4}); }
  bool ReadLabels() {
    // Bytes may stand for anything, so what the loop reads is out of the workspace first; the same
    // of packs in the loops below.
    const size_t n = work_.n;
    const T box = work_.box;
    const T* const x = x_;
    uint8_t* const labels = work_.labels.get();
    uint8_t changed = 0;
    for (size_t i = 0; i < n; ++i) {
      // 0 in reserve, 1 in the margin, 2 in error: what is above 0, and what is at C, counted.
      const auto label = static_cast<uint8_t>((x[i] > 0 ? 1 : 0) + (x[i] >= box ? 1 : 0));
      changed = static_cast<uint8_t>(changed | (label ^ labels[i]));
      labels[i] = label;
    }
    return changed == 0;
  }

  void Descend(T step) {
    work_.Multiply(y_, v_);
    const Pack twice = SplatOf<T>(-2 * step);
    const Pack once = SplatOf<T>(step);
    const Pack keep = SplatOf<T>(1 - step * work_.ridge);
    const T* const diagonal = work_.diagonal.get();
    const T* const y = y_;
    T* const v = v_;
    for (size_t i = 0, rows = rows_; i < rows; i += kW) {
      const Pack kept = MultiplyAdd(LoadPack(y + i), keep, once * LoadPack(diagonal + i));
      StorePack<T>(MultiplyAdd(LoadPack(v + i), twice, kept), v + i);
    }
  }
  T Project(T guess) {
    std::swap(x_, previous_);
    return ProjectTo(guess);
  }
  T Turned() const {
    Pack turned = {};
    for (size_t i = 0; i < rows_; i += kW) {
      const Pack now = LoadPack(x_ + i);
      turned = MultiplyAdd(LoadPack(y_ + i) - now, now - LoadPack(previous_ + i), turned);
    }
    return SumOf<T>(turned);
  }
  void Restart() { std::copy(x_, x_ + rows_, y_); }
  void Extrapolate(T beta) {
    const Pack by = SplatOf<T>(beta);
    const T* const x = x_;
    const T* const previous = previous_;
    T* const y = y_;
    for (size_t i = 0, rows = rows_; i < rows; i += kW) {
      const Pack now = LoadPack(x + i);
      StorePack<T>(MultiplyAdd(by, now - LoadPack(previous + i), now), y + i);
    }
  }

  // x stands in one of two arrays; to the workspace's own.
  void Finish() {
    if (x_ != work_.x.get()) std::copy(x_, x_ + rows_, work_.x.get());
  }

 private:
  using Pack = PackOf<T>;
  static constexpr size_t kW = kPack<T>;

  T ProjectTo(T guess) {
    std::fill(v_ + work_.n, v_ + rows_, kFarBelow<T>);
    const T t = ProjectionThreshold(v_, rows_, work_.n, work_.box, guess);
    const Pack shift = SplatOf<T>(t);
    const Pack upper = SplatOf<T>(work_.box);
    const T* const v = v_;
    T* const x = x_;
    for (size_t i = 0, rows = rows_; i < rows; i += kW) {
      StorePack<T>(Smaller(Larger(LoadPack(v + i) - shift, Pack{}), upper), x + i);
    }
    return t;
  }

  Workspace<T>& work_;
  const T* const start_;
  const size_t rows_;
  T* x_;
  T* previous_;
  T* const y_;
  T* const v_;
};

}  // namespace

template <typename T>
void Fista(const Options& options, const T* start, Workspace<T>& work) {
  FistaSteps<T> steps(start, work);
  RunFista(options, start != nullptr, steps);
  steps.Finish();
}

template void Fista(const Options&, const float*, Workspace<float>&);
template void Fista(const Options&, const double*, Workspace<double>&);

}  // namespace lethe::batched
