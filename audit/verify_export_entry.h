// The checks of one certificate of an export that need no other certificate, and the tiles over all
// of them.
#ifndef LETHE_AUDIT_VERIFY_EXPORT_ENTRY_H_
#define LETHE_AUDIT_VERIFY_EXPORT_ENTRY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "audit/checkpoint.h"
#include "audit/hash.h"
#include "audit/merkle.h"
#include "audit/signer.h"
#include "audit/summary.h"
#include "audit/verify.h"
#include "audit/verify_export_input.h"

namespace lethe::audit {

// What the certificates of an export have in common.
struct ExportFacts {
  const ExportInput* input = nullptr;
  Checkpoint checkpoint;
  std::string note;                               // the checkpoint's bytes
  std::optional<VerificationKey> checkpoint_key;  // always set
  std::string origin;
};

// What was found about one certificate.
struct EntryCheck {
  absl::Status io;
  CertificateFiles files;
  CertificateResult certificate;
  // Of proof and bundle; looked at when the certificate is good.
  Finding proofs;
  std::string keyid;
  std::string summary_json;
  std::string summary_csv;

  // Requires a good certificate; refers to this object.
  SummaryEntry SummaryOf() const;
};

// Reads the files of certificate `sequence`. Threads: safe.
void ReadEntry(const ExportFacts& facts, uint64_t sequence, EntryCheck& check);
// Checks what was read. `leaf`: as the entries file has it, absent in a range. Threads: safe.
void CheckEntry(const ExportFacts& facts,
                uint64_t sequence,
                std::optional<absl::string_view> leaf,
                const VerificationKey& key,
                EntryCheck& check);

// The leaves of an entries file; tile-mismatch unless there are exactly `width` of them.
Finding SplitEntries(absl::string_view bytes,
                     const std::string& file,
                     int width,
                     std::vector<absl::string_view>& leaves);

// Grows the tree over all leaves and compares each tile with its file as soon as it is full.
class TileCheck {
 public:
  explicit TileCheck(const ExportInput& input) : input_(input) {}

  Finding Append(const Digest& leaf_hash);
  // The tiles at the right edge.
  Finding Finish();
  const CompactRange& range() const { return range_; }

 private:
  Finding Push(size_t level, const Digest& hash);
  Finding Compare(size_t level) const;

  struct Level {
    uint64_t index = 0;  // of the tile that is being filled
    std::string hashes;
  };
  const ExportInput& input_;
  CompactRange range_;
  std::vector<Level> levels_;
};

// Compares a file with the text that it must have, piece by piece.
class TextCheck {
 public:
  // `failure`: what a difference is called.
  TextCheck(const ExportInput& input, std::string file, Failure failure);

  Finding Expect(absl::string_view text);
  // Nothing may follow.
  Finding Finish();

 private:
  Finding Differs() const;

  std::string file_;
  Failure failure_;
  absl::Status io_;
  std::unique_ptr<ExportFile> stream_;
  std::string buffer_;
  size_t at_ = 0;
};

// Calls `work` for 0 to count - 1 from up to `threads` threads at once; returns when all is done.
void InParallel(size_t count, int threads, absl::FunctionRef<void(size_t)> work);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_EXPORT_ENTRY_H_
