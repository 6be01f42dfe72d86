#include "audit/tlog_proof.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr absl::string_view kHeader = "c2sp.org/tlog-proof@v1\n";

absl::Status Refuse(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("tlog-proof: ", problem));
}

}  // namespace

std::string TlogProof(uint64_t index,
                      std::span<const Digest> proof,
                      absl::string_view checkpoint_note) {
  LETHE_CHECK(index <= kMaxLogSize && proof.size() <= kMaxProofHashes);
  std::string text = absl::StrCat(kHeader, "index ", index, "\n");
  for (const Digest& hash : proof) absl::StrAppend(&text, Base64(hash), "\n");
  absl::StrAppend(&text, "\n", checkpoint_note);
  return text;
}

absl::StatusOr<ParsedTlogProof> ParseTlogProof(absl::string_view text) {
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, kHeader)) return Refuse("another first line");
  const auto next_line = [&]() -> absl::StatusOr<absl::string_view> {
    const size_t end = rest.find('\n');
    if (end == absl::string_view::npos) return Refuse("ends before the checkpoint");
    const absl::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return line;
  };
  ParsedTlogProof parsed;
  LETHE_ASSIGN_OR_RETURN(absl::string_view index, next_line());
  if (!absl::ConsumePrefix(&index, "index ") || !absl::SimpleAtoi(index, &parsed.index) ||
      absl::StrCat(parsed.index) != index || parsed.index > kMaxLogSize) {
    return Refuse("the second line is not index and a decimal without leading zeros");
  }
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const absl::string_view line, next_line());
    if (line.empty()) break;
    if (parsed.proof.size() == kMaxProofHashes) return Refuse("too many hashes");
    const absl::StatusOr<Digest> hash = DecodeBase64Digest(line);
    if (!hash.ok()) return Refuse("a hash is not the base64 of 32 bytes");
    parsed.proof.push_back(*hash);
  }
  if (rest.empty()) return Refuse("ends before the checkpoint");
  parsed.checkpoint_note = std::string(rest);
  return parsed;
}

}  // namespace lethe::audit
