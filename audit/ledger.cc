#include "audit/ledger.h"

#include <algorithm>

namespace lethe::audit {
namespace {

constexpr size_t kMaxPage = 1000;

}  // namespace

LedgerEntry MakeLedgerEntry(const SignedCertificate& certificate) {
  return LedgerEntry{.sequence = certificate.body.sequence,
                     .id = certificate.id,
                     .envelope = certificate.envelope,
                     .leaf = certificate.leaf,
                     .leaf_hash = certificate.leaf_hash,
                     .previous_leaf_hash = certificate.body.previous_leaf_hash};
}

absl::StatusOr<LedgerHead> InMemoryLedger::Head() const {
  LedgerHead head;
  head.size = entries_.size();
  if (!entries_.empty()) head.last_leaf_hash = entries_.back().leaf_hash;
  return head;
}

absl::Status InMemoryLedger::Append(const SignedCertificate& certificate) {
  if (Get(certificate.id).ok()) return absl::AlreadyExistsError("ledger: the certificate is there");
  const LedgerHead head = *Head();
  if (certificate.body.sequence != head.size ||
      certificate.body.previous_leaf_hash != head.last_leaf_hash) {
    return absl::FailedPreconditionError("ledger: the certificate does not continue the log");
  }
  entries_.push_back(MakeLedgerEntry(certificate));
  return absl::OkStatus();
}

absl::StatusOr<LedgerEntry> InMemoryLedger::Get(absl::string_view id) const {
  const auto place = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const LedgerEntry& entry) { return entry.id == id; });
  if (place == entries_.end()) return absl::NotFoundError("ledger: no such certificate");
  return *place;
}

absl::StatusOr<std::vector<LedgerEntry>> InMemoryLedger::List(uint64_t from, size_t limit) const {
  if (limit == 0 || limit > kMaxPage) {
    return absl::InvalidArgumentError("limit: must be 1 to 1000");
  }
  const size_t start = static_cast<size_t>(std::min<uint64_t>(from, entries_.size()));
  const size_t end = std::min(entries_.size(), start + limit);
  return std::vector<LedgerEntry>(entries_.begin() + static_cast<std::ptrdiff_t>(start),
                                  entries_.begin() + static_cast<std::ptrdiff_t>(end));
}

}  // namespace lethe::audit
