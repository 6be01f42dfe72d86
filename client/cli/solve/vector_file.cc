#include "client/cli/solve/vector_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "client/cli/numbers.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace lethe::cli {
namespace {

using nlohmann::json;

constexpr uintmax_t kMaxFile = uintmax_t{256} << 20;

absl::Status Bad(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::StatusOr<double> ReadNumber(const json& value, absl::string_view field) {
  if (value.is_number()) {
    const double number = ToDouble(value);
    if (!std::isfinite(number)) return Bad(field, "not finite");
    return number;
  }
  if (!value.is_string()) return Bad(field, "must be a number or a number in a string");
  const absl::StatusOr<double> number = ParseHexOrDecimal(value.get_ref<const std::string&>());
  if (!number.ok()) return Bad(field, number.status().message());
  return *number;
}

// Rows of equal length; `width` 0 takes that of the first.
absl::StatusOr<std::vector<std::vector<double>>> ReadRows(const json& value,
                                                          absl::string_view field,
                                                          size_t width) {
  if (!value.is_array()) return Bad(field, "must be an array of arrays");
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string row_field = absl::StrCat(field, "[", i, "]");
    if (!value[i].is_array()) return Bad(row_field, "must be an array");
    if (width == 0) width = value[i].size();
    if (value[i].size() != width) {
      return Bad(row_field, absl::StrCat(value[i].size(), " numbers, not ", width));
    }
    if (width == 0) return Bad(row_field, "is empty");
    std::vector<double> row;
    for (size_t k = 0; k < width; ++k) {
      LETHE_ASSIGN_OR_RETURN(double number,
                             ReadNumber(value[i][k], absl::StrCat(row_field, "[", k, "]")));
      row.push_back(number);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<double> Flatten(const std::vector<std::vector<double>>& rows) {
  std::vector<double> flat;
  for (const std::vector<double>& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

absl::StatusOr<const json*> Member(const json& object, const char* name) {
  const auto place = object.find(name);
  if (place == object.end()) return Bad(name, "is missing");
  return &*place;
}

absl::StatusOr<kernel::Kernel> ReadKernel(const json& object) {
  LETHE_ASSIGN_OR_RETURN(const json* kind, Member(object, "kernel"));
  LETHE_ASSIGN_OR_RETURN(const json* parameters, Member(object, "params"));
  if (!parameters->is_object()) return Bad("params", "must be an object");
  kernel::Kernel kernel;
  const char* name = "gamma";
  if (*kind == "rbf") {
    kernel.kind = kernel::KernelKind::kRbf;
  } else if (*kind == "laplacian") {
    kernel.kind = kernel::KernelKind::kLaplacian;
  } else if (*kind == "exp_dot") {
    kernel.kind = kernel::KernelKind::kExpDot;
    name = "scale";
  } else {
    return Bad("kernel", "must be rbf, laplacian or exp_dot");
  }
  const std::string field = absl::StrCat("params.", name);
  if (!parameters->contains(name)) return Bad(field, "is missing");
  LETHE_ASSIGN_OR_RETURN(kernel.parameter, ReadNumber((*parameters)[name], field));
  return kernel;
}

absl::StatusOr<svdd::DuplicatesPolicy> ReadDuplicates(const json& object) {
  const auto policy = object.find("duplicates");
  if (policy == object.end() || *policy == "shared") return svdd::DuplicatesPolicy::kShared;
  if (*policy == "oldest_first") return svdd::DuplicatesPolicy::kOldestFirst;
  if (*policy == "newest_first") return svdd::DuplicatesPolicy::kNewestFirst;
  return Bad("duplicates", "must be shared, oldest_first or newest_first");
}

absl::Status ReadCase(const json& object, VectorCase& out) {
  LETHE_ASSIGN_OR_RETURN(const kernel::Kernel kernel, ReadKernel(object));
  LETHE_ASSIGN_OR_RETURN(const json* box, Member(object, "C"));
  LETHE_ASSIGN_OR_RETURN(const double box_value, ReadNumber(*box, "C"));
  const absl::StatusOr<svdd::Capacity> capacity = svdd::Capacity::FromBox(box_value);
  if (!capacity.ok()) return Bad("C", capacity.status().message());
  LETHE_ASSIGN_OR_RETURN(const svdd::DuplicatesPolicy duplicates, ReadDuplicates(object));
  LETHE_ASSIGN_OR_RETURN(const json* keys_json, Member(object, "keys"));
  LETHE_ASSIGN_OR_RETURN(const auto keys, ReadRows(*keys_json, "keys", 0));
  if (keys.empty()) return Bad("keys", "is empty");
  std::vector<std::vector<double>> values(keys.size(), {0.0});
  if (object.contains("values")) {
    LETHE_ASSIGN_OR_RETURN(values, ReadRows(object["values"], "values", 0));
    if (values.size() != keys.size()) {
      return Bad("values", absl::StrCat(values.size(), " rows, keys has ", keys.size()));
    }
    out.has_values = true;
  }
  if (object.contains("queries")) {
    LETHE_ASSIGN_OR_RETURN(out.queries,
                           ReadRows(object["queries"], "queries", keys.front().size()));
  }
  out.options = svdd::MemoryOptions{.kernel = kernel,
                                    .capacity = *capacity,
                                    .duplicates = duplicates,
                                    .key_dimension = static_cast<int>(keys.front().size()),
                                    .value_dimension = static_cast<int>(values.front().size())};
  LETHE_RETURN_IF_ERROR(svdd::Validate(*out.options));
  out.tokens = keys.size();
  out.keys = Flatten(keys);
  out.values = Flatten(values);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<VectorCase>> ParseVectorFile(absl::string_view text) {
  json file;
  try {
    file = json::parse(text.begin(), text.end());
  } catch (const json::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat("byte ", error.byte, ": not JSON"));
  } catch (const json::exception&) {
    return absl::InvalidArgumentError("a number is out of range");
  }
  if (!file.is_object() || !file.contains("cases") || !file["cases"].is_array()) {
    return absl::InvalidArgumentError("cases: must be an array in a JSON object");
  }
  std::vector<VectorCase> cases;
  for (size_t i = 0; i < file["cases"].size(); ++i) {
    const json& object = file["cases"][i];
    std::string place = absl::StrCat("cases[", i, "]");
    if (!object.is_object()) return Bad(place, "must be an object");
    VectorCase one;
    const auto name = object.find("name");
    if (name == object.end() || !name->is_string())
      return Bad(place + ": name", "must be a string");
    one.name = name->get<std::string>();
    absl::StrAppend(&place, " \"", one.name, "\"");
    if (const absl::Status status = ReadCase(object, one); !status.ok()) {
      return Bad(place, status.message());
    }
    cases.push_back(std::move(one));
  }
  return cases;
}

absl::StatusOr<std::vector<VectorCase>> ReadVectorFile(const std::string& path) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(error.message());
  if (size > kMaxFile) return absl::ResourceExhaustedError("is larger than 256 MiB");
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(std::strerror(errno));
  std::string text(static_cast<size_t>(size), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return ParseVectorFile(text);
}

}  // namespace lethe::cli
