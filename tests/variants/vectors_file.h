// The problems of tests/golden/svdd.json, without their answers.
#ifndef LETHE_TESTS_VARIANTS_VECTORS_FILE_H_
#define LETHE_TESTS_VARIANTS_VECTORS_FILE_H_

#include <string>
#include <vector>

#include "core/svdd/problem.h"

namespace lethe::svdd {

struct VectorCase {
  std::string name;
  MemoryOptions options;
  std::vector<std::vector<double>> keys;
  std::vector<std::vector<double>> values;
  std::vector<std::vector<double>> queries;
};

// Empty when the file cannot be read or is not JSON.
std::vector<VectorCase> ReadVectors(const std::string& path);

}  // namespace lethe::svdd

#endif  // LETHE_TESTS_VARIANTS_VECTORS_FILE_H_
