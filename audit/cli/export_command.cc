#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/cli/commands.h"
#include "audit/cli/input.h"
#include "audit/cli/output.h"
#include "audit/encoding.h"
#include "audit/report.h"
#include "audit/verify_export.h"
#include "audit/verify_proof.h"

namespace lethe::audit::cli {
namespace {

constexpr size_t kMaxConsistencyProof = size_t{64} << 10;

// "missing-file at certificate 7, in certificates/000/000007.tlog-proof"
std::string Where(const Finding& finding) {
  return absl::StrCat(
      std::string(Name(finding.failure)),
      finding.sequence.has_value() ? absl::StrCat(" at certificate ", *finding.sequence) : "",
      finding.file.empty() ? "" : "\n  in " + finding.file);
}

Json ReportJson(const ExportResult& result) {
  const Finding& finding = result.finding;
  Json json = Json::MakeObject();
  json.Set("certificates", Json::Integer(result.verified));
  json.Set("failure", Json::String(Name(finding.failure)));
  json.Set("first", Json::Integer(result.first));
  json.Set("message", Json::String(finding.message));
  json.Set("whole", Json::Bool(result.whole));
  if (!finding.file.empty()) json.Set("file", Json::String(finding.file));
  if (finding.sequence.has_value()) json.Set("sequence", Json::Integer(*finding.sequence));
  if (!result.checkpoint.origin.empty()) {
    json.Set("checkpoint", CheckpointJson(result.checkpoint));
    json.Set("cosignatures", CosignaturesJson(result.cosignatures));
  }
  Json keys = Json::MakeArray();
  for (const ChainVerifier::KeyPeriod& period : result.keys) {
    Json key = Json::MakeObject();
    key.Set("firstSequence", Json::Integer(period.first_sequence));
    key.Set("key", Json::String(period.key.vkey()));
    keys.Append(std::move(key));
  }
  json.Set("keys", std::move(keys));
  if (result.verified > 0) json.Set("lastLeafHash", Json::String(Hex(result.last_leaf_hash)));
  json.Set("erasures", Json::Integer(result.erasures));
  if (result.keys_pending.has_value()) {
    json.Set("keysPending", Json::Integer(*result.keys_pending));
  }
  if (result.first_pending.has_value()) {
    json.Set("firstPending", Json::Integer(*result.first_pending));
  }
  if (result.receipt_sequence.has_value()) {
    json.Set("receiptSequence", Json::Integer(*result.receipt_sequence));
  }
  return json;
}

// How many certificates erased tokens, and what the log says of their keys.
std::string DescribeErasures(const ExportResult& result) {
  if (!result.keys_pending.has_value()) {
    return Field("erasures",
                 absl::StrCat(result.erasures, "; the range ends too early to tell of their keys"));
  }
  std::string out =
      Field("erasures", absl::StrCat(result.erasures, ", the keys of ",
                                     result.erasures - *result.keys_pending, " destroyed"));
  if (result.first_pending.has_value()) {
    out += Field("pending", absl::StrCat("the keys of ", *result.keys_pending,
                                         ", the first of certificate ", *result.first_pending));
  }
  return out;
}

int Report(const Options& options, const ExportResult& result, absl::string_view headline) {
  const Finding& finding = result.finding;
  if (!finding.io.ok()) return ReadFailure(finding.io);
  if (options.json()) {
    PrintJson(ReportJson(result));
    return ExitCode(finding.failure);
  }
  if (!result.ok()) {
    Print(DescribeFailure(Where(finding), finding.message));
    return ExitCode(finding.failure);
  }
  Print(absl::StrCat("VERIFIED  ", headline, "\n"));
  if (options.quiet) return kVerified;
  Print(DescribeCheckpoint(result.checkpoint, result.cosignatures));
  Print(Field("last leaf", Hex(result.last_leaf_hash)));
  for (const ChainVerifier::KeyPeriod& period : result.keys) {
    Print(Field("key", absl::StrCat(Hex(period.key.key_id()), " from certificate ",
                                    period.first_sequence, " on")));
  }
  Print(DescribeErasures(result));
  if (result.receipt_sequence.has_value()) {
    Print(Field("receipt", absl::StrCat("opens certificate ", *result.receipt_sequence)));
  }
  if (options.skip_report) {
    Print("  note        report.html was not checked: do not rely on it.\n");
  }
  if (!result.whole) {
    Print(
        "  note        A range: nothing is said about the other certificates of the\n"
        "              log, but that the checkpoint counts them.\n");
  }
  return kVerified;
}

ExportExpectations ExpectationsOf(const Options& options, const Pins& pins) {
  ExportExpectations expected;
  expected.keys = pins.keys;
  expected.origin = pins.origin;
  expected.policy = pins.policy;
  expected.receipt = pins.receipt;
  expected.first = options.first;
  expected.last = options.last;
  expected.threads = options.threads;
  expected.skip_report = options.skip_report;
  return expected;
}

// Whether a path names an export; else it is a checkpoint.
bool IsExport(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) ||
         std::filesystem::path(path).extension() == ".tar";
}

// The bytes of the checkpoint that a path names, in an export or by itself.
Finding ReadNote(const std::string& path, std::string& note) {
  Finding finding;
  absl::StatusOr<std::string> bytes;
  if (IsExport(path)) {
    absl::StatusOr<std::unique_ptr<ExportInput>> input = ExportInput::Open(path);
    finding.io = input.status();
    if (!input.ok()) return finding;
    finding = (*input)->Scan();
    if (!finding.ok()) return finding;
    if ((*input)->listing().files.count("checkpoint") == 0) {
      finding.failure = Failure::kMissingFile;
      finding.file = "checkpoint";
      finding.message = "The file is missing.";
      return finding;
    }
    bytes = (*input)->Read("checkpoint", kMaxNoteBytes);
  } else {
    bytes = ReadFile(path, kMaxNoteBytes);
  }
  if (absl::IsResourceExhausted(bytes.status())) {
    finding.failure = Failure::kMalformedCheckpoint;
    finding.message = absl::StrCat(path, " is longer than a checkpoint can be.");
  } else {
    finding.io = bytes.status();
    if (bytes.ok()) note = *std::move(bytes);
  }
  return finding;
}

ExportResult Failed(Finding finding) {
  ExportResult result;
  result.finding = std::move(finding);
  return result;
}

ExportResult FromProof(const ProofResult& proof, absl::string_view about) {
  ExportResult result;
  result.finding.failure = proof.failure;
  result.finding.message = proof.ok() ? proof.message : absl::StrCat(about, proof.message);
  result.checkpoint = proof.checkpoint;
  result.cosignatures = proof.cosignatures;
  return result;
}

int ReportCheckpoint(const Options& options,
                     const ExportResult& result,
                     absl::string_view headline) {
  if (!result.finding.io.ok()) return ReadFailure(result.finding.io);
  const Finding& finding = result.finding;
  if (options.json()) {
    Json json = Json::MakeObject();
    json.Set("failure", Json::String(Name(finding.failure)));
    json.Set("message", Json::String(finding.message));
    if (result.ok()) {
      json.Set("checkpoint", CheckpointJson(result.checkpoint));
      json.Set("cosignatures", CosignaturesJson(result.cosignatures));
    }
    PrintJson(json);
  } else if (!result.ok()) {
    Print(DescribeFailure(Where(finding), finding.message));
  } else {
    Print(absl::StrCat("VERIFIED  ", headline, "\n"));
    if (!options.quiet) Print(DescribeCheckpoint(result.checkpoint, result.cosignatures));
  }
  return ExitCode(finding.failure);
}

ExportResult CheckNote(const std::string& path,
                       const Pins& pins,
                       absl::string_view about,
                       size_t* key) {
  std::string bytes;
  Finding read = ReadNote(path, bytes);
  if (!read.ok()) return Failed(std::move(read));
  const ProofResult checked = VerifySignedCheckpoint(bytes, pins.keys, pins.policy_or_null());
  ExportResult result = FromProof(checked, about);
  if (result.ok() && pins.origin.has_value() && result.checkpoint.origin != *pins.origin) {
    result.finding.failure = Failure::kOriginMismatch;
    result.finding.message = absl::StrCat(about, "The checkpoint is that of another log.");
  }
  if (key != nullptr) *key = checked.key;
  return result;
}

}  // namespace

