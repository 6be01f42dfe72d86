// The loops of method/polish.h and method/adjoint.h in a block.
#ifndef LETHE_CORE_BATCHED_CUDA_BLOCK_POLISH_H_
#define LETHE_CORE_BATCHED_CUDA_BLOCK_POLISH_H_

#include "core/batched/cuda/block_factor.h"
#include "core/batched/cuda/block_work.h"
#include "core/batched/method/adjoint.h"
#include "core/batched/method/polish.h"
#include "core/batched/method/projection_search.h"

namespace lethe::batched {

template <typename T>
struct Sums {
  T along = 0;
  T total = 0;
  T weights = 0;
};

// The order, the margin and the factor, by the labels.
template <typename Work>
LETHE_PART bool FactoriseLabels(Work& work) {
  using T = typename Work::Real;
  auto& block = work.block;
  const uint32_t n = work.n;
  work.numbers.margin =
      SumOver<uint32_t>(block, n, [&](uint32_t i) { return work.InMargin(i) ? 1U : 0U; });
  Each(block, 0, n, [&](uint32_t i) {
    if (!work.InMargin(i)) return;
    uint32_t before = 0;
    for (uint32_t j = 0; j < i; ++j) before += work.InMargin(j) ? 1U : 0U;
    work.position[i] = before;
    work.order[before] = i;
  });
  Each(block, 0, n, [&](uint32_t i) {
    if (!work.InMargin(i)) return;
    const uint32_t row = work.position[i];
    work.matrix.Row(i, [&](uint32_t j, T entry) {
      if (j < i && work.InMargin(j)) {
        work.factor[LowerAt(n, row, work.position[j])] = 2 * entry;
      }
    });
  });
  return Factorise(work);
}

template <typename Work>
class BlockPolishSteps {
 public:
  using Real = typename Work::Real;

  LETHE_STEP explicit BlockPolishSteps(Work& work) : work_(work), block_(work.block) {}

  LETHE_STEP Numbers<Real>& numbers() { return work_.numbers; }

  LETHE_STEP Real SumOfWeights() {
    return SumOver<Real>(block_, work_.n,
                         [&](uint32_t i) { return static_cast<Real>(work_.x[i]); });
  }
  LETHE_STEP void Gradient() {
    Each(block_, 0, work_.n, [&](uint32_t i) {
      const Real product = work_.matrix.Dot(block_, i, work_.x);
      work_.gradient[i] = 2 * product + (work_.numbers.ridge * work_.x[i] - work_.diagonal[i]);
    });
  }
  LETHE_STEP void AddThreshold() {
    Each(block_, 0, work_.n, [&](uint32_t i) { work_.gradient[i] += work_.numbers.mu; });
  }
  LETHE_STEP MarginThreshold<Real> OfMargin() {
    return block_.Reduce(
        work_.n, MarginThreshold<Real>{},
        [&](uint32_t i) {
          if (!work_.InMargin(i)) return MarginThreshold<Real>{};
          return MarginThreshold<Real>{-work_.gradient[i], 1};
        },
        [](const MarginThreshold<Real>& a, const MarginThreshold<Real>& b) {
          return MarginThreshold<Real>{a.sum + b.sum, a.count + b.count};
        });
  }
  LETHE_STEP void Interval() {
    // The least of E and the most of R.
    const Ends<Real> ends = block_.Reduce(
        work_.n, Ends<Real>{},
        [&](uint32_t i) {
          Ends<Real> own;
          if (work_.label(i) == Label::kReserve) own.most = -work_.gradient[i];
          if (work_.label(i) == Label::kError) own.least = -work_.gradient[i];
          return own;
        },
        [](const Ends<Real>& a, const Ends<Real>& b) {
          return Ends<Real>{std::min(a.least, b.least), std::max(a.most, b.most)};
        });
    work_.numbers.mu_low = ends.most;
    work_.numbers.mu_high = ends.least;
  }
  LETHE_STEP Real Gap() {
    return SumOver<Real>(block_, work_.n, [&](uint32_t i) {
      return GapOf<Real>(work_.x[i], work_.gradient[i], work_.numbers.box);
    });
  }

