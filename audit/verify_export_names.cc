#include "audit/verify_export_names.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "audit/tiles.h"

namespace lethe::audit {
namespace {

constexpr std::array<absl::string_view, 3> kSuffixes = {kEnvelopeSuffix, kTlogProofSuffix,
                                                        kSigstoreSuffix};
constexpr std::array<absl::string_view, 5> kSingleFiles = {"checkpoint", "keys.txt", "report.html",
                                                           "summary.csv", "summary.jsonl"};
constexpr size_t kMaxDigits = 18;
constexpr size_t kMaxTileParts = 9;  // "tile", a level, 18 digits by threes, a width
constexpr size_t kMaxShown = 120;

bool Digits(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxDigits &&
         text.find_first_not_of("0123456789") == absl::string_view::npos;
}

// The three digits of a part of a tile's index; all but the last carry an "x".
bool TilePart(absl::string_view part, bool last) {
  if (!last && !absl::ConsumePrefix(&part, "x")) return false;
  return part.size() == 3 && Digits(part);
}

// "0/x001/067", "entries/000.p/12": whether tlog-tiles may spell a name so. Which of them an export
// must have follows from its size.
NameKind TileName(const std::vector<absl::string_view>& parts) {
  if (parts.size() == 1) return NameKind::kFolder;  // "tile"
  const absl::string_view level = parts[1];
  int number = 0;
  if (level != "entries" &&
      (!Digits(level) || level.size() > 2 || !absl::SimpleAtoi(level, &number) ||
       absl::StrCat(number) != level || number > 7)) {
    return NameKind::kUnexpected;
  }
  if (parts.size() == 2) return NameKind::kFolder;
  if (parts.size() > kMaxTileParts) return NameKind::kUnexpected;
  for (size_t i = 2; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    absl::string_view part = parts[i];
    if (TilePart(part, /*last=*/false)) {
      if (last) return NameKind::kFolder;
      continue;
    }
    if (absl::ConsumeSuffix(&part, ".p")) {
      if (!TilePart(part, /*last=*/true)) return NameKind::kUnexpected;
      if (last) return NameKind::kFolder;
      int width = 0;
      if (i + 2 != parts.size() || !absl::SimpleAtoi(parts[i + 1], &width) || width < 1 ||
          width >= kTileWidth || absl::StrCat(width) != parts[i + 1]) {
        return NameKind::kUnexpected;
      }
      return NameKind::kOther;
    }
    return last && TilePart(part, /*last=*/true) ? NameKind::kOther : NameKind::kUnexpected;
  }
  return NameKind::kUnexpected;
}

ParsedName CertificateName(absl::string_view path, const std::vector<absl::string_view>& parts) {
  ParsedName name;
  if (parts.size() == 1) {
    name.kind = NameKind::kFolder;
    return name;
  }
  uint64_t thousand = 0;
  if (parts.size() > 3 || !Digits(parts[1]) || !absl::SimpleAtoi(parts[1], &thousand) ||
      absl::StrFormat("%03d", thousand) != parts[1]) {
    return name;
  }
  if (parts.size() == 2) {
    name.kind = NameKind::kFolder;
    return name;
  }
  for (size_t i = 0; i < kSuffixes.size(); ++i) {
    absl::string_view digits = parts[2];
    if (!absl::ConsumeSuffix(&digits, kSuffixes[i]) || !Digits(digits) ||
        !absl::SimpleAtoi(digits, &name.sequence) ||
        CertificatePath(name.sequence, kSuffixes[i]) != path) {
      continue;
    }
    name.kind = NameKind::kCertificate;
    name.part = static_cast<int>(i);
    break;
  }
  return name;
}

}  // namespace

std::string CertificatePath(uint64_t sequence, absl::string_view suffix) {
  return absl::StrFormat("certificates/%03d/%06d%s", sequence / 1000, sequence, suffix);
}

std::string ShownName(absl::string_view name) {
  std::string shown(name.substr(0, kMaxShown));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return shown;
}

Finding NameFinding(Failure failure, absl::string_view file, absl::string_view message) {
  Finding finding;
  finding.failure = failure;
  finding.file = ShownName(file);
  finding.message = std::string(message);
  return finding;
}

ParsedName ParseExportName(absl::string_view path) {
  ParsedName name;
  name.kind = NameKind::kHostile;
  const std::vector<absl::string_view> parts = absl::StrSplit(path, '/');
  for (const absl::string_view part : parts) {
    if (part.empty() || part == "." || part == "..") return name;
  }
  for (const char c : path) {
    if (c <= 0x20 || c >= 0x7F) return name;
  }
  name.kind = NameKind::kUnexpected;
  if (parts[0] == "certificates") return CertificateName(path, parts);
  if (parts[0] == "tile") {
    name.kind = TileName(parts);
  } else if (std::find(kSingleFiles.begin(), kSingleFiles.end(), path) != kSingleFiles.end()) {
    name.kind = NameKind::kOther;
  }
  return name;
}

bool CertificateOrder::Add(const ParsedName& name, Finding& finding) {
  if (count_ == 0 && part_ == 0) first_ = name.sequence;
  const uint64_t next = first_ + count_;
  if (name.sequence == next && name.part == part_) {
    part_ = (part_ + 1) % static_cast<int>(kSuffixes.size());
    if (part_ == 0) ++count_;
    return true;
  }
  if (name.sequence < next || (name.sequence == next && name.part < part_)) {
    finding = NameFinding(Failure::kMalformedArchive,
                          CertificatePath(name.sequence, kSuffixes[static_cast<size_t>(name.part)]),
                          "The file is there twice or out of order.");
    return false;
  }
  // Something before this file is not there: all of a certificate, or a part of one.
  if (part_ == 0 && name.sequence > next) {
    finding = NameFinding(
        Failure::kSequenceGap, CertificatePath(next, kEnvelopeSuffix),
        absl::StrCat("Certificate ", next, " is not there, and ", name.sequence, " is."));
  } else {
    finding = NameFinding(Failure::kMissingFile,
                          CertificatePath(next, kSuffixes[static_cast<size_t>(part_)]),
                          "The file is missing.");
  }
  finding.sequence = next;
  return false;
}

bool CertificateOrder::Finish(Finding& finding) const {
  if (part_ == 0) return true;
  const uint64_t next = first_ + count_;
  finding = NameFinding(Failure::kMissingFile,
                        CertificatePath(next, kSuffixes[static_cast<size_t>(part_)]),
                        "The file is missing.");
  finding.sequence = next;
  return false;
}

}  // namespace lethe::audit
