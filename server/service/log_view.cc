// Tenant::LogView: the log of a tenant at one moment, read in blocks that each take a turn with the
// writer. What is read never changes: certificates and nodes of complete subtrees are written once.
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/tenant.h"

namespace lethe::service {
namespace {

// A level of a tile; neighbours are asked for one after another.
constexpr uint32_t kNodesPerBlock = 256;
// Certificates read at a time; one can have a MiB.
constexpr uint32_t kEntriesPerBlock = 16;
constexpr size_t kLevels = 64;

}  // namespace

class Tenant::LogView final : public audit::LogSource {
 public:
  LogView(std::shared_ptr<Tenant> tenant,
          uint64_t size,
          std::string checkpoint,
          std::vector<std::pair<uint64_t, audit::VerificationKey>> keys)
      : tenant_(std::move(tenant)),
        size_(size),
        checkpoint_(std::move(checkpoint)),
        keys_(std::move(keys)) {}

  uint64_t size() const override { return size_; }
  std::string checkpoint() const override { return checkpoint_; }
  std::vector<std::pair<uint64_t, audit::VerificationKey>> keys() const override { return keys_; }

  absl::StatusOr<audit::Digest> Node(int level, uint64_t index) override {
    if (level < 0 || static_cast<size_t>(level) >= kLevels) {
      return absl::InvalidArgumentError("level: the log has none so high");
    }
    Block& block = blocks_[static_cast<size_t>(level)];
    const uint64_t first = index - index % kNodesPerBlock;
    if (block.hashes.empty() || block.first != first || index - first >= block.hashes.size()) {
      LETHE_ASSIGN_OR_RETURN(block.hashes, ReadNodes(level, first));
      block.first = first;
    }
    if (index - first >= block.hashes.size()) {
      return absl::DataLossError(
          absl::StrCat("node ", index, " of level ", level, " of the log's tree is missing"));
    }
    return block.hashes[index - first];
  }

  absl::Status Entries(uint64_t first,
                       uint64_t last,
                       absl::FunctionRef<absl::Status(const audit::ExportEntry&)> visit) override {
    for (uint64_t next = first; next <= last;) {
      LETHE_ASSIGN_OR_RETURN(std::vector<store::CertificateRecord> records, ReadRecords(next));
      if (records.empty()) {
        return absl::DataLossError(absl::StrCat("certificate ", next, " is missing"));
      }
      for (store::CertificateRecord& record : records) {
        if (next > last) break;
        if (record.sequence != next) {
          return absl::DataLossError(absl::StrCat("certificate ", next, " is missing"));
        }
        LETHE_RETURN_IF_ERROR(visit({.sequence = record.sequence,
                                     .envelope = std::move(record.envelope),
                                     .leaf = std::move(record.leaf)}));
        ++next;
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Block {
    uint64_t first = 0;
    std::vector<audit::Digest> hashes;
  };

  absl::StatusOr<std::vector<audit::Digest>> ReadNodes(int level, uint64_t first) {
    MutexLock lock(tenant_->writer_);
    LETHE_RETURN_IF_ERROR(tenant_->EnsureStore());
    absl::StatusOr<std::vector<audit::Digest>> nodes =
        tenant_->store_->GetLogNodes(level, first, kNodesPerBlock);
    return nodes.ok() ? std::move(nodes) : tenant_->StoreFailed(nullptr, nodes.status());
  }

  absl::StatusOr<std::vector<store::CertificateRecord>> ReadRecords(uint64_t first) {
    store::CertificateQuery query;
    query.limit = kEntriesPerBlock;
    if (first > 0) query.after_sequence = first - 1;
    MutexLock lock(tenant_->writer_);
    LETHE_RETURN_IF_ERROR(tenant_->EnsureStore());
    absl::StatusOr<std::vector<store::CertificateRecord>> records =
        tenant_->store_->ListCertificates(query);
    return records.ok() ? std::move(records) : tenant_->StoreFailed(nullptr, records.status());
  }

  const std::shared_ptr<Tenant> tenant_;
  const uint64_t size_;
  const std::string checkpoint_;
  const std::vector<std::pair<uint64_t, audit::VerificationKey>> keys_;
  std::array<Block, kLevels> blocks_;
};

absl::StatusOr<std::unique_ptr<audit::LogSource>> Tenant::OpenLogView() {
  CheckpointInfo checkpoint;
  {
    MutexLock lock(writer_);
    LETHE_ASSIGN_OR_RETURN(checkpoint, ReadCheckpoint());
  }
  std::vector<std::pair<uint64_t, audit::VerificationKey>> keys;
  for (const LogKeyInfo& key : checkpoint.keys) {
    LETHE_ASSIGN_OR_RETURN(audit::VerificationKey parsed, audit::VerificationKey::Parse(key.vkey));
    keys.emplace_back(key.first_sequence, std::move(parsed));
  }
  return std::make_unique<LogView>(shared_from_this(), checkpoint.size, std::move(checkpoint.note),
                                   std::move(keys));
}

}  // namespace lethe::service
