// The kernels for devices as they run on the host (emulated_block.h), and what moves batches to a
// device and back. That their answers are right is what the suite over all backends shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/batched/cpu/cpu_backend.h"
#include "tests/batched/emulated_device.h"
#include "tests/batched/problems.h"

namespace lethe::batched {
namespace {

using testing::HasSubstr;

template <typename T>
bool SameBits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
struct Answer {
  Solution<T> solution;
  Gradients<T> gradients;

  friend bool operator==(const Answer& a, const Answer& b) {
    return SameBits(a.solution.weights, b.solution.weights) &&
           SameBits(a.solution.labels, b.solution.labels) &&
           SameBits(a.solution.threshold_low, b.solution.threshold_low) &&
           SameBits(a.solution.threshold_high, b.solution.threshold_high) &&
           SameBits(a.solution.gap, b.solution.gap) && a.solution.outcome == b.solution.outcome &&
           a.solution.churn == b.solution.churn && a.solution.iterations == b.solution.iterations &&
           a.solution.rounds == b.solution.rounds &&
           SameBits(a.gradients.matrices, b.gradients.matrices) &&
           SameBits(a.gradients.points, b.gradients.points) &&
           SameBits(a.gradients.parameter, b.gradients.parameter) &&
           SameBits(a.gradients.box, b.gradients.box) &&
           SameBits(a.gradients.ridge, b.gradients.ridge) &&
           a.gradients.outcome == b.gradients.outcome;
  }
};

template <typename T>
Answer<T> Solve(Backend& backend, const Batch<T>& batch, const Options& options = {}) {
  Answer<T> answer;
  EXPECT_TRUE(backend.Solve(batch, options, &answer.solution).ok());
  std::vector<T> bar(batch.problems * batch.n);
  for (size_t i = 0; i < bar.size(); ++i) bar[i] = T(i % 7) - T(3);
  const std::vector<T> threshold_bar(batch.problems, T(0.5));
  EXPECT_TRUE(
      backend.Backward(batch, answer.solution, {bar, threshold_bar}, &answer.gradients).ok());
  return answer;
}

// Problems that go every way: all kernels, labels flipped many and one at a time, bad ones.
template <typename T>
std::vector<OwnedBatch<T>> Mixture() {
  std::vector<Regime> regimes = StandardRegimes(11);
  regimes.push_back({"laplacian", {KernelKind::kLaplacian, true}, 0.7, 3, 1e-3});
  regimes.push_back({"exp of the dot product", {KernelKind::kExpDot, false}, 0.05});
  std::vector<OwnedBatch<T>> batches;
  uint64_t seed = 1;
  for (const Regime& regime : regimes) {
    for (const size_t n : {size_t{3}, size_t{16}, size_t{37}, size_t{70}}) {
      for (const double nu : {0.1, 0.45}) {
        if (nu * static_cast<double>(n) < 1 && n < 4) continue;
        batches.push_back(RandomBatch<T>(regime, n > 40 ? 2 : 4, n, 11, nu, 1e-3, ++seed));
      }
    }
  }
  OwnedBatch<T>& bad = batches[2];
  bad.points[5] = std::numeric_limits<T>::quiet_NaN();
  OwnedBatch<T>& short_key = batches[3];
  std::fill_n(short_key.points.begin(), short_key.dimension, T(0));
  OwnedBatch<T> matrices;
  matrices.problems = 3;
  matrices.n = 9;
  matrices.box = {T(0.3)};
  matrices.ridge = {T(1e-3), T(1e-2), T(1e-3)};
  matrices.matrices.assign(3 * 81, T(0.25));
  for (size_t i = 0; i < 27; ++i) matrices.matrices[i / 9 * 81 + i % 9 * 10] = T(1);
  matrices.matrices[2 * 81 + 1] = T(0.5);  // not symmetric
  batches.push_back(matrices);
  return batches;
}

class Emulation : public testing::Test {
 protected:
  // The answers to every batch of the mixture.
  template <typename T>
  std::vector<Answer<T>> All(const EmulationOptions& options) {
    const auto backend = MakeEmulatedBackend(options, &state_);
    std::vector<Answer<T>> answers;
    Options singly;
    singly.block_rounds = 0;
    for (const OwnedBatch<T>& batch : Mixture<T>()) {
      answers.push_back(Solve(*backend, batch.view()));
      Batch<T> warm = batch.view();
      const Solution<T> before = answers.back().solution;
      warm.start = before.weights;
      warm.previous_labels = before.labels;
      answers.push_back(Solve(*backend, warm, singly));
    }
    return answers;
  }

