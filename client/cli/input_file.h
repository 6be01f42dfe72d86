// --file PATH|- with its format options, shared by insert, edit and query.
#ifndef LETHE_CLIENT_CLI_INPUT_FILE_H_
#define LETHE_CLIENT_CLI_INPUT_FILE_H_

#include <fstream>
#include <memory>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "client/cli/context.h"
#include "client/cli/token_source.h"

namespace lethe::cli {

struct InputFileOptions {
  std::string path;  // "-" for standard input
  std::string format;
  std::string delimiter;
  std::string id_columns;  // lists of column names, separated by commas
  std::string key_columns;
  std::string value_columns;
  std::string subject_column;
  std::string label_columns;
};

// `for_tokens`: also the columns besides the key.
CLI::Option* AddInputFileOptions(CLI::App& verb, InputFileOptions& options, bool for_tokens);

class InputFile {
 public:
  // INVALID_ARGUMENT for wrong options, NOT_FOUND or DATA_LOSS (with the path) for a bad file.
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(Context& context,
                                                         const InputFileOptions& options);

  TokenSource& source() { return *source_; }
  uint64_t size() const { return size_; }  // in bytes; 0 when unknown
  // How messages call it: the path, or "standard input".
  const std::string& name() const { return name_; }

 private:
  InputFile() = default;

  std::ifstream file_;
  std::string name_;
  uint64_t size_ = 0;
  std::unique_ptr<TokenSource> source_;
};

// Reports a status of InputFile::Open with the exit status that fits.
int ReportOpenError(Context& context, const absl::Status& status);

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_INPUT_FILE_H_
