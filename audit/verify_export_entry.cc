#include "audit/verify_export_entry.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/sigstore_bundle.h"
#include "audit/tiles.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "audit/verify_export_names.h"

namespace lethe::audit {
namespace {

constexpr size_t kHashBytes = 32;
constexpr size_t kPieceBytes = size_t{1} << 16;

Finding EntryFinding(Failure failure,
                     uint64_t sequence,
                     absl::string_view suffix,
                     absl::string_view message) {
  Finding finding = NameFinding(failure, CertificatePath(sequence, suffix), message);
  finding.sequence = sequence;
  return finding;
}

// In a range there are no entries: the leaf is what envelope and key make.
std::string RecomputedLeaf(absl::string_view envelope, const VerificationKey& key) {
  const absl::StatusOr<Envelope> parsed = ParseEnvelope(envelope);
  return parsed.ok() ? LeafBytes(parsed->payload, parsed->signature, key) : std::string();
}

Finding CheckProofs(const ExportFacts& facts,
                    uint64_t sequence,
                    absl::string_view leaf,
                    const EntryCheck& check) {
  const Checkpoint& checkpoint = facts.checkpoint;
  const absl::StatusOr<ParsedTlogProof> parsed = ParseTlogProof(check.files.tlog_proof);
  if (!parsed.ok()) {
    return EntryFinding(Failure::kMalformedProof, sequence, kTlogProofSuffix,
                        absl::StrCat("The proof is malformed: ", parsed.status().message(), "."));
  }
  const auto mismatch = [&](absl::string_view message) {
    return EntryFinding(Failure::kProofMismatch, sequence, kTlogProofSuffix, message);
  };
  if (parsed->index != sequence) return mismatch("The proof is that of another index.");
  if (parsed->checkpoint_note != facts.note) {
    return mismatch("The proof has another checkpoint than the export.");
  }
  if (const absl::Status proven = VerifyInclusion(
          sequence, checkpoint.size, check.certificate.leaf_hash, parsed->proof, checkpoint.root);
      !proven.ok()) {
    return mismatch("The proof does not lead from this certificate to the checkpoint's root.");
  }
  const absl::Status bundle =
      CheckSigstoreBundle(check.files.sigstore_bundle,
                          {check.files.envelope, leaf, sequence, checkpoint.size, checkpoint.root,
                           parsed->proof, facts.note, *facts.checkpoint_key});
  if (bundle.ok()) return {};
  return EntryFinding(
      absl::IsInvalidArgument(bundle) ? Failure::kMalformedBundle : Failure::kBundleMismatch,
      sequence, kSigstoreSuffix,
      absl::StrCat("The bundle is not this certificate's: ", bundle.message(), "."));
}

}  // namespace

SummaryEntry EntryCheck::SummaryOf() const {
  return {.body = *certificate.body,
          .id = certificate.id,
          .keyid = keyid,
          .leaf_hash = certificate.leaf_hash};
}

void ReadEntry(const ExportFacts& facts, uint64_t sequence, EntryCheck& check) {
  check.io = facts.input->ReadCertificate(sequence, check.files);
}

void CheckEntry(const ExportFacts& facts,
                uint64_t sequence,
                std::optional<absl::string_view> leaf,
                const VerificationKey& key,
                EntryCheck& check) {
  if (!check.io.ok()) return;
  check.certificate = VerifyCertificate(check.files.envelope, leaf, key, facts.origin);
  if (!check.certificate.ok() || check.certificate.body->sequence != sequence) return;
  const std::string own = leaf.has_value() ? "" : RecomputedLeaf(check.files.envelope, key);
  check.proofs = CheckProofs(facts, sequence, leaf.value_or(own), check);
  check.keyid = key.short_name();
  const SummaryEntry summary = check.SummaryOf();
  check.summary_json = SummaryJsonLine(summary);
  check.summary_csv = SummaryCsvLine(summary);
}

Finding SplitEntries(absl::string_view bytes,
                     const std::string& file,
                     int width,
                     std::vector<absl::string_view>& leaves) {
  leaves.clear();
  while (bytes.size() >= 2) {
    const size_t size =
        static_cast<size_t>(static_cast<uint8_t>(bytes[0])) << 8 | static_cast<uint8_t>(bytes[1]);
    if (bytes.size() - 2 < size) break;
    leaves.push_back(bytes.substr(2, size));
    bytes.remove_prefix(2 + size);
  }
  if (bytes.empty() && leaves.size() == static_cast<size_t>(width)) return {};
  return NameFinding(Failure::kTileMismatch, file,
                     absl::StrCat("The file does not hold ", width, " entries."));
}

Finding TileCheck::Append(const Digest& leaf_hash) {
  Finding finding = Push(0, leaf_hash);
  range_.Append(leaf_hash, [&](int level, uint64_t /*index*/, const Digest& hash) {
    if (level % kTileHeight != 0 || !finding.ok()) return;
    finding = Push(static_cast<size_t>(level / kTileHeight), hash);
  });
  return finding;
}

Finding TileCheck::Push(size_t level, const Digest& hash) {
  if (level == levels_.size()) levels_.emplace_back();
  Level& filled = levels_[level];
  const absl::string_view bytes = AsBytes(hash);
  filled.hashes.append(bytes.data(), bytes.size());
  if (filled.hashes.size() < kHashBytes * kTileWidth) return {};
  Finding finding = Compare(level);
  filled.hashes.clear();
  ++filled.index;
  return finding;
}

Finding TileCheck::Finish() {
  for (size_t level = 0; level < levels_.size(); ++level) {
    if (levels_[level].hashes.empty()) continue;
    if (Finding finding = Compare(level); !finding.ok()) return finding;
  }
  return {};
}

Finding TileCheck::Compare(size_t level) const {
  const Level& filled = levels_[level];
  const std::string file = TilePath({.level = static_cast<int>(level),
                                     .index = filled.index,
                                     .width = static_cast<int>(filled.hashes.size() / kHashBytes)});
  const absl::StatusOr<std::string> bytes =
      input_.Read(file, kHashBytes * static_cast<size_t>(kTileWidth));
  if (!bytes.ok() && !absl::IsResourceExhausted(bytes.status())) {
    Finding finding;
    finding.io = bytes.status();
    return finding;
  }
  if (bytes.ok() && *bytes == filled.hashes) return {};
  return NameFinding(Failure::kTileMismatch, file,
                     "The tile does not hold the hashes of the certificates.");
}

TextCheck::TextCheck(const ExportInput& input, std::string file, Failure failure)
    : file_(std::move(file)), failure_(failure) {
  absl::StatusOr<std::unique_ptr<ExportFile>> stream = input.OpenFile(file_);
  io_ = stream.status();
  if (stream.ok()) stream_ = *std::move(stream);
}

Finding TextCheck::Differs() const {
  return NameFinding(failure_, file_, "The file is not what the certificates make.");
}

Finding TextCheck::Expect(absl::string_view text) {
  Finding finding;
  while (!text.empty()) {
    if (at_ == buffer_.size() && io_.ok()) {
      buffer_.resize(kPieceBytes);
      const absl::StatusOr<size_t> count = stream_->Read(buffer_.data(), buffer_.size());
      io_ = count.status();
      buffer_.resize(count.ok() ? *count : 0);
      at_ = 0;
    }
    if (!io_.ok()) {
      finding.io = io_;
      return finding;
    }
    const absl::string_view have = absl::string_view(buffer_).substr(at_, text.size());
    if (have.empty() || text.substr(0, have.size()) != have) return Differs();
    at_ += have.size();
    text.remove_prefix(have.size());
  }
  return finding;
}

Finding TextCheck::Finish() {
  Finding finding;
  char byte = 0;
  if (at_ < buffer_.size()) return Differs();
  const absl::StatusOr<size_t> count = io_.ok() ? stream_->Read(&byte, 1) : io_;
  if (!count.ok()) {
    finding.io = count.status();
    return finding;
  }
  return *count == 0 ? finding : Differs();
}

void InParallel(size_t count, int threads, absl::FunctionRef<void(size_t)> work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  const size_t wanted = std::min(static_cast<size_t>(std::max(threads, 1)), count);
  try {
    while (helpers.size() + 1 < wanted) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // As many as the system gives; this one is enough.
  }
  run();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace lethe::audit