int RunExport(const Options& options, const Pins& pins) {
  const ExportResult result = VerifyExport(options.path, ExpectationsOf(options, pins));
  const std::string headline =
      result.whole
          ? absl::StrCat(result.verified, " certificates, the whole log")
          : absl::StrCat("certificates ", result.first, " to ", result.first + result.verified - 1,
                         " of ", result.checkpoint.size);
  return Report(options, result, headline);
}

int RunCheckpoint(const Options& options, const Pins& pins) {
  return ReportCheckpoint(options, CheckNote(options.path, pins, "", nullptr), "checkpoint");
}

int RunConsistency(const Options& options, const Pins& pins) {
  if (IsExport(options.other) && options.proof.empty()) {
    std::string older;
    if (Finding read = ReadNote(options.path, older); !read.ok()) {
      return Report(options, Failed(std::move(read)), "");
    }
    ExportExpectations expected = ExpectationsOf(options, pins);
    expected.earlier = std::move(older);
    const ExportResult result = VerifyExport(options.other, expected);
    return Report(options, result,
                  absl::StrCat(result.verified, " certificates, which extend the older log"));
  }
  Pins older_pins = pins;
  older_pins.policy.reset();  // it is about the newer one
  size_t older_key = 0;
  size_t newer_key = 0;
  const ExportResult older = CheckNote(options.path, older_pins, "The older one: ", &older_key);
  if (!older.ok()) return ReportCheckpoint(options, older, "");
  ExportResult newer = CheckNote(options.other, pins, "The newer one: ", &newer_key);
  if (!newer.ok()) return ReportCheckpoint(options, newer, "");
  std::optional<std::string> proof;
  if (!options.proof.empty()) {
    absl::StatusOr<std::string> bytes = ReadFile(options.proof, kMaxConsistencyProof);
    if (!bytes.ok()) return ReadFailure(bytes.status());
    proof = *std::move(bytes);
  } else if (older.checkpoint.size > 0 && older.checkpoint.size < newer.checkpoint.size) {
    return Complain(absl::InvalidArgumentError(
                        "two checkpoints of different sizes need --proof, or the newer export"),
                    kUsage);
  }
  std::optional<absl::string_view> hashes;
  if (proof.has_value()) hashes = *proof;
  const ProofResult extension =
      VerifyExtension(older.checkpoint, older_key, newer.checkpoint, newer_key, hashes);
  newer.finding.failure = extension.failure;
  newer.finding.message = extension.message;
  return ReportCheckpoint(options, newer, "the newer checkpoint extends the older one");
}

}  // namespace lethe::audit::cli
