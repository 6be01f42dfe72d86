// Which erasures of a log have had their keys destroyed, read off its certificates in one pass.
//
// An erasure is a forget, edit or evict certificate; its keys are pending while it erased a token
// and no later certificate destroys them. A `shredded` destroys those of its range; a
// `tenant-closed` that names the store `keys` at level `key-destroyed` those of all before it.
//
// Cost: O(1) a certificate and O(1) for 64 certificates that a destruction covers and that are not
// older than the oldest pending one. Memory: three bits a certificate. Errors: none. Threads:
// compatible.
#ifndef LETHE_AUDIT_KEY_LEDGER_H_
#define LETHE_AUDIT_KEY_LEDGER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "audit/certificate.h"

namespace lethe::audit {

// Whether certificates of this kind take tokens out: forget, edit, evict.
bool IsErasure(CertificateKind kind);

// The certificates whose keys this one says are destroyed; all of them are before it.
std::optional<SequenceSpan> DestroyedBy(const CertificateBody& body);

class KeyLedger {
 public:
  // `first`: the sequence of the first certificate that will be added. What is before it is not
  // known.
  explicit KeyLedger(uint64_t first) : first_(first) {}

  // Takes the next certificate of the log. False when it contradicts those before it: a `shredded`
  // whose range holds no erasure, and a `restored` that removed tokens while there is no erasure
  // from the end of the copy on. Only what begins with or after the first certificate added is
  // judged.
  bool Add(const CertificateBody& body);

  // Certificates that erased at least one token, and those of them whose keys are pending.
  uint64_t erasures() const { return erasures_; }
  uint64_t pending() const { return pending_; }
  // The first certificate from `from` on whose keys are pending.
  std::optional<uint64_t> NextPending(uint64_t from) const;

 private:
  // Of 64 certificates.
  struct Word {
    uint64_t erasing = 0;  // a bit for each erasure
    uint64_t pending = 0;
    uint64_t before = 0;  // one past the place of the last erasure before them; 0: there is none
  };

  bool Holds(const SequenceSpan& span) const;
  void Destroy(const SequenceSpan& span);

  uint64_t first_;
  uint64_t count_ = 0;
  uint64_t end_ = 0;  // one past the place of the last erasure
  uint64_t erasures_ = 0;
  uint64_t pending_ = 0;
  size_t settled_ = 0;  // words before this one have nothing pending
  std::vector<Word> words_;
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_KEY_LEDGER_H_
