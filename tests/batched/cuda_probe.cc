// Says what the CUDA backend finds here: its device, or why there is none. Exit status 0 for
// either, 1 for anything else. On a device a small batch is solved, which shows that the kernels
// load.
#include <cstdio>
#include <vector>

#include "core/batched/cuda/cuda_backend.h"

int main() {
  using namespace lethe::batched;
  const auto backend = MakeCudaBackend();
  if (!backend.ok()) {
    std::printf("%s\n", std::string(backend.status().message()).c_str());
    return absl::IsFailedPrecondition(backend.status()) ? 0 : 1;
  }
  std::printf("%s\n", (*backend)->description().c_str());
  const std::vector<double> points = {-1, 0, 1};
  const std::vector<double> numbers = {0.1, 0.5, 1e-3};
  Batch<double> batch;
  batch.problems = 1;
  batch.n = 3;
  batch.dimension = 1;
  batch.points = points;
  batch.parameter = {numbers.data(), 1};
  batch.box = {numbers.data() + 1, 1};
  batch.ridge = {numbers.data() + 2, 1};
  Solution<double> solution;
  const absl::Status status = (*backend)->Solve(batch, {}, &solution);
  if (!status.ok() || solution.weights != std::vector<double>{0.5, 0, 0.5}) {
    std::printf("a small batch: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