  LETHE_STEP bool FactoriseMargin() { return FactoriseLabels(work_); }
  LETHE_STEP Real Correction() {
    const uint32_t size = work_.margin();
    typename Work::Block::template Private<Real, 2> r;
    block_.Ahead(0, size, [&](uint32_t k) {
      r.At(k, 0) = -work_.gradient[work_.order[k]];
      r.At(k, 1) = 1;
    });
    SolveBoth<2>(work_, r);
    const Sums<Real> sums = block_.Reduce(
        work_.n, Sums<Real>{},
        [&](uint32_t i) {
          Sums<Real> own{0, 0, work_.x[i]};
          if (i < size) {
            own.along = r.At(i, 0);
            own.total = r.At(i, 1);
          }
          return own;
        },
        [](const Sums<Real>& a, const Sums<Real>& b) {
          return Sums<Real>{a.along + b.along, a.total + b.total, a.weights + b.weights};
        });
    const Real nu = (sums.along - (1 - sums.weights)) / sums.total;
    Each(block_, 0, size, [&](uint32_t k) { work_.delta[k] = r.At(k, 0) - nu * r.At(k, 1); });
    return nu;
  }
  LETHE_STEP Real MarginResidual() {
    return MaxOver(block_, work_.margin(), Real{0}, [&](uint32_t k) {
      return std::abs(static_cast<Real>(work_.gradient[work_.order[k]]));
    });
  }
  LETHE_STEP Blocking<Real> FirstBound() {
    const uint32_t size = work_.margin();
    return block_.Reduce(
        size, Blocking<Real>{},
        [&](uint32_t k) {
          Blocking<Real> own;
          const Real weight = work_.x[work_.order[k]];
          const Real delta = work_.delta[k];
          const Real room = delta < 0 ? weight : work_.numbers.box - weight;
          const Real moved = std::abs(delta);
          if (moved <= room || size == 1) return own;
          own.length = std::min(Real{1}, std::max(room, Real{0}) / moved);
          own.row = k;
          return own;
        },
        [](const Blocking<Real>& a, const Blocking<Real>& b) {
          if (a.row == kNoPoint || b.row == kNoPoint) return a.row == kNoPoint ? b : a;
          return b.length < a.length || (b.length == a.length && b.row < a.row) ? b : a;
        });
  }
  LETHE_STEP void MoveMargin(Real length, bool clamp) {
    Each(block_, 0, work_.margin(), [&](uint32_t k) {
      const uint32_t i = work_.order[k];
      const Real weight = work_.x[i] + length * work_.delta[k];
      work_.x[i] = clamp ? std::max(Real{0}, std::min(weight, work_.numbers.box)) : weight;
    });
  }
  LETHE_STEP void ScaleMarginGradient(Real by) {
    Each(block_, 0, work_.margin(), [&](uint32_t k) { work_.gradient[work_.order[k]] *= by; });
  }
  LETHE_STEP Pivot Leaving(const Blocking<Real>& blocking) {
    const auto row = static_cast<uint32_t>(blocking.row);
    const uint32_t point = work_.order[row];
    const Real delta = Fetch<Real>(block_, work_.delta, row);
    return {point, delta < 0 ? Label::kReserve : Label::kError};
  }

