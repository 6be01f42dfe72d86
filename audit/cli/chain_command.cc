#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "audit/certificate.h"
#include "audit/cli/commands.h"
#include "audit/cli/input.h"
#include "audit/cli/output.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/json_reader.h"
#include "audit/report.h"
#include "audit/verify.h"
#include "core/base/status_macros.h"

namespace lethe::audit::cli {
namespace {

struct OwnedEntry {
  std::string envelope;
  std::string leaf;
  uint64_t sequence = 0;  // as the input says
};

// A line holds envelope and leaf in base64.
constexpr size_t kMaxLineBytes = 2 * kMaxEnvelopeBytes;
constexpr size_t kMaxNumberDigits = 16;
// What `lethe certificate export` writes into its folder.
constexpr char kChainFile[] = "chain.jsonl";

struct CloseFile {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

absl::Status Unreadable(const std::string& path, int number) {
  return absl::UnavailableError(
      absl::StrCat("cannot read ", path, ": ", std::generic_category().message(number)));
}

absl::StatusOr<File> Open(const std::string& path) {
  File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return Unreadable(path, errno);
  return file;
}

absl::StatusOr<OwnedEntry> ParseLine(absl::string_view line) {
  JsonLimits limits;
  limits.max_bytes = kMaxLineBytes;
  limits.max_depth = 2;
  LETHE_ASSIGN_OR_RETURN(const Json json, ParseJson(line, JsonForm::kAnyForm, limits));
  JsonReader reader(json, "");
  OwnedEntry entry;
  entry.sequence = reader.Integer("sequence");
  entry.envelope = reader.Base64Bytes("envelope");
  entry.leaf = reader.Base64Bytes("leaf");
  LETHE_RETURN_IF_ERROR(reader.Finish());
  return entry;
}

absl::Status ReadLines(const std::string& path,
                       const std::function<bool(const OwnedEntry&)>& consume) {
  LETHE_ASSIGN_OR_RETURN(const File file, Open(path));
  std::string line;
  uint64_t number = 0;
  while (true) {
    line.clear();
    int c = 0;
    while ((c = std::getc(file.get())) != EOF && c != '\n' && line.size() <= kMaxLineBytes) {
      line.push_back(static_cast<char>(c));
    }
    if (std::ferror(file.get()) != 0) return Unreadable(path, errno);
    if (c == EOF && line.empty()) return absl::OkStatus();
    ++number;
    if (line.size() > kMaxLineBytes) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": longer than allowed"));
    }
    const absl::StatusOr<OwnedEntry> entry = ParseLine(line);
    if (!entry.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", entry.status().message()));
    }
    if (!consume(*entry)) return absl::OkStatus();
  }
}

// "00012.leaf.json" -> 12; nothing for a name of another form.
bool ParseName(absl::string_view name, absl::string_view suffix, uint64_t& number) {
  return absl::ConsumeSuffix(&name, suffix) && !name.empty() && name.size() <= kMaxNumberDigits &&
         name.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(name, &number);
}

absl::Status ReadFolder(const std::string& path,
                        const std::function<bool(const OwnedEntry&)>& consume) {
  std::map<uint64_t, std::string> envelopes;
  std::map<uint64_t, std::string> leaves;
  std::error_code error;
  for (std::filesystem::directory_iterator item(path, error), end; !error && item != end;
       item.increment(error)) {
    const std::string name = item->path().filename().string();
    uint64_t number = 0;
    const bool is_envelope = ParseName(name, ".envelope.json", number);
    if (!is_envelope && !ParseName(name, ".leaf.json", number)) continue;
    if (!(is_envelope ? envelopes : leaves).emplace(number, item->path().string()).second) {
      return absl::InvalidArgumentError(absl::StrCat("two files for sequence ", number));
    }
  }
  if (error)
    return absl::UnavailableError(absl::StrCat("cannot read ", path, ": ", error.message()));
  if (envelopes.empty() && leaves.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": a folder with neither ", kChainFile,
                                                   " nor N.envelope.json and N.leaf.json"));
  }
  for (const auto& [number, leaf] : leaves) {
    if (envelopes.find(number) == envelopes.end()) {
      return absl::InvalidArgumentError(absl::StrCat("sequence ", number, ": no envelope"));
    }
  }
  for (const auto& [number, envelope] : envelopes) {
    const auto leaf = leaves.find(number);
    if (leaf == leaves.end()) {
      return absl::InvalidArgumentError(absl::StrCat("sequence ", number, ": no leaf"));
    }
    OwnedEntry entry;
    entry.sequence = number;
    LETHE_ASSIGN_OR_RETURN(entry.envelope, ReadFile(envelope, kMaxEnvelopeBytes));
    LETHE_ASSIGN_OR_RETURN(entry.leaf, ReadFile(leaf->second, kMaxLeafBytes));
    if (!consume(entry)) break;
  }
  return absl::OkStatus();
}

absl::Status ReadChain(const std::string& path,
                       const std::function<bool(const OwnedEntry&)>& consume) {
  std::error_code error;
  if (path == "-" || !std::filesystem::is_directory(path, error)) return ReadLines(path, consume);
  const std::string chain = absl::StrCat(path, "/", kChainFile);
  // Whatever it is: one that cannot be read must not give way to other files beside it.
  return std::filesystem::exists(std::filesystem::symlink_status(chain, error))
             ? ReadLines(chain, consume)
             : ReadFolder(path, consume);
}

}  // namespace

int RunChain(const Options& options, const Pins& pins) {
  ChainExpectations expectations;
  if (!options.origin.empty()) expectations.origin = options.origin;
  expectations.size = options.count;
  if (!options.head.empty()) {
    const absl::StatusOr<Digest> head = DecodeDigest(options.head);
    if (!head.ok())
      return Complain(absl::InvalidArgumentError("--head: not 64 hex digits"), kUsage);
    expectations.last_leaf_hash = *head;
  }
  const bool anchored = options.count.has_value() || !options.head.empty();

  ChainVerifier verifier(pins.keys.front(), std::move(expectations));
  const absl::Status read = ReadChain(options.path, [&](const OwnedEntry& entry) {
    const CertificateResult result = verifier.Add({entry.envelope, entry.leaf, entry.sequence});
    if (result.ok() && !options.json() && !options.quiet) {
      Print(absl::StrCat("  ok  ", DescribeInOneLine(*result.body), "\n"));
    }
    return result.ok();
  });
  if (!read.ok()) return ReadFailure(read);
  const ChainResult result = verifier.Finish();
  if (options.json()) {
    PrintJson(ReportJson(result));
    return ExitCode(result.failure);
  }
  if (!result.ok()) {
    Print(DescribeFailure(FailureWords(result), result.message));
    return ExitCode(result.failure);
  }
  Print(absl::StrCat("VERIFIED  ", result.verified, " certificates, from the first on\n",
                     "  log         ", pins.keys.front().name(), "\n", "  last leaf   ",
                     Hex(result.last_leaf_hash), "\n", "  tree root   ", Hex(result.root), "\n"));
  if (!anchored) {
    Print(
        "  note        Without --count or --head nothing here shows whether later\n"
        "              certificates were left out.\n");
  }
  return kVerified;
}

}  // namespace lethe::audit::cli
