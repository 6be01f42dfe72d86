#include "core/batched/cuda/device_backend.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "core/base/status_macros.h"

namespace lethe::batched {
namespace {

constexpr size_t kBoundary = 256;  // of every array, so that lanes read whole lines
constexpr size_t kQueues = 2;

size_t Up(size_t bytes) { return (bytes + kBoundary - 1) / kBoundary * kBoundary; }

// One array of a part of a batch: so many bytes a problem, or one stretch for all.
struct Field {
  size_t at = 0;
  size_t each = 0;
  size_t once = 0;

  size_t BytesOf(size_t problems) const { return once > 0 ? once : each * problems; }
};

// The arrays of a part, those that go to the device first. Offsets are those of the largest part.
class Fields {
 public:
  Field* Each(size_t bytes) {
    Field& field = fields_[count_++];
    field.each = bytes;
    return &field;
  }
  Field* OneOrEach(size_t entries, size_t size) {
    Field* field = Each(size);
    if (entries == 1) field->once = size;
    return field;
  }
  void InputsEnd() { inputs_ = count_; }

  // Bytes of a part of so many problems; input: but for the results.
  size_t Place(size_t problems, size_t* input) {
    size_t used = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (i == inputs_) *input = used;
      fields_[i].at = used;
      used += Up(fields_[i].BytesOf(problems));
    }
    return used;
  }
  // How many problems fit into so many bytes.
  size_t Fitting(size_t bytes) const {
    size_t fixed = 0;
    size_t each = 0;
    for (size_t i = 0; i < count_; ++i) {
      fixed += kBoundary + fields_[i].once;
      if (fields_[i].once == 0) each += fields_[i].each;
    }
    return bytes <= fixed ? 0 : (bytes - fixed) / std::max<size_t>(each, 1);
  }

 private:
  static constexpr size_t kMost = 24;
  Field fields_[kMost];
  size_t count_ = 0;
  size_t inputs_ = 0;
};

// Where a part stands, on either side.
struct Part {
  size_t first = 0;
  size_t count = 0;
};

// Null where the field has nothing.
template <typename T>
T* At(std::byte* memory, const Field* field) {
  return field->BytesOf(1) == 0 ? nullptr : reinterpret_cast<T*>(memory + field->at);
}

template <typename T>
void Fill(std::span<const T> from, const Part& part, const Field* field, std::byte* host) {
  const size_t bytes = field->BytesOf(part.count);
  if (bytes == 0) return;
  const size_t first = field->once > 0 ? 0 : part.first * field->each / sizeof(T);
  std::memcpy(host + field->at, from.data() + first, bytes);
}

// What a launch gives, each named once: where it goes, and which of the arguments says where the
// kernel leaves it.
template <typename Arguments>
class ResultFields {
 public:
  ResultFields(size_t problems, Fields& fields) : problems_(problems), fields_(fields) {}

  // `to` gets so many entries a problem and must outlive this as it is; 0: it is empty, and the
  // argument null. OnDevice is V, or the bytes of an enumeration.
  template <typename V, typename OnDevice>
  void Add(size_t entries, OnDevice* Arguments::*argument, std::vector<V>* to) {
    static_assert(sizeof(V) == sizeof(OnDevice) && std::is_trivially_copyable_v<V>);
    to->resize(problems_ * entries);
    const Field* const field = fields_.Each(entries * sizeof(V));
    results_.push_back({field, reinterpret_cast<std::byte*>(to->data()),
                        [argument, field](std::byte* device, Arguments* arguments) {
                          arguments->*argument = At<OnDevice>(device, field);
                        }});
  }
  void SetPlaces(std::byte* device, Arguments* arguments) const {
    for (const Result& result : results_) result.set_place(device, arguments);
  }
  void Collect(const Part& part, const std::byte* host) const {
    for (const auto& [field, to, set_place] : results_) {
      const size_t bytes = field->BytesOf(part.count);
      if (bytes > 0) std::memcpy(to + part.first * field->each, host + field->at, bytes);
    }
  }