  LETHE_STEP size_t FindFlips() {
    const Real tolerance = work_.numbers.sign_tolerance();
    const uint32_t count = SumOver<uint32_t>(block_, work_.n, [&](uint32_t i) {
      const bool flip = Violates<Real>(work_.label(i), work_.x[i], work_.gradient[i],
                                       work_.numbers.box, tolerance);
      work_.flips[i] = flip ? 1 : 0;
      return flip ? 1U : 0U;
    });
    if (count > 0) {
      // From marks to a list.
      typename Work::Block::template Private<uint32_t, 1> rank;
      Each(block_, 0, work_.n, [&](uint32_t i) {
        uint32_t before = 0;
        for (uint32_t j = 0; j < i; ++j) before += work_.flips[j];
        rank.At(i, 0) = work_.flips[i] != 0 ? before : work_.n;
      });
      Each(block_, 0, work_.n, [&](uint32_t i) {
        if (rank.At(i, 0) < work_.n) work_.flips[rank.At(i, 0)] = i;
      });
    }
    flips_ = count;
    return count;
  }
  LETHE_STEP Pivot FlipAt(size_t at) {
    const uint32_t point = work_.flips[static_cast<uint32_t>(at)];
    const Label now = work_.label(point);
    const Real weight = Fetch<Real>(block_, work_.x, point);
    return {point, Flipped(now, weight)};
  }
  LETHE_STEP void RelabelFlips() {
    Each(block_, 0, flips_, [&](uint32_t at) {
      const uint32_t point = work_.flips[at];
      Relabel({point, Flipped<Real>(work_.label(point), work_.x[point])});
    });
  }
  LETHE_STEP void Leave(Pivot pivot) {
    const auto point = static_cast<uint32_t>(pivot.point);
    const uint32_t at = Fetch<uint32_t>(block_, work_.position, point);
    RemoveRow(work_, at);
    Each(block_, 0, work_.n, [&](uint32_t i) {
      if (i == point) {
        Relabel(pivot);
        return;
      }
      if (!work_.InMargin(i)) return;
      const uint32_t row = work_.position[i];
      if (row < at) return;
      work_.position[i] = row - 1;
      work_.order[row - 1] = i;
    });
    --work_.numbers.margin;
  }
  LETHE_STEP bool Join(size_t point) { return AppendRow(work_, static_cast<uint32_t>(point)); }
  LETHE_STEP size_t Worst(bool first) {
    const Real tolerance = work_.numbers.sign_tolerance();
    // `length` is how far a point violates here.
    return block_
        .Reduce(
            work_.n, Blocking<Real>{},
            [&](uint32_t i) {
              Blocking<Real> own;
              const Label label = work_.label(i);
              if (label == Label::kMargin) return own;
              const Real g = work_.gradient[i];
              own.length = label == Label::kError ? g : -g;
              if (own.length > tolerance) own.row = i;
              return own;
            },
            [&](const Blocking<Real>& a, const Blocking<Real>& b) {
              if (a.row == kNoPoint || b.row == kNoPoint) return a.row == kNoPoint ? b : a;
              if (first || a.length == b.length) return a.row < b.row ? a : b;
              return a.length > b.length ? a : b;
            })
        .row;
  }
  LETHE_STEP Real GradientOf(size_t point) {
    return Fetch<Real>(block_, work_.gradient, static_cast<uint32_t>(point));
  }

  LETHE_STEP void Save() { Copy(work_.x, work_.saved); }
  LETHE_STEP void Restore() { Copy(work_.saved, work_.x); }
  LETHE_STEP void SnapSingle(Real tiny) {
    Each(block_, 0, 1, [&](uint32_t) {
      const uint32_t point = work_.order[0];
      const Real weight = work_.x[point];
      if (weight <= tiny) work_.x[point] = Real{0};
      if (weight >= work_.numbers.box - tiny) work_.x[point] = work_.numbers.box;
    });
  }
  LETHE_STEP void LabelByWeights() {
    Each(block_, 0, work_.n, [&](uint32_t i) {
      work_.labels[i] = static_cast<uint8_t>(LabelOfWeight<Real>(work_.x[i], work_.numbers.box));
    });
  }

 private:
  template <typename Array>
  LETHE_STEP void Copy(const Array& from, Array& to) {
    Each(block_, 0, work_.n, [&](uint32_t i) { to[i] = static_cast<Real>(from[i]); });
  }
  // By the lane that owns the point or, in RelabelFlips, its flip.
  LETHE_STEP void Relabel(Pivot pivot) {
    const auto point = static_cast<uint32_t>(pivot.point);
    work_.labels[point] = static_cast<uint8_t>(pivot.to);
    if (pivot.to == Label::kMargin) return;
    work_.x[point] = pivot.to == Label::kError ? work_.numbers.box : Real{0};
  }

