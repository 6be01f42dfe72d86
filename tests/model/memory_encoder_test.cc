// Encoders in front of exact memories, against sums written out here.
#include "core/model/memory_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/model/encoder_trainer.h"
#include "tests/model/encoder_artefact.h"

namespace lethe::model {
namespace {

using ::testing::HasSubstr;

EncoderOptions Options() {
  return {.key_dimension = 5, .value_dimension = 4, .projected_key = 3, .projected_value = 2};
}

// row i of the matrix times raw[i], in order, with nothing fused.
std::vector<double> Projected(const std::vector<double>& matrix,
                              const std::vector<double>& raw,
                              size_t columns) {
  std::vector<double> out(columns, 0.0);
  for (size_t i = 0; i < raw.size(); ++i) {
    for (size_t j = 0; j < columns; ++j) {
      volatile double product = raw[i] * matrix[i * columns + j];
      out[j] = out[j] + product;
    }
  }
  return out;
}

// A matrix of the artefact, read off by the unit vectors.
template <typename Encode>
std::vector<double> MatrixOf(size_t rows, size_t columns, Encode encode) {
  std::vector<double> matrix;
  for (size_t i = 0; i < rows; ++i) {
    std::vector<double> unit(rows, 0.0);
    unit[i] = 1.0;
    std::vector<double> row(columns);
    encode(unit, row);
    matrix.insert(matrix.end(), row.begin(), row.end());
  }
  return matrix;
}

template <typename T>
void ExpectEncodesTo(const std::string& artefact) {
  const auto read = MemoryEncoder::Read(artefact);
  ASSERT_TRUE(read.ok()) << read.status();
  const MemoryEncoder& encoder = **read;
  const TrainedEncoder<T> trained = ReadEncoderArtefact<T>(artefact).value();
  EXPECT_EQ(encoder.options(), Options());
  const std::vector<double> raw = {0.1, -2.5, 1.0 / 3.0, 7e9, -1e-9};
  const auto check = [&](auto encode, const std::vector<double>& from, Matrix<const T> matrix) {
    std::vector<double> numbers;
    for (size_t i = 0; i < matrix.rows; ++i) {
      numbers.insert(numbers.end(), matrix.row(i), matrix.row(i) + matrix.columns);
    }
    std::vector<double> out(matrix.columns);
    encode(from, out);
    EXPECT_EQ(out, Projected(numbers, from, matrix.columns));
    EXPECT_EQ(MatrixOf(matrix.rows, matrix.columns, encode), numbers);
  };
  const std::span<const T> values(trained.values);
  check([&](const auto& from, auto& out) { encoder.EncodeKey(from, out); }, raw,
        trained.encoder.KeyMatrix(values));
  check([&](const auto& from, auto& out) { encoder.EncodeQuery(from, out); }, raw,
        trained.encoder.QueryMatrix(values));
  check([&](const auto& from, auto& out) { encoder.EncodeValue(from, out); },
        {raw.begin(), raw.begin() + 4}, trained.encoder.ValueMatrix(values));
}

TEST(MemoryEncoder, EncodesInDoubleWhateverTheArtefactHas) {
  ExpectEncodesTo<float>(EncoderArtefact<float>(Options()));
  ExpectEncodesTo<double>(EncoderArtefact<double>(Options()));
}

TEST(MemoryEncoder, KeysHaveLengthOneWhereAsked) {
  EncoderOptions options = Options();
  options.unit_length = true;
  const auto encoder = MemoryEncoder::Read(EncoderArtefact(options)).value();
  const std::vector<double> raw = {3.0, -2.0, 0.5, 1.0, 8.0};
  for (const bool query : {false, true}) {
    std::vector<double> out(3);
    if (query) {
      encoder->EncodeQuery(raw, out);
    } else {
      encoder->EncodeKey(raw, out);
    }
    EXPECT_NEAR(out[0] * out[0] + out[1] * out[1] + out[2] * out[2], 1.0, 1e-12);
  }
}

TEST(MemoryEncoder, ValuesStayAsTheyAreWithoutAProjection) {
  EncoderOptions options = Options();
  options.projected_value = 0;
  const auto encoder = MemoryEncoder::Read(EncoderArtefact(options)).value();
  const std::vector<double> raw = {1e300, -0.25, 3.0, 0.0};
  std::vector<double> out(4);
  encoder->EncodeValue(raw, out);
  EXPECT_EQ(out, raw);
}

TEST(MemoryEncoder, KnowsItsKernel) {
  EncoderOptions options = Options();
  for (const auto kind :
       {batched::KernelKind::kRbf, batched::KernelKind::kLaplacian, batched::KernelKind::kExpDot}) {
    options.kernel = kind;
    options.width = 0.37;
    const auto encoder = MemoryEncoder::Read(EncoderArtefact<double>(options)).value();
    EXPECT_EQ(static_cast<int>(encoder->kernel().kind), static_cast<int>(kind));
    EXPECT_NEAR(encoder->kernel().parameter, 0.37, 1e-15);
  }
}

TEST(MemoryEncoder, RefusesWhatIsNone) {
  const auto message = [](const std::string& bytes) {
    const absl::Status status = MemoryEncoder::Read(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), testing::StartsWith("encoder: "));
    return std::string(status.message());
  };
  const std::string good = EncoderArtefact(Options());
  EXPECT_THAT(message(""), HasSubstr("kind"));
  EXPECT_THAT(message("a text"), HasSubstr("kind"));
  for (const std::string& whole : {good, EncoderArtefact<double>(Options())}) {
    for (const std::string& bytes : {whole + "x", whole.substr(0, whole.size() - 1)}) {
      EXPECT_THAT(message(bytes), testing::Not(HasSubstr("precision")));
    }
  }
  std::string not_finite = good;
  not_finite.replace(not_finite.size() - 4, 4, std::string("\0\0\xc0\x7f", 4));
  EXPECT_THAT(message(not_finite), HasSubstr("finite"));
}

}  // namespace
}  // namespace lethe::model