  EmulationState state_;
};

// What holds on the host holds on a device, whose lanes run as they like: every access is held
// against the rule of blocks, and the order of the lanes changes no bit.
TEST_F(Emulation, NoLaneReadsWhatAnotherWrites) {
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    EmulationOptions plain;
    const std::vector<Answer<T>> expected = All<T>(plain);
    for (const LaneOrder order : {LaneOrder::kForward, LaneOrder::kBackward, LaneOrder::kMixed}) {
      EmulationOptions options;
      options.order = order;
      options.checked = true;
      // A block has all problems of a batch, one after another.
      options.resident = 1;
      ASSERT_TRUE(All<T>(options) == expected) << static_cast<int>(order);
      ASSERT_EQ(state_.fault, "") << static_cast<int>(order);
    }
  };
  check(double{});
  check(float{});
}

// Where the arrays lie, and how K's rows are read, changes no answer; registers add in the same
// order as memory.
TEST_F(Emulation, MemoryChangesNothing) {
  const auto check = [&](auto zero) {
    using T = decltype(zero);
    const std::vector<Answer<T>> expected = All<T>({});
    EmulationOptions options;
    options.checked = true;
    options.rows_in_registers = false;
    ASSERT_TRUE(All<T>(options) == expected);
    options.shared_bytes = 9 * 1024;  // vectors alone
    ASSERT_TRUE(All<T>(options) == expected);
    options.order = LaneOrder::kBackward;
    ASSERT_TRUE(All<T>(options) == expected);
    ASSERT_EQ(state_.fault, "");
  };
  check(double{});
  check(float{});
}

// The most points, where nothing but vectors is shared.
TEST_F(Emulation, TheLargestProblemsAreTheCpus) {
  EmulationOptions options;
  options.shared_bytes = 57 * 1024;
  const auto device = MakeEmulatedBackend(options, &state_);
  const auto cpu = MakeCpuBackend(1);
  const auto batch = RandomBatch<double>(StandardRegimes(5)[4], 1, kMaxPoints, 5, 0.4, 1e-3, 3);
  const Answer<double> theirs = Solve(*cpu, batch.view());
  const Answer<double> ours = Solve(*device, batch.view());
  ASSERT_TRUE(IsSolved(ours.solution.outcome[0]));
  ASSERT_EQ(ours.solution.labels, theirs.solution.labels);
  ASSERT_LE(ours.solution.gap[0], 1e-12);
  double most = 0.0;
  for (const double value : theirs.gradients.points) most = std::max(most, std::abs(value));
  ASSERT_GT(most, 0.01);
  for (size_t i = 0; i < ours.gradients.points.size(); ++i) {
    ASSERT_NEAR(ours.gradients.points[i], theirs.gradients.points[i], 1e-9 * most) << i;
  }
}

// Cutting a batch changes no bit, and memory stays within what the device gives.
TEST_F(Emulation, LongBatchesAreCut) {
  const auto batch = RandomBatch<double>(StandardRegimes(5)[3], 101, 20, 5, 0.4, 1e-3, 3);
  OwnedBatch<double> own = batch;  // a number a problem
  own.box.assign(101, batch.box[0]);
  own.ridge.assign(101, batch.ridge[0]);
  own.parameter.assign(101, batch.parameter[0]);
  for (const OwnedBatch<double>* owned : {&batch, static_cast<const OwnedBatch<double>*>(&own)}) {
    EmulationOptions options;
    const Answer<double> expected = Solve(*MakeEmulatedBackend(options, nullptr), owned->view());
    size_t launches = 0;
    for (const size_t memory : {size_t{400000}, size_t{100000}, size_t{60000}}) {
      options.memory = memory;
      EmulationState state;
      const auto backend = MakeEmulatedBackend(options, &state);
      ASSERT_TRUE(Solve(*backend, owned->view()) == expected) << memory;
      EXPECT_LE(state.most_reserved, memory);
      EXPECT_GT(state.launches, launches);
      launches = state.launches;
    }
    EXPECT_GT(launches, 6);
  }
}

// Solve wants scratch for K, Backward more for its arrays: in turns they find the memory of the
// first round, and of a smaller batch less is wanted.
TEST_F(Emulation, MemoryGrowsAndStays) {
  const auto batch = RandomBatch<double>(StandardRegimes(5)[3], 50, 20, 5, 0.4, 1e-3, 3);
  const auto backend = MakeEmulatedBackend({}, &state_);
  const Answer<double> expected = Solve(*backend, batch.view());
  const size_t allocations = state_.allocations;
  EXPECT_GE(allocations, 4);  // host and device, two queues
  const auto fewer = RandomBatch<double>(StandardRegimes(5)[3], 20, 20, 5, 0.4, 1e-3, 3);
  for (int round = 0; round < 3; ++round) {
    Solve(*backend, fewer.view());
    ASSERT_TRUE(Solve(*backend, batch.view()) == expected);
  }
  EXPECT_EQ(state_.allocations, allocations);
  const auto more = RandomBatch<double>(StandardRegimes(5)[3], 200, 20, 5, 0.4, 1e-3, 3);
  Solve(*backend, more.view());
  EXPECT_GT(state_.allocations, allocations);
}

TEST_F(Emulation, WhatDoesNotFitIsToldWithTheField) {
  EmulationOptions options;
  options.memory = 5000;
  const auto backend = MakeEmulatedBackend(options, nullptr);
  const auto batch = RandomBatch<double>(StandardRegimes(5)[2], 2, 200, 5, 0.4, 1e-3, 3);
  Solution<double> solution;
  solution.weights = {7};
  const absl::Status status = backend->Solve(batch.view(), {}, &solution);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("batch.n"));
  EXPECT_EQ(solution.weights, std::vector<double>{7});
}

