// The loops of method/fista.h in a block: a lane has its point's x, the x before and v in
// registers, and its row of K where that fits; y is shared.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_FISTA_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_FISTA_H_

#include "core/batched/cuda/block_work.h"
#include "core/batched/method/fista.h"
#include "core/batched/method/projection_search.h"

namespace lethe::batched {

template <typename T>
struct SumAndFree {
  T sum = 0;
  uint32_t free = 0;
};

// What the loops need is copied out of the work, whose address others have: here it can stay in
// registers.
template <typename Work, uint32_t kRowRegisters>
class BlockFistaSteps {
 public:
  using Real = typename Work::Real;

  // `start`: n weights, or null.
  LETHE_STEP BlockFistaSteps(const Real* start, Work& work)
      : block_(work.block),
        n_(work.n),
        numbers_(work.numbers),
        rows_(block_, work.matrix, work.n),
        y_(work.y),
        diagonal_(work.diagonal),
        labels_(work.labels),
        start_(start) {}

  LETHE_STEP Numbers<Real>& numbers() { return numbers_; }

  LETHE_STEP void PowerStart() {
    Each(block_, 0, n_, [&](uint32_t i) {
      PowerSequence sequence;
      Real value = 0;
      for (uint32_t j = 0; j <= i; ++j) value = sequence.template Next<Real>();
      y_[i] = value;
    });
  }
  LETHE_STEP Real PowerSquare() {
    return SumOver<Real>(block_, n_, [&](uint32_t i) { return y_[i] * y_[i]; });
  }
  LETHE_STEP void PowerStep(Real by) {
    Each(block_, 0, n_, [&](uint32_t i) { v_.At(i, 0) = by * rows_.Dot(block_, i, y_); });
    Each(block_, 0, n_, [&](uint32_t i) { y_[i] = v_.At(i, 0); });
  }

  LETHE_STEP void BeginEqual() {
    block_.Ahead(0, n_, [&](uint32_t i) { x_.At(i, 0) = 1 / static_cast<Real>(n_); });
    Restart();
  }
  LETHE_STEP void BeginAtStart() {
    block_.Ahead(0, n_, [&](uint32_t i) {
      v_.At(i, 0) = std::max(Real{0}, std::min(start_[i], numbers_.box));
      x_.At(i, 0) = 0;
    });
    Project(0);
    Restart();
  }
  LETHE_STEP void ForgetLabels() {
    Each(block_, 0, n_, [&](uint32_t i) { labels_[i] = uint8_t{4}; });
  }
  LETHE_STEP bool ReadLabels() {
    return SumOver<uint32_t>(block_, n_, [&](uint32_t i) {
             const auto label = static_cast<uint8_t>(LabelOfWeight(x_.At(i, 0), numbers_.box));
             const bool changed = labels_[i] != label;
             labels_[i] = label;
             return changed ? 1U : 0U;
           }) == 0;
  }

  LETHE_STEP void Descend(Real step) {
    const Real keep = 1 - step * numbers_.ridge;
    block_.Ahead(0, n_, [&](uint32_t i) {
      const Real product = rows_.Dot(block_, i, y_);
      v_.At(i, 0) = keep * y_[i] + step * (diagonal_[i] - 2 * product);
    });
  }
  LETHE_STEP Real Project(Real guess) {
    const Real box = numbers_.box;
    ProjectionSearch<Real> search{guess};
    while (search.Going()) {
      const SumAndFree<Real> at = block_.Reduce(
          n_, SumAndFree<Real>{},
          [&](uint32_t i) {
            const Real moved = v_.At(i, 0) - search.t;
            return SumAndFree<Real>{std::min(std::max(moved, Real{0}), box),
                                    moved > 0 && moved < box ? 1U : 0U};
          },
          [](const SumAndFree<Real>& a, const SumAndFree<Real>& b) {
            return SumAndFree<Real>{a.sum + b.sum, a.free + b.free};
          });
      search.Step(at.sum - Real{1}, static_cast<Real>(at.free), box, [&] {
        return block_.Reduce(
            n_, Ends<Real>{},
            [&](uint32_t i) {
              return Ends<Real>{v_.At(i, 0), v_.At(i, 0)};
            },
            [](const Ends<Real>& a, const Ends<Real>& b) {
              return Ends<Real>{std::min(a.least, b.least), std::max(a.most, b.most)};
            });
      });
    }
    block_.Ahead(0, n_, [&](uint32_t i) {
      previous_.At(i, 0) = x_.At(i, 0);
      x_.At(i, 0) = std::min(std::max(v_.At(i, 0) - search.t, Real{0}), box);
    });
    return search.t;
  }
  LETHE_STEP Real Turned() {
    return SumOver<Real>(block_, n_, [&](uint32_t i) {
      return (y_[i] - x_.At(i, 0)) * (x_.At(i, 0) - previous_.At(i, 0));
    });
  }
  LETHE_STEP void Restart() {
    Each(block_, 0, n_, [&](uint32_t i) { y_[i] = x_.At(i, 0); });
  }
  LETHE_STEP void Extrapolate(Real beta) {
    Each(block_, 0, n_,
         [&](uint32_t i) { y_[i] = x_.At(i, 0) + beta * (x_.At(i, 0) - previous_.At(i, 0)); });
  }

  // x and numbers to where the polish has them.
  LETHE_STEP void Finish(Work& work) {
    work.numbers = numbers_;
    Each(block_, 0, n_, [&](uint32_t i) { work.x[i] = x_.At(i, 0); });
  }

 private:
  template <typename Value>
  using Array = typename Work::template Array<Value>;
  using Own = typename Work::Block::template Private<Real, 1>;

  typename Work::Block block_;
  const uint32_t n_;
  Numbers<Real> numbers_;
  const RegisterRows<typename Work::Block, Real, kRowRegisters> rows_;
  const Array<Real> y_;
  const Array<Real> diagonal_;
  const Array<uint8_t> labels_;
  const Real* const start_;
  Own x_, previous_, v_;
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_FISTA_H_