  Work& work_;
  typename Work::Block& block_;
  uint32_t flips_ = 0;
};

template <typename Work>
class BlockAdjointSteps {
 public:
  using Real = typename Work::Real;

  LETHE_STEP BlockAdjointSteps(const Real* weights_bar, Work& work)
      : weights_bar_(weights_bar), work_(work), block_(work.block) {}

  LETHE_STEP Numbers<Real>& numbers() { return work_.numbers; }
  LETHE_STEP bool FactoriseMargin() { return FactoriseLabels(work_); }

  LETHE_STEP ErrorLoss<Real> OfErrors() {
    return block_.Reduce(
        work_.n, ErrorLoss<Real>{},
        [&](uint32_t i) {
          if (work_.label(i) != Label::kError) return ErrorLoss<Real>{};
          return ErrorLoss<Real>{weights_bar_[i], 1};
        },
        [](const ErrorLoss<Real>& a, const ErrorLoss<Real>& b) {
          return ErrorLoss<Real>{a.sum + b.sum, a.count + b.count};
        });
  }
  LETHE_STEP void LossOnMargin() {
    block_.Ahead(0, work_.n, [&](uint32_t i) { work_.lambda[i] = Real{0}; });
    Each(block_, 0, work_.margin(),
         [&](uint32_t k) { work_.update[k] = weights_bar_[work_.order[k]]; });
  }
  LETHE_STEP Real CorrectLambda(Real mass) {
    const uint32_t size = work_.margin();
    typename Work::Block::template Private<Real, 2> r;
    block_.Ahead(0, size, [&](uint32_t k) {
      r.At(k, 0) = work_.update[k];
      r.At(k, 1) = 1;
    });
    SolveBoth<2>(work_, r);
    const Sums<Real> sums = block_.Reduce(
        size, Sums<Real>{},
        [&](uint32_t k) {
          return Sums<Real>{r.At(k, 0), r.At(k, 1), 0};
        },
        [](const Sums<Real>& a, const Sums<Real>& b) {
          return Sums<Real>{a.along + b.along, a.total + b.total, 0};
        });
    const Real nu = (sums.along - mass) / sums.total;
    Each(block_, 0, size,
         [&](uint32_t k) { work_.lambda[work_.order[k]] += r.At(k, 0) - nu * r.At(k, 1); });
    return nu;
  }
  LETHE_STEP Real Residual(Real nu, Real mass) {
    const uint32_t size = work_.margin();
    Each(block_, 0, work_.n, [&](uint32_t i) {
      const Real product = work_.matrix.Dot(block_, i, work_.lambda);
      work_.gradient[i] =
          weights_bar_[i] - 2 * product - work_.numbers.ridge * work_.lambda[i] - nu;
    });
    return mass - SumOver<Real>(block_, size, [&](uint32_t k) {
             const uint32_t i = work_.order[k];
             work_.update[k] = static_cast<Real>(work_.gradient[i]);
             return static_cast<Real>(work_.lambda[i]);
           });
  }
  LETHE_STEP Real Across() {
    return SumOver<Real>(block_, work_.n, [&](uint32_t i) {
      if (work_.label(i) != Label::kError) return Real{0};
      return work_.matrix.Dot(block_, i, work_.lambda);
    });
  }
  LETHE_STEP Real Along() {
    return SumOver<Real>(block_, work_.n, [&](uint32_t i) { return work_.lambda[i] * work_.x[i]; });
  }

 private:
  const Real* const weights_bar_;
  Work& work_;
  typename Work::Block& block_;
};

}  // namespace lethe::batched

#endif  // LETHE_CORE_BATCHED_CUDA_BLOCK_POLISH_H_
