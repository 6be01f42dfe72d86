// Destroying keys, and the evidence for it.
#include <fcntl.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "store/validation.h"
#include "store/vault/key_store.h"

namespace lethe::store {
absl::StatusOr<DestroyResult> KeyStore::Destroy(std::span<const uint64_t> slots) {
  std::vector<uint64_t> distinct(slots.begin(), slots.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (uint64_t slot : distinct) cache_.Evict(slot);
  LETHE_RETURN_IF_ERROR(Health());
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == 0 || slots[i] > slots_) {
      return absl::NotFoundError(
          absl::StrCat("slots[", i, "]: key slot ", slots[i], " was never allocated"));
    }
  }
  DestroyResult result;
  for (size_t from = 0; from < distinct.size(); from += options_.evidence_batch) {
    const std::span<const uint64_t> group = std::span<const uint64_t>(distinct).subspan(
        from, std::min(options_.evidence_batch, distinct.size() - from));
    ResidueScanner scanner;
    LETHE_RETURN_IF_ERROR(DestroyRows(group, scanner, result));
    // From here on these keys are destroyed; what fails now weakens the evidence alone.
    const absl::Status proven = ProveDestroyed(group, scanner, result);
    // A copy that stayed (DATA_LOSS) says less than a search that could not be made.
    if (!proven.ok() && (result.evidence.ok() || absl::IsDataLoss(result.evidence))) {
      result.evidence = proven;
    }
  }
  return result;
}

absl::Status KeyStore::DestroyRows(std::span<const uint64_t> slots,
                                   ResidueScanner& scanner,
                                   DestroyResult& result) {
  for (size_t from = 0; from < slots.size(); from += options_.destroy_batch) {
    // So that the log never holds more than one batch.
    if (from > 0) LETHE_RETURN_IF_ERROR(db_->CheckpointTruncate());
    uint64_t destroyed = 0;
    LETHE_ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(db_.get()));
    LETHE_ASSIGN_OR_RETURN(Statement update,
                           db_->Prepare("UPDATE slots SET body = zeroblob(96) WHERE slot = ?1"));
    const size_t count = std::min(options_.destroy_batch, slots.size() - from);
    for (uint64_t slot : slots.subspan(from, count)) {
      scanner.AddSlot(slot);
      LETHE_ASSIGN_OR_RETURN(std::string body, ReadBody(slot));
      if (IsDestroyed(body)) continue;
      // Whatever stands there, be it damaged, is what must be gone.
      if (body.size() == kSlotBytes) {
        scanner.AddWrappedKey(absl::string_view(body).substr(kWrappedOffset, kWrappedKeyBytes));
      }
      OPENSSL_cleanse(body.data(), body.size());
      LETHE_RETURN_IF_ERROR(update.Int(1, ClampToInt64(slot)).Run());
      LETHE_CHECK(db_->Changes() == 1);
      ++destroyed;
    }
    if (destroyed > 0) LETHE_RETURN_IF_ERROR(transaction.Commit());
    result.destroyed += destroyed;
    result.already_destroyed += count - destroyed;
  }
  return absl::OkStatus();
}

absl::Status KeyStore::ProveDestroyed(std::span<const uint64_t> slots,
                                      ResidueScanner& scanner,
                                      DestroyResult& result) {
  uint64_t bytes_read = 0;
  const absl::Status proved = Prove(scanner, bytes_read, result.rewritten);
  result.bytes_read += bytes_read;
  // A copy elsewhere in the file does not keep the rows from being looked at.
  if (!proved.ok() && !absl::IsDataLoss(proved)) return proved;
  // SQLite must not answer from its own cache.
  LETHE_RETURN_IF_ERROR(db_->Execute("PRAGMA shrink_memory"));
  for (uint64_t slot : slots) {
    LETHE_ASSIGN_OR_RETURN(const std::string body, ReadBody(slot));
    if (!IsDestroyed(body)) {
      return absl::InternalError(
          absl::StrCat(path_, ": key slot ", slot, " does not read as zeros"));
    }
  }
  return proved;
}

absl::StatusOr<Residue> KeyStore::Search(ResidueScanner& scanner) {
  LETHE_ASSIGN_OR_RETURN(Residue residue, scanner.Scan(raw_.get()));
  // No locks are lost by closing this one: SQLite locks the database file alone.
  const std::string log = absl::StrCat(path_, "-wal");
  const FileDescriptor file(::open(log.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return residue;
  if (!file.valid()) return SystemError(errno, "read it back", log);
  LETHE_ASSIGN_OR_RETURN(const Residue in_log, scanner.Scan(file.get()));
  if (in_log.bytes_read != 0) {
    return absl::UnavailableError(absl::StrCat(log, ": is not empty after its checkpoint"));
  }
  return residue;
}

absl::Status KeyStore::Prove(ResidueScanner& scanner, uint64_t& bytes_read, bool& rewritten) {
  LETHE_RETURN_IF_ERROR(db_->CheckpointTruncate());
  LETHE_ASSIGN_OR_RETURN(Residue residue, Search(scanner));
  if (residue.hits > 0 && residue.bytes_read <= options_.max_rewrite_bytes) {
    rewritten = true;
    LETHE_RETURN_IF_ERROR(db_->Vacuum());
    LETHE_RETURN_IF_ERROR(db_->CheckpointTruncate());
    LETHE_ASSIGN_OR_RETURN(residue, Search(scanner));
  }
  bytes_read = residue.bytes_read;
  if (residue.hits == 0) return absl::OkStatus();
  const absl::string_view too_large = residue.bytes_read > options_.max_rewrite_bytes
                                          ? ", which is too large to be written anew"
                                          : "";
  return absl::DataLossError(absl::StrCat(path_, ": ", residue.hits,
                                          " copies of destroyed or replaced wrapped keys are"
                                          " in the file, the first at byte ",
                                          residue.first_offset, too_large,
                                          "; rotate the KEK, which makes them worthless"));
}

}  // namespace lethe::store
