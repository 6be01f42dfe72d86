// The table of certificates and what makes a log of it, internal to the store: dense sequences,
// each naming the leaf before it, the tree over them (log_tree.h), its checkpoint, its keys, the
// witnesses' signatures. Start and Append must run inside the caller's transaction. Threads:
// compatible.
#ifndef LETHE_STORE_CERTIFICATE_LOG_H_
#define LETHE_STORE_CERTIFICATE_LOG_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/log_tree.h"
#include "store/sqlite.h"
#include "store/tenant_store.h"

namespace lethe::store {

class CertificateLog {
 public:
  // `origin`: what every checkpoint must name.
  CertificateLog(Database* database, std::string origin)
      : database_(database), tree_(database), origin_(std::move(origin)) {}

  // Rebuilds the tree from the leaves and compares everything that was derived from them: leaf
  // hashes, links, nodes, range, the size and root of the checkpoint. DATA_LOSS names what differs.
  // Cost O(certificates).
  absl::Status CheckWhole();

  absl::StatusOr<LogHead> Head();
  absl::Status Start(const LogStart& start);
  // FAILED_PRECONDITION unless certificate and checkpoint continue the log. Writes certificate,
  // nodes, range and checkpoint, reads them back, compares every byte, and asks the verifier about
  // what was read back. Cost O(log certificates).
  absl::Status Append(const CertificateAppend& append);
  // For a restore: writes the next certificate of the log again as it was, unproven; `checkpoint`
  // is that over the last one that is put back. CheckWhole proves them all.
  absl::Status PutBack(const CertificateRecord& record,
                       const std::optional<std::string>& next_vkey,
                       absl::string_view checkpoint);
  absl::StatusOr<CertificateRecord> Get(absl::string_view id);
  absl::StatusOr<std::vector<CertificateRecord>> List(const CertificateQuery& query);
  absl::StatusOr<std::vector<Bytes32>> Nodes(int level, uint64_t first, uint32_t limit);

  absl::StatusOr<std::vector<LogKey>> Keys();
  absl::Status PutCosignature(const Cosignature& cosignature);
  absl::StatusOr<std::vector<Cosignature>> Cosignatures();

 private:
  // Every leaf in order, with its hash made from its bytes.
  absl::Status VisitLeaves(
      absl::FunctionRef<absl::Status(uint64_t sequence, const Bytes32& leaf_hash)> visit);
  absl::Status CheckCheckpoint(absl::string_view note, const audit::CompactRange& range);
  absl::Status InsertRecord(const CertificateRecord& record);
  absl::Status InsertKey(const LogKey& key);
  // Reads back what Append wrote; `before` and `after` are what it was to be.
  absl::StatusOr<WrittenCertificate> ReadBack(const CertificateAppend& append,
                                              const audit::CompactRange& before,
                                              const LogTree::Head& after,
                                              const std::vector<TreeNode>& nodes);
  absl::Status Lost(absl::string_view what) const;

  Database* database_;
  LogTree tree_;
  std::string origin_;
};

}  // namespace lethe::store

#endif  // LETHE_STORE_CERTIFICATE_LOG_H_
