#include "tests/bench/perf_libsvm.h"

#include "core/base/check.h"
#include "tests/bench/perf_timing.h"

#if defined(LETHE_HAVE_LIBSVM)
#include <libsvm/svm.h>
#endif

namespace lethe::bench {

#if defined(LETHE_HAVE_LIBSVM)

struct LibsvmProblem::Data {
  std::vector<svm_node> nodes;
  std::vector<svm_node*> rows;
  std::vector<double> labels;
};

LibsvmProblem::LibsvmProblem(std::span<const std::span<const double>> keys)
    : data_(std::make_unique<Data>()) {
  LETHE_CHECK(!keys.empty());
  const size_t dimension = keys[0].size();
  data_->nodes.resize(keys.size() * (dimension + 1));
  data_->labels.assign(keys.size(), 1.0);
  for (size_t i = 0; i < keys.size(); ++i) {
    svm_node* row = data_->nodes.data() + i * (dimension + 1);
    for (size_t k = 0; k < dimension; ++k) row[k] = {static_cast<int>(k) + 1, keys[i][k]};
    row[dimension] = {-1, 0.0};
    data_->rows.push_back(row);
  }
}

bool LibsvmProblem::Available() { return true; }

std::vector<double> LibsvmProblem::Train(double gamma,
                                         double capacity,
                                         double tolerance,
                                         double* seconds) const {
  const double n = static_cast<double>(data_->rows.size());
  svm_set_print_string_function([](const char*) {});
  svm_problem problem{static_cast<int>(data_->rows.size()), data_->labels.data(),
                      data_->rows.data()};
  svm_parameter parameter{};
  parameter.svm_type = ONE_CLASS;
  parameter.kernel_type = RBF;
  parameter.gamma = gamma;
  parameter.nu = capacity / n;
  parameter.eps = tolerance;
  parameter.cache_size = 1000.0;
  parameter.shrinking = 1;
  LETHE_CHECK(svm_check_parameter(&problem, &parameter) == nullptr);
  svm_model* model = nullptr;
  *seconds = SecondsOf([&] { model = svm_train(&problem, &parameter); });
  std::vector<double> weights(data_->rows.size());
  for (int i = 0; i < model->l; ++i) {
    weights[static_cast<size_t>(model->sv_indices[i] - 1)] = model->sv_coef[0][i] / capacity;
  }
  svm_free_and_destroy_model(&model);
  return weights;
}

#else

struct LibsvmProblem::Data {};

LibsvmProblem::LibsvmProblem(std::span<const std::span<const double>> /*keys*/) {}

bool LibsvmProblem::Available() { return false; }

std::vector<double> LibsvmProblem::Train(double /*gamma*/,
                                         double /*capacity*/,
                                         double /*tolerance*/,
                                         double* /*seconds*/) const {
  LETHE_CHECK(Available());
  return {};
}

#endif

LibsvmProblem::~LibsvmProblem() = default;

}  // namespace lethe::bench
