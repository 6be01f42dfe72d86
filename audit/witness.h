// Witnesses: parties that watch a log and countersign the checkpoints they found consistent.
//
//     signed   "cosignature/v1\ntime T\n" || checkpoint text         T: seconds since 1970, decimal
//     line     as any note signature, with u64be(T) || signature64 after the key id
//     vkey     as that of a log, with key type 04
//
// A policy says which witnesses one relies on and how many of them; it is a C2SP tlog-policy file:
//
//     # comment
//     log VKEY [URL]
//     witness NAME VKEY [URL]
//     group NAME all|any|N MEMBER...
//     quorum NAME|none
//
// Threads: keys and policies are values, WitnessSigner is immutable. Errors: INVALID_ARGUMENT for
// bad input; those of key files are Signer's. Source: c2sp.org/tlog-cosignature,
// c2sp.org/tlog-policy.
#ifndef LETHE_AUDIT_WITNESS_H_
#define LETHE_AUDIT_WITNESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/note.h"
#include "audit/signer.h"
#include "audit/verify.h"

namespace lethe::audit {

// The public half.
class WitnessKey {
 public:
  static absl::StatusOr<WitnessKey> Parse(absl::string_view vkey);
  // `public_key` has 32 bytes.
  static absl::StatusOr<WitnessKey> FromRaw(absl::string_view name, absl::string_view public_key);

  const std::string& name() const { return key_.name(); }
  const std::string& raw() const { return key_.raw(); }
  const std::string& key_id() const { return key_id_; }  // 4 bytes
  std::string vkey() const;

  // Whether the signature line is of this key: name and key id.
  bool Owns(const NoteSignature& line) const;
  // Whether this is the key's line and a cosignature of this checkpoint text; then `unix_time`, if
  // not null, is when it was made, 0 to 2^63 - 1.
  bool Verify(absl::string_view checkpoint_text,
              const NoteSignature& line,
              int64_t* unix_time = nullptr) const;

 private:
  explicit WitnessKey(VerificationKey key);
  VerificationKey key_;  // name and point; its own key id is that of a log's key and not used
  std::string key_id_;
};

// Uses no key that signs anything else: what is signed does not name the witness.
class WitnessSigner {
 public:
  // As those of Signer.
  static absl::StatusOr<WitnessSigner> Generate(absl::string_view name);
  static absl::StatusOr<WitnessSigner> FromSeed(absl::string_view name, absl::string_view seed);
  static absl::StatusOr<WitnessSigner> CreateFile(absl::string_view name, const std::string& path);
  static absl::StatusOr<WitnessSigner> LoadFile(absl::string_view name, const std::string& path);

  // Signs; that the checkpoint is consistent with earlier ones is for the caller to know. Requires
  // a text that ParseCheckpointText accepts and a time that is not negative.
  absl::StatusOr<NoteSignature> Cosign(absl::string_view checkpoint_text, int64_t unix_time) const;
  const WitnessKey& key() const { return key_; }

 private:
  explicit WitnessSigner(Signer signer, WitnessKey key);
  static absl::StatusOr<WitnessSigner> FromSigner(absl::StatusOr<Signer> signer);

  Signer signer_;
  WitnessKey key_;
};

inline constexpr size_t kMaxPolicyBytes = size_t{1} << 20;
inline constexpr size_t kMaxPolicyEntries = 256;  // logs, witnesses and groups together

struct WitnessPolicy {
  struct Entry {
    std::string name;
    // A witness, or else a group: at least `threshold` of its members, which come before it.
    std::optional<WitnessKey> witness;
    size_t threshold = 0;
    std::vector<size_t> members;
  };
  std::vector<VerificationKey> logs;  // may be empty
  std::vector<Entry> entries;         // in the order of the file
  std::optional<size_t> quorum;       // the entry that must be satisfied; absent: none is required
};

// The message names line and fault.
absl::StatusOr<WitnessPolicy> ParsePolicy(absl::string_view text);

struct Cosignature {
  std::string witness;  // the name that the policy gives it
  int64_t unix_time = 0;
};

struct QuorumResult {
  Failure failure = Failure::kNone;
  std::string message;
  std::vector<Cosignature> cosignatures;  // the good ones of the policy's witnesses, once each

  bool ok() const { return failure == Failure::kNone; }
};

// kWitnessQuorum unless the policy's quorum has cosigned the note's text. A line of one of the
// policy's witnesses that does not verify rejects the note even with a quorum. Looks neither at the
// log's signature nor at the clock: a quorum says nothing unless VerifyCheckpoint agrees.
QuorumResult CheckQuorum(const Note& note, const WitnessPolicy& policy);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_WITNESS_H_