 private:
  struct Result {
    const Field* field;
    std::byte* to;
    std::function<void(std::byte*, Arguments*)> set_place;
  };
  const size_t problems_;
  Fields& fields_;
  std::vector<Result> results_;
};

// Fields and arguments that Solve and Backward share.
template <typename T>
class ProblemFields {
 public:
  ProblemFields(const Batch<T>& batch, Fields& fields)
      : batch_(batch),
        matrices_(fields.Each(batch.dimension > 0 ? 0 : batch.n * batch.n * sizeof(T))),
        points_(fields.Each(batch.n * batch.dimension * sizeof(T))),
        parameter_(batch.dimension > 0 ? fields.OneOrEach(batch.parameter.size(), sizeof(T))
                                       : fields.Each(0)),
        box_(fields.OneOrEach(batch.box.size(), sizeof(T))),
        ridge_(fields.OneOrEach(batch.ridge.size(), sizeof(T))) {}

  void FillIn(const Part& part, std::byte* host) const {
    Fill(batch_.matrices, part, matrices_, host);
    Fill(batch_.points, part, points_, host);
    Fill(batch_.parameter, part, parameter_, host);
    Fill(batch_.box, part, box_, host);
    Fill(batch_.ridge, part, ridge_, host);
  }
  DeviceProblems<T> Arguments(const Part& part, std::byte* device) const {
    DeviceProblems<T> problems;
    problems.count = part.count;
    problems.kernel = batch_.kernel;
    problems.matrices = At<T>(device, matrices_);
    problems.points = At<T>(device, points_);
    problems.parameter = At<T>(device, parameter_);
    problems.box = At<T>(device, box_);
    problems.ridge = At<T>(device, ridge_);
    problems.parameter_each = parameter_->once == 0;
    problems.box_each = box_->once == 0;
    problems.ridge_each = ridge_->once == 0;
    return problems;
  }

 private:
  const Batch<T>& batch_;
  const Field* const matrices_;
  const Field* const points_;
  const Field* const parameter_;
  const Field* const box_;
  const Field* const ridge_;
};

class DeviceBackend : public Backend {
 public:
  DeviceBackend(std::unique_ptr<Device> device, std::vector<std::unique_ptr<DeviceQueue>> queues)
      : device_(std::move(device)), queues_(std::move(queues)) {}

  std::string name() const override { return device_->name(); }
  std::string description() const override { return device_->description(); }

  absl::Status Solve(const Batch<float>& batch,
                     const Options& options,
                     Solution<float>* solution) override {
    return Guarded([&] { return SolveAll(batch, options, solution); });
  }
  absl::Status Solve(const Batch<double>& batch,
                     const Options& options,
                     Solution<double>* solution) override {
    return Guarded([&] { return SolveAll(batch, options, solution); });
  }
  absl::Status Backward(const Batch<float>& batch,
                        const Solution<float>& solution,
                        const LossGradient<float>& loss,
                        Gradients<float>* gradients) override {
    return Guarded([&] { return BackwardAll(batch, solution, loss, gradients); });
  }
  absl::Status Backward(const Batch<double>& batch,
                        const Solution<double>& solution,
                        const LossGradient<double>& loss,
                        Gradients<double>* gradients) override {
    return Guarded([&] { return BackwardAll(batch, solution, loss, gradients); });
  }

 private:
  // How a batch is cut.
  struct Cut {
    BlockLayout layout;
    size_t problems = 0;  // of a part, but for the last
    size_t input = 0;     // bytes
    size_t bytes = 0;     // of a part, on either side
    size_t scratch = 0;   // on the device, behind them
    uint32_t blocks = 0;
  };

  template <typename Work>
  absl::Status Guarded(const Work& work) {
    MutexLock lock(turn_);
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("no memory for the results");
    }
  }

