// A rung of the ladder by itself: the exact solution, in 200 digits, is within its bounds, whether
// its corrections come from the walk's factor, its own or the rung below, and what it says of the
// smallest eigenvalue is true.
#include "core/svdd/mp_rung.h"

#include <gtest/gtest.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tests/core/exact_judge.h"
#include "tests/core/key_streams.h"
#include "tests/core/solver_peer.h"

namespace lethe::svdd {
namespace {

// To the judge's digits.
Exact ToExact(MpReal number) {
  const PrecisionScope scope(800);
  Exact result = 0;
  for (int i = 0; i < 14; ++i) {
    const double part = ToDouble(number);
    result += part;
    number = number - MpReal(part);
  }
  return result;
}

double SmallestEigenvalue(const SupportSet& supports) {
  const auto& margin = supports.margin();
  const auto n = static_cast<Eigen::Index>(margin.size());
  Eigen::MatrixXd gram(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      gram(i, j) = supports.Gram(margin[static_cast<size_t>(i)], margin[static_cast<size_t>(j)]).hi;
    }
  }
  return Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(gram, Eigen::EigenvaluesOnly)
      .eigenvalues()
      .minCoeff();
}

class MpRungTest : public testing::TestWithParam<KeyRegime> {
 protected:
  // How far this rung is from the truth, against its bounds.
  void ExpectWithinBounds(MpRung& rung,
                          const Solver& solver,
                          const MemoryOptions& options,
                          std::span<const OwnedToken> tokens,
                          const ExactSolution& truth) {
    const Exact total = options.capacity.total();
    Exact square = 0;
    for (size_t i = 0; i < rung.groups().size(); ++i) {
      Exact exact = 0;
      for (const TokenHandle member : solver.tokens().Members(rung.groups()[i])) {
        exact += truth.alpha[member - 1] * total;
      }
      const Exact difference = ToExact(rung.weight(i)) - exact;
      square += difference * difference;
    }
    EXPECT_LE(sqrt(square), ToExact(rung.bounds().weight));
    EXPECT_LE(abs(ToExact(rung.mu()) - *truth.mu * total), ToExact(rung.bounds().mu));
    // The gradient of every group, the bound on the weights included.
    for (const OwnedToken& token : tokens) {
      const MpRung::Bounded gradient = rung.GradientOf(solver.tokens().GroupOf(token.handle));
      const Exact self = ExactKernel(options.kernel, token.key, token.key);
      const Exact exact =
          total * (2 * truth.KernelSum(options, tokens, token.key) - self + *truth.mu);
      const Exact scale = std::max<Exact>(1, sqrt(self) * (1 + 1e-9));
      EXPECT_LE(abs(ToExact(gradient.value) - exact),
                ToExact(gradient.error) + scale * ToExact(rung.bounds().Slack()));
    }
  }
};

TEST_P(MpRungTest, TheExactSolutionIsWithinItsBounds) {
  int judged = 0;
  for (const auto kind :
       {kernel::KernelKind::kRbf, kernel::KernelKind::kLaplacian, kernel::KernelKind::kExpDot}) {
    for (const double capacity : {2.5, 6.1}) {
      KeyStream keys(GetParam(), 3, 31);
      const double width = kind == kernel::KernelKind::kExpDot ? keys.squared_norm()
                           : kind == kernel::KernelKind::kRbf  ? keys.squared_distance()
                                                               : std::sqrt(keys.squared_distance());
      const MemoryOptions options = {
          {kind, 1 / width}, *Capacity::FromCapacity(capacity), DuplicatesPolicy::kShared, 3, 1};
      Solver solver(options);
      SolverTestPeer peer(solver);
      std::vector<OwnedToken> tokens;
      for (TokenHandle handle = 1; handle <= 24; ++handle) {
        tokens.push_back({handle, keys.Next(), {1.0}});
        solver.Insert(View(std::span(tokens).last(1)));
        const Snapshot state = solver.Publish().value();
        if (handle < 9 || handle % 3 != 0 || !state.mu.has_value()) continue;
        const ExactSolution truth = SolveExactly(state, tokens);
        if (!truth.fault.empty()) continue;
        SCOPED_TRACE(testing::Message() << "kernel " << static_cast<int>(kind) << ", capacity "
                                        << capacity << ", token " << handle);
        ++judged;
        const double total = options.capacity.total();
        const double eigenvalue = SmallestEigenvalue(peer.supports());
        MpKernelValues values(options.kernel, solver.tokens());
        // 320 bits by the walk's factor where there is one, then 640 by that rung; 320 bits by a
        // factor of its own.
        for (const bool walk : {true, false}) {
          if (walk && !peer.factor_ok()) continue;
          std::unique_ptr<MpRung> rung;
          for (const int bits : {320, 640}) {
            SCOPED_TRACE(testing::Message() << bits << " bits, the walk's factor: " << walk);
            const PrecisionScope scope(bits);
            rung = std::make_unique<MpRung>(values, total, peer.supports(), walk, bits, 2400,
                                            std::move(rung));
            ASSERT_TRUE(rung->SolveMargin());
            ExpectWithinBounds(*rung, solver, options, tokens, truth);
            const double lambda = ToDouble(rung->lambda());
            EXPECT_GT(lambda, 0.0);
            // 1 / |L^-1|_F^2 is at least the smallest eigenvalue over their number.
            const double noise = 1e-14 * static_cast<double>(peer.margin()) * rung->kmax();
            EXPECT_LE(lambda, eigenvalue + noise);
            EXPECT_GE(lambda, 0.9 * (eigenvalue - noise) / static_cast<double>(peer.margin()));
            // No rung is worth less than a good part of its bits.
            EXPECT_LT(rung->bounds().weight * rung->lambda(),
                      MpReal(total * rung->kmax()) * MpReal::PowerOfTwo(40 - bits));
          }
        }
      }
    }
  }
  EXPECT_GE(judged, GetParam() == KeyRegime::kConstant ? 0 : 20);
}

INSTANTIATE_TEST_SUITE_P(Regimes,
                         MpRungTest,
                         testing::ValuesIn(kKeyRegimes),
                         [](const auto& param) { return std::string(Name(param.param)); });

}  // namespace
}  // namespace lethe::svdd
