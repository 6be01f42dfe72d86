// The files of an export, read from a folder or from a .tar, without trust in either.
//
// Accepted are regular files at the places that docs/certificate_format.md names and the folders
// above them; links, devices, other names, absolute paths, "..", a file twice, and in a .tar
// anything but the headers that the format fixes are refused. Memory: the names of the files that
// are no certificates, and 8 bytes a certificate of a .tar.
#ifndef LETHE_AUDIT_VERIFY_EXPORT_INPUT_H_
#define LETHE_AUDIT_VERIFY_EXPORT_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/verify.h"

namespace lethe::audit {

// Nothing wrong, or the one thing that is.
struct Finding {
  // Not OK: the input cannot be read, and nothing is said about it.
  absl::Status io;
  Failure failure = Failure::kNone;
  std::string message;  // one English sentence
  std::string file;     // path inside the export; empty when it is about the whole
  std::optional<uint64_t> sequence;

  bool ok() const { return io.ok() && failure == Failure::kNone; }
};

// What an export has, as far as names go.
struct ExportListing {
  std::set<std::string> files;  // all but those of the certificates
  // The certificates: dense from `first_certificate` on, three files each.
  uint64_t first_certificate = 0;
  uint64_t certificates = 0;
};

struct CertificateFiles {
  std::string envelope;
  std::string tlog_proof;
  std::string sigstore_bundle;
  size_t failed_part = 0;  // when reading fails: 0 the envelope, 1 the proof, 2 the bundle

  size_t Bytes() const { return envelope.size() + tlog_proof.size() + sigstore_bundle.size(); }
};

// "certificates/000/000007" and one of the suffixes below.
std::string CertificatePath(uint64_t sequence, absl::string_view suffix);
inline constexpr absl::string_view kEnvelopeSuffix = ".envelope.json";
inline constexpr absl::string_view kTlogProofSuffix = ".tlog-proof";
inline constexpr absl::string_view kSigstoreSuffix = ".sigstore.json";

// A file read from its start to its end.
class ExportFile {
 public:
  virtual ~ExportFile() = default;
  // At most `size` bytes; fewer only at the end.
  virtual absl::StatusOr<size_t> Read(char* buffer, size_t size) = 0;
};

class ExportInput {
 public:
  virtual ~ExportInput() = default;

  // A folder or a .tar. UNAVAILABLE when it cannot be opened.
  static absl::StatusOr<std::unique_ptr<ExportInput>> Open(const std::string& path);

  // Looks at all names; must come first and find nothing wrong. Failures: malformed-archive,
  // unexpected-file, missing-file, sequence-gap, in the order of the names.
  virtual Finding Scan() = 0;
  const ExportListing& listing() const { return listing_; }

  // The rest requires names of the listing. UNAVAILABLE when reading fails, RESOURCE_EXHAUSTED for
  // a file that is longer than `limit`. Threads: safe.
  virtual absl::StatusOr<std::string> Read(const std::string& file, size_t limit) const = 0;
  virtual absl::StatusOr<std::unique_ptr<ExportFile>> OpenFile(const std::string& file) const = 0;
  virtual absl::Status ReadCertificate(uint64_t sequence, CertificateFiles& files) const = 0;

 protected:
  ExportListing listing_;
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_EXPORT_INPUT_H_