// Whichever call of the device fails: the error comes out, results stay, the next call works.
TEST_F(Emulation, ErrorsOfTheDeviceComeOutAndResultsStay) {
  const auto batch = RandomBatch<double>(StandardRegimes(5)[2], 60, 20, 5, 0.4, 1e-3, 3);
  EmulationOptions options;
  options.memory = 100000;
  EmulationState state;
  const auto backend = MakeEmulatedBackend(options, &state);
  const Answer<double> expected = Solve(*backend, batch.view());
  state.calls = 0;
  Solution<double> solved;
  ASSERT_TRUE(backend->Solve(batch.view(), {}, &solved).ok());
  const size_t calls = state.calls;
  ASSERT_GE(calls, 10);  // two queues, each with more than one part
  for (size_t fail = 0; fail < calls; ++fail) {
    state.calls = 0;
    state.fail_from = fail;
    Solution<double> solution;
    solution.weights = {7};
    const absl::Status status = backend->Solve(batch.view(), {}, &solution);
    ASSERT_EQ(status.code(), absl::StatusCode::kInternal) << fail;
    ASSERT_THAT(std::string(status.message()), HasSubstr("emulated: "));
    ASSERT_EQ(solution.weights, std::vector<double>{7});
    Gradients<double> gradients;
    gradients.box = {7};
    const std::vector<double> bar(60 * 20, 1.0);
    ASSERT_FALSE(backend->Backward(batch.view(), expected.solution, {bar, {}}, &gradients).ok());
    ASSERT_EQ(gradients.box, std::vector<double>{7});
    state.fail_from = SIZE_MAX;
    ASSERT_TRUE(Solve(*backend, batch.view()) == expected) << fail;
    ASSERT_EQ(state.fault, "") << fail;
  }
}

// A problem begins at the barrier that the one before it ended at, and with nothing of its.
TEST(EmulatedChecks, SeeWhatTwoProblemsOfABlockDoToEachOther) {
  const BlockLayout layout = PlanBlock(40, 3, sizeof(double), 0, 64 * 1024);
  const auto fault_of = [&](auto&& first, auto&& second) {
    EmulatedMemory memory(layout.shared_bytes, layout.scratch_bytes, true);
    std::vector<std::byte> scratch(layout.scratch_bytes);
    for (const bool begin : {true, false}) {
      EmulatedBlock<true> block(layout, LaneOrder::kForward, scratch.data(), &memory);
      const auto array = block.Shared<double>(0, 40);
      begin ? first(block, array) : second(block, array);
    }
    return memory.fault();
  };
  const auto write = [](auto& block, auto& array) {
    block.Ahead(0, 40, [&](uint32_t i) { array[i] = 1.0; });
  };
  const auto write_turned = [](auto& block, auto& array) {
    block.Ahead(0, 40, [&](uint32_t i) { array[39 - i] = 1.0; });
  };
  const auto with_barrier = [&](auto& block, auto& array) {
    write(block, array);
    block.Barrier();
  };
  const auto read = [](auto& block, auto& array) {
    SumOver<double>(block, 40, [&](uint32_t i) { return array[i] * 1.0; });
  };
  EXPECT_EQ(fault_of(with_barrier, write_turned), "");
  EXPECT_THAT(fault_of(write, write_turned), HasSubstr("written by two lanes"));
  EXPECT_THAT(fault_of(with_barrier, read), HasSubstr("read before it was written"));
  EXPECT_THAT(fault_of(
                  [&](auto& block, auto& array) {
                    with_barrier(block, array);
                    block.Ahead(0, 1, [&](uint32_t) { EXPECT_EQ(array[5] * 1.0, 1.0); });
                  },
                  write),
              HasSubstr("written while another lane reads"));
}

