// The names that an export may hold. Threads: safe.
#ifndef LETHE_AUDIT_VERIFY_EXPORT_NAMES_H_
#define LETHE_AUDIT_VERIFY_EXPORT_NAMES_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "audit/verify_export_input.h"

namespace lethe::audit {

enum class NameKind : uint8_t {
  kFolder,       // one that may stand above a file
  kCertificate,  // one of the three files of a certificate
  kOther,        // checkpoint, keys, tiles, summaries, report
  kUnexpected,
  kHostile,  // absolute, with ".", ".." or empty parts, or with characters outside 21 to 7E
};

struct ParsedName {
  NameKind kind = NameKind::kUnexpected;
  // Of a certificate.
  uint64_t sequence = 0;
  int part = 0;  // 0 envelope, 1 tlog-proof, 2 sigstore
};

// `path` without a "/" at its end. Each name has one spelling: "certificates/0/0.envelope.json" is
// unexpected.
ParsedName ParseExportName(absl::string_view path);

// Takes the names of certificate files in ascending order and insists that they are dense.
class CertificateOrder {
 public:
  // False when this file is not the next one; `finding` then says what is missing.
  bool Add(const ParsedName& name, Finding& finding);
  // After the last one.
  bool Finish(Finding& finding) const;

  // Whether no certificate is waiting for the rest of its files.
  bool complete() const { return part_ == 0; }
  uint64_t first() const { return first_; }
  uint64_t count() const { return count_; }

 private:
  uint64_t first_ = 0;
  uint64_t count_ = 0;  // certificates with all their files
  int part_ = 0;        // files of the next one that have been seen
};

// More files beside those of so many certificates than an export of them can have: the tiles are
// fewer than one for 64, and a log whose tail was cut off is to be told as that.
inline uint64_t MaxOtherFiles(uint64_t certificates) { return 1024 + certificates / 64; }

Finding NameFinding(Failure failure, absl::string_view file, absl::string_view message);

// How a name from the outside is shown: bytes outside 20 to 7E as '?', cut after 120.
std::string ShownName(absl::string_view name);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_EXPORT_NAMES_H_