  template <typename T>
  absl::StatusOr<Cut> CutOf(DeviceKernel kernel, const Batch<T>& batch, Fields& fields) const {
    Cut cut;
    // K's rows in registers are for Solve, which goes over them many times.
    constexpr bool kSingle = sizeof(T) == sizeof(float);
    const uint32_t registers = kernel == DeviceKernel::kSolve ? device_->row_registers(kSingle) : 0;
    cut.layout = PlanBlock(batch.n, batch.dimension, sizeof(T), registers, device_->shared_bytes());
    LETHE_ASSIGN_OR_RETURN(const uint32_t resident, device_->Resident(kernel, cut.layout, kSingle));
    const size_t memory = device_->memory();
    cut.blocks = static_cast<uint32_t>(std::min<size_t>(resident, batch.problems));
    if (cut.layout.scratch_bytes > 0) {
      const size_t most = std::max<size_t>(1, memory / 2 / cut.layout.scratch_bytes);
      cut.blocks = static_cast<uint32_t>(std::min<size_t>(cut.blocks, most));
    }
    cut.scratch = cut.blocks * cut.layout.scratch_bytes;
    const size_t fitting = memory > cut.scratch ? fields.Fitting(memory - cut.scratch) : 0;
    if (fitting == 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          batch.dimension > 0 ? "batch.n, batch.dimension" : "batch.n",
          ": one such problem is more than the ", memory, " bytes of the device that may be used"));
    }
    cut.problems = std::min(batch.problems, fitting);
    // Two parts at least where there are enough, so that one is copied while the other is computed.
    if (cut.problems > 2 * size_t{cut.blocks}) {
      cut.problems = std::min(cut.problems, std::max((batch.problems + 1) / 2, size_t{cut.blocks}));
    }
    cut.bytes = fields.Place(cut.problems, &cut.input);
    return cut;
  }

  // fill(part, host), launch(part, queue) and results.Collect(part, host) for every part in turn.
  template <typename FillPart, typename Launch, typename Results>
  absl::Status InParts(size_t problems,
                       const Cut& cut,
                       const FillPart& fill,
                       const Launch& launch,
                       const Results& results) {
    Part pending[kQueues];
    const auto finish = [&](size_t which) {
      if (pending[which].count == 0) return absl::OkStatus();
      LETHE_RETURN_IF_ERROR(queues_[which]->Wait());
      results.Collect(pending[which], queues_[which]->host());
      pending[which].count = 0;
      return absl::OkStatus();
    };
    const auto start = [&](size_t which, const Part& part) {
      DeviceQueue& queue = *queues_[which];
      LETHE_RETURN_IF_ERROR(queue.Reserve(cut.bytes, cut.bytes + cut.scratch));
      fill(part, queue.host());
      pending[which] = part;
      LETHE_RETURN_IF_ERROR(queue.ToDevice(0, cut.input));
      LETHE_RETURN_IF_ERROR(launch(part, queue));
      return queue.FromDevice(cut.input, cut.bytes - cut.input);
    };
    absl::Status status;
    size_t turn = 0;
    for (size_t first = 0; first < problems && status.ok(); first += cut.problems, ++turn) {
      status = finish(turn % kQueues);
      if (!status.ok()) break;
      status = start(turn % kQueues, {first, std::min(cut.problems, problems - first)});
    }
    for (size_t i = 0; i < kQueues; ++i) {
      const size_t which = (turn + i) % kQueues;
      if (status.ok()) {
        status = finish(which);
      } else if (pending[which].count > 0) {
        // Nothing may still be writing to the memory of the next call.
        queues_[which]->Wait().IgnoreError();
      }
    }
    return status;
  }

  template <typename T>
  static void SetPlace(const Cut& cut, DeviceQueue& queue, DeviceProblems<T>* problems) {
    problems->layout = cut.layout;
    problems->blocks = cut.blocks;
    problems->scratch = queue.device() + cut.bytes;
  }

  template <typename T>
  absl::Status SolveAll(const Batch<T>& batch, const Options& options, Solution<T>* solution) {
    LETHE_RETURN_IF_ERROR(Validate(batch, options));
    const size_t n = batch.n;
    const size_t problems = batch.problems;
    Fields fields;
    const ProblemFields<T> inputs(batch, fields);
    const Field* const start = fields.Each(batch.start.empty() ? 0 : n * sizeof(T));
    const Field* const previous = fields.Each(batch.previous_labels.empty() ? 0 : n);
    fields.InputsEnd();
    using Arguments = SolveArguments<T>;
    Solution<T> result;
    ResultFields<Arguments> results(problems, fields);
    results.Add(n, &Arguments::weights, &result.weights);
    results.Add(n, &Arguments::labels, &result.labels);
    results.Add(1, &Arguments::threshold_low, &result.threshold_low);
    results.Add(1, &Arguments::threshold_high, &result.threshold_high);
    results.Add(1, &Arguments::gap, &result.gap);
    results.Add(1, &Arguments::outcome, &result.outcome);
    results.Add(1, &Arguments::iterations, &result.iterations);
    results.Add(1, &Arguments::rounds, &result.rounds);
    results.Add(batch.previous_labels.empty() ? 0 : 1, &Arguments::churn, &result.churn);
    if (problems > 0) {
      LETHE_ASSIGN_OR_RETURN(const Cut cut, CutOf(DeviceKernel::kSolve, batch, fields));
      LETHE_RETURN_IF_ERROR(InParts(
          problems, cut,
          [&](const Part& part, std::byte* host) {
            inputs.FillIn(part, host);
            Fill(batch.start, part, start, host);
            Fill(batch.previous_labels, part, previous, host);
          },
          [&](const Part& part, DeviceQueue& queue) {
            std::byte* const device = queue.device();
            Arguments arguments;
            arguments.problems = inputs.Arguments(part, device);
            SetPlace(cut, queue, &arguments.problems);
            arguments.options = options;
            arguments.start = At<T>(device, start);
            arguments.previous_labels = At<uint8_t>(device, previous);
            results.SetPlaces(device, &arguments);
            return queue.Solve(arguments);
          },
          results));
    }
    *solution = std::move(result);
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status BackwardAll(const Batch<T>& batch,
                           const Solution<T>& solution,
                           const LossGradient<T>& loss,
                           Gradients<T>* gradients) {
    LETHE_RETURN_IF_ERROR(Validate(batch, solution, loss));
    const size_t n = batch.n;
    const size_t d = batch.dimension;
    const size_t problems = batch.problems;
    Fields fields;
    const ProblemFields<T> inputs(batch, fields);
    const Field* const weights = fields.Each(n * sizeof(T));
    const Field* const labels = fields.Each(n);
    const Field* const outcome = fields.Each(1);
    const Field* const weights_bar = fields.Each(n * sizeof(T));
    const Field* const threshold_bar = fields.Each(loss.threshold.empty() ? 0 : sizeof(T));
    fields.InputsEnd();
    using Arguments = BackwardArguments<T>;
    Gradients<T> result;
    ResultFields<Arguments> results(problems, fields);
    results.Add(d > 0 ? 0 : n * n, &Arguments::matrices_bar, &result.matrices);
    results.Add(n * d, &Arguments::points_bar, &result.points);
    results.Add(d > 0 ? 1 : 0, &Arguments::parameter_bar, &result.parameter);
    results.Add(1, &Arguments::box_bar, &result.box);
    results.Add(1, &Arguments::ridge_bar, &result.ridge);
    results.Add(1, &Arguments::gradient_outcome, &result.outcome);
    if (problems > 0) {
      LETHE_ASSIGN_OR_RETURN(const Cut cut, CutOf(DeviceKernel::kBackward, batch, fields));
      LETHE_RETURN_IF_ERROR(InParts(
          problems, cut,
          [&](const Part& part, std::byte* host) {
            inputs.FillIn(part, host);
            Fill(std::span<const T>(solution.weights), part, weights, host);
            Fill(std::span<const uint8_t>(solution.labels), part, labels, host);
            Fill(std::span<const Outcome>(solution.outcome), part, outcome, host);
            Fill(loss.weights, part, weights_bar, host);
            Fill(loss.threshold, part, threshold_bar, host);
          },
          [&](const Part& part, DeviceQueue& queue) {
            std::byte* const device = queue.device();
            Arguments arguments;
            arguments.problems = inputs.Arguments(part, device);
            SetPlace(cut, queue, &arguments.problems);
            arguments.weights = At<T>(device, weights);
            arguments.labels = At<uint8_t>(device, labels);
            arguments.outcome = At<uint8_t>(device, outcome);
            arguments.weights_bar = At<T>(device, weights_bar);
            arguments.threshold_bar = At<T>(device, threshold_bar);
            results.SetPlaces(device, &arguments);
            return queue.Backward(arguments);
          },
          results));
    }
    *gradients = std::move(result);
    return absl::OkStatus();
  }

  Mutex turn_;
  const std::unique_ptr<Device> device_;
  const std::vector<std::unique_ptr<DeviceQueue>> queues_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeDeviceBackend(std::unique_ptr<Device> device) {
  std::vector<std::unique_ptr<DeviceQueue>> queues;
  for (size_t i = 0; i < kQueues; ++i) {
    LETHE_ASSIGN_OR_RETURN(std::unique_ptr<DeviceQueue> queue, device->NewQueue());
    queues.push_back(std::move(queue));
  }
  return std::make_unique<DeviceBackend>(std::move(device), std::move(queues));
}

}  // namespace lethe::batched