// The checks of the emulation see what they are for.
TEST(EmulatedChecks, SeeEveryKindOfFault) {
  const BlockLayout layout = PlanBlock(40, 3, sizeof(double), 0, 64 * 1024);
  const auto fault_of = [&](auto&& body) {
    EmulatedMemory memory(layout.shared_bytes, layout.scratch_bytes, true);
    std::vector<std::byte> scratch(layout.scratch_bytes);
    EmulatedBlock<true> block(layout, LaneOrder::kForward, scratch.data(), &memory);
    const auto array = block.Shared<double>(0, 40);
    body(block, array);
    return memory.fault();
  };
  EXPECT_EQ(fault_of([](auto& block, auto& array) {
              Each(block, 0, 40, [&](uint32_t i) { array[i] = 1.0; });
              Each(block, 0, 40, [&](uint32_t i) { array[i] += 1.0; });
              EXPECT_EQ(SumOver<double>(block, 40, [&](uint32_t i) { return array[39 - i] * 1.0; }),
                        80.0);
            }),
            "");
  EXPECT_THAT(fault_of([](auto& block, auto& array) {
                block.Ahead(0, 40, [&](uint32_t i) { array[i] = 1.0; });
                block.Ahead(0, 40, [&](uint32_t i) { array[i] = 1.0 * array[39 - i]; });
              }),
              HasSubstr("read while another lane writes"));
  EXPECT_THAT(fault_of([](auto& block, auto& array) {
                Each(block, 0, 40, [&](uint32_t i) { array[i] = 1.0; });
                const double first = array[0];
                block.Ahead(0, 40, [&](uint32_t i) { array[i] = first; });
              }),
              HasSubstr("written while another lane reads"));
  EXPECT_THAT(fault_of([](auto& block, auto& array) {
                Each(block, 0, 40, [&](uint32_t i) { array[i / 2] = 1.0; });
              }),
              HasSubstr("written by two lanes"));
  EXPECT_THAT(fault_of([](auto&, auto& array) { array[0] = 1.0; }),
              HasSubstr("written by uniform code"));
  EXPECT_THAT(fault_of([](auto& block, auto& array) {
                Each(block, 0, 39, [&](uint32_t i) { array[i] = 1.0; });
                SumOver<double>(block, 40, [&](uint32_t i) { return array[i] * 1.0; });
              }),
              HasSubstr("read before it was written"));
  EXPECT_THAT(fault_of([](auto& block, auto& array) {
                Each(block, 0, 41, [&](uint32_t i) { array[i] = 1.0; });
              }),
              HasSubstr("outside its array"));
  EXPECT_THAT(fault_of([](auto& block, auto&) {
                EmulatedBlock<true>::Private<double, 1> own;
                Each(block, 0, 40, [&](uint32_t i) { own.At(i ^ 1, 0) = 1.0; });
              }),
              HasSubstr("another lane's register"));
  EXPECT_THAT(
      fault_of([](auto& block, auto&) { block.Ahead(0, 40, [&](uint32_t) { block.Barrier(); }); }),
      HasSubstr("a barrier within a body"));
  EXPECT_THAT(fault_of([](auto& block, auto&) {
                double uniform = 0.0;
                block.Ahead(
                    0, 40, [&](uint32_t i) { block.Agree(&uniform, static_cast<double>(i / 39)); });
              }),
              HasSubstr("lanes do not agree"));
}

}  // namespace
}  // namespace lethe::batched
