// A certificate with its place in the log as a Sigstore bundle v0.3, for verifiers of that world.
//
//     publicKey.hint      keyid of the envelope: the key that signed the certificate
//     dsseEnvelope        the envelope
//     tlogEntries[0]      kind dsse 0.0.2; canonicalizedBody: the leaf; logIndex, the inclusion
//     proof
//                         and a checkpoint; logId: SHA256(name || 0A || 01 || pk32) of the key that
//                         signed it, of which the key id is the first four bytes
//
// The checkpoint in a bundle has the log's signature only: cosignatures are added to a checkpoint
// later, which must not change bundles, and older verifiers of bundles refuse lines of keys they do
// not know. The bundle is canonical JSON (json.h). Threads: safe. Source: sigstore/protobuf-specs,
// sigstore_bundle.proto.
#ifndef LETHE_AUDIT_SIGSTORE_BUNDLE_H_
#define LETHE_AUDIT_SIGSTORE_BUNDLE_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/hash.h"
#include "audit/signer.h"

namespace lethe::audit {

inline constexpr absl::string_view kBundleMediaType =
    "application/vnd.dev.sigstore.bundle.v0.3+json";

// What a bundle tells; refers to its parts. `key` is the one that signed the checkpoint; after a
// hand-over it need not be the one that signed the certificate.
struct BundleFacts {
  absl::string_view envelope;
  absl::string_view leaf;
  uint64_t index;
  uint64_t size;
  Digest root;
  std::span<const Digest> proof;
  absl::string_view checkpoint_note;
  const VerificationKey& key;
};

// Copies what it is given and verifies none of it; INVALID_ARGUMENT when envelope or note do not
// parse, or when the note has no line of the key.
absl::StatusOr<std::string> SigstoreBundle(const BundleFacts& facts);

// Whether `bundle` is, byte for byte, what SigstoreBundle makes of the same facts.
// INVALID_ARGUMENT: it is no canonical JSON of this media type. FAILED_PRECONDITION: it is a bundle
// of something else; the message names the first member that differs. Errors of SigstoreBundle are
// passed on as INTERNAL.
absl::Status CheckSigstoreBundle(absl::string_view bundle, const BundleFacts& facts);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_SIGSTORE_BUNDLE_H_
