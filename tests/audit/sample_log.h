// A whole log in memory, as WriteExport takes it, and an export as a map of files.
#ifndef LETHE_TESTS_AUDIT_SAMPLE_LOG_H_
#define LETHE_TESTS_AUDIT_SAMPLE_LOG_H_

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "audit/checkpoint.h"
#include "audit/export.h"
#include "audit/key_ledger.h"
#include "audit/merkle.h"
#include "core/base/check.h"
#include "tests/audit/sample.h"

namespace lethe::audit::testing {

using Files = std::map<std::string, std::string>;

// Collects an export. The order in which the files came is kept for the .tar.
class MemorySink : public ExportSink {
 public:
  absl::Status Begin(absl::string_view path) override {
    name_ = std::string(path);
    LETHE_CHECK(files_.emplace(name_, "").second);
    order_.push_back(name_);
    return absl::OkStatus();
  }
  absl::Status Write(absl::string_view bytes) override {
    files_[name_].append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status End() override { return absl::OkStatus(); }

  const Files& files() const { return files_; }
  const std::vector<std::string>& order() const { return order_; }

 private:
  std::string name_;
  Files files_;
  std::vector<std::string> order_;
};

// Certificates of several kinds; at each of `handovers` the key changes. Everything follows from
// the seeds of the keys.
class SampleLog : public LogSource {
 public:
  explicit SampleLog(size_t size,
                     const std::set<uint64_t>& handovers = {},
                     const std::string& origin = kOrigin,
                     char first_seed = 0x42) {
    signers_.push_back(VectorSigner(origin, first_seed));
    keys_.emplace_back(0, signers_.back().verification_key());
    while (certificates_.size() < size) {
      const uint64_t sequence = certificates_.size();
      if (handovers.count(sequence) == 0) {
        CertificateBody body = MixedBody(sequence);
        // Hand-overs may have taken the place of every erasure that it would name.
        if (const std::optional<SequenceSpan> span = DestroyedBy(body); span.has_value()) {
          const auto first = erasures_.lower_bound(span->first);
          if (first == erasures_.end() || *first > span->last) body = ShreddedBody();
        }
        if (IsErasure(body.kind)) erasures_.insert(sequence);
        Append(std::move(body));
        continue;
      }
      Signer next =
          VectorSigner(origin, static_cast<char>(first_seed + static_cast<char>(signers_.size())));
      CertificateBody body = HandoverBody(next.verification_key().vkey());
      Append(std::move(body));
      signers_.push_back(std::move(next));
      keys_.emplace_back(sequence + 1, signers_.back().verification_key());
    }
    SignAgain();
  }

  // Takes any body: place, origin and link are filled in.
  void Append(CertificateBody body) {
    body.origin = signers_.back().verification_key().name();
    body.sequence = certificates_.size();
    body.previous_leaf_hash.reset();
    if (!certificates_.empty()) body.previous_leaf_hash = certificates_.back().leaf_hash;
    absl::StatusOr<SignedCertificate> made = BuildCertificate(body, signers_.back());
    LETHE_CHECK(made.ok());
    certificates_.push_back(*std::move(made));
    AddLeaf(certificates_.back().leaf_hash);
  }
  // Puts a certificate as it is, whatever it says.
  void AppendRaw(SignedCertificate certificate) {
    certificates_.push_back(std::move(certificate));
    AddLeaf(certificates_.back().leaf_hash);
  }
  // The checkpoint over what is there now.
  void SignAgain() { checkpoint_ = CheckpointAt(certificates_.size(), signers_.back()); }
  void set_checkpoint(std::string note) { checkpoint_ = std::move(note); }

  std::string CheckpointAt(uint64_t size, const Signer& signer) const {
    CompactRange range;
    for (uint64_t i = 0; i < size; ++i) range.Append(certificates_[i].leaf_hash);
    absl::StatusOr<std::string> note = SignCheckpoint(
        {.origin = signer.verification_key().name(), .size = size, .root = range.Root()}, signer);
    LETHE_CHECK(note.ok());
    return *std::move(note);
  }

  const std::vector<SignedCertificate>& certificates() const { return certificates_; }
  const std::vector<Signer>& signers() const { return signers_; }

  uint64_t size() const override { return certificates_.size(); }
  std::string checkpoint() const override { return checkpoint_; }
  std::vector<std::pair<uint64_t, VerificationKey>> keys() const override { return keys_; }
  absl::StatusOr<Digest> Node(int level, uint64_t index) override {
    const auto node = nodes_.find({level, index});
    if (node == nodes_.end()) return absl::NotFoundError("no such node");
    return node->second;
  }
  absl::Status Entries(uint64_t first,
                       uint64_t last,
                       absl::FunctionRef<absl::Status(const ExportEntry&)> visit) override {
    for (uint64_t i = first; i <= last; ++i) {
      const absl::Status status = visit({i, certificates_[i].envelope, certificates_[i].leaf});
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // The files of an export of it. A fixed time.
  MemorySink Export(const ExportRange& range = {}) {
    MemorySink sink;
    const absl::Status written = WriteExport(*this, range, 1770000000, sink);
    LETHE_CHECK(written.ok());
    return sink;
  }

 private:
  void AddLeaf(const Digest& hash) {
    nodes_[{0, range_.size()}] = hash;
    range_.Append(hash, [this](int level, uint64_t index, const Digest& node) {
      nodes_[{level, index}] = node;
    });
  }

  std::vector<Signer> signers_;
  std::vector<std::pair<uint64_t, VerificationKey>> keys_;
  std::vector<SignedCertificate> certificates_;
  std::set<uint64_t> erasures_;
  CompactRange range_;
  std::map<std::pair<int, uint64_t>, Digest> nodes_;
  std::string checkpoint_;
};

// Writes files below a folder, which it makes.
inline void WriteFolder(const std::string& folder, const Files& files) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, bytes] : files) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    std::filesystem::create_directories(path.parent_path());
    WriteAll(path.string(), bytes);
  }
}

}  // namespace lethe::audit::testing

#endif  // LETHE_TESTS_AUDIT_SAMPLE_LOG_H_
