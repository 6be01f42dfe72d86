// From what the service knows of an erasure to a signed certificate and back.
#ifndef LETHE_SERVER_SERVICE_CERTIFICATES_H_
#define LETHE_SERVER_SERVICE_CERTIFICATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/certificate.h"
#include "audit/signer.h"
#include "core/svdd/kkt_check.h"
#include "core/svdd/snapshot.h"
#include "server/service/types.h"
#include "store/tenant_store.h"

namespace lethe::service {

// RFC 3339 in UTC with microseconds.
std::string FormatMicros(int64_t micros_since_1970);

// A body with everything that does not depend on the kind: origin, place in the log, build, time.
audit::CertificateBody BaseBody(const std::string& origin,
                                const store::LogHead& head,
                                audit::CertificateKind kind,
                                int64_t time_micros);

// What is claimed of each place that held the bytes: when the rows go, when their keys are
// destroyed, when the tenant ends.
std::vector<audit::StoreErasure> StoresOfErasure();
// `copies_ended`: copies stayed in the file of keys, and the KEK that they need is destroyed.
std::vector<audit::StoreErasure> StoresOfDestruction(const store::KeysDestroyed& destroyed,
                                                     bool copies_ended);
// When key-encryption keys are destroyed and no erasure is concerned.
std::vector<audit::StoreErasure> StoresOfEpochs();
std::vector<audit::StoreErasure> StoresOfClosing();
std::vector<audit::StoreErasure> StoresOfRestoration();

// What a stored certificate says; DATA_LOSS when it cannot be read. Its signature is not checked.
absl::StatusOr<audit::CertificateBody> ReadBody(const store::CertificateRecord& record);

// The key that signed a stored certificate of this log, as its log entry has it. DATA_LOSS when
// certificate, entry and key do not fit each other. That the key is the log's is for the caller to
// know.
absl::StatusOr<audit::VerificationKey> SigningKeyOf(const store::CertificateRecord& record,
                                                    const std::string& origin);

audit::PartitionSizes ToSizes(const svdd::PartitionCounts& counts);

// What was measured of a state. The empty and warming phases are exact by definition: all zero.
audit::Residuals ResidualsOf(const svdd::Snapshot& snapshot, const svdd::KktReport& check);

// Signs the body and the checkpoint over the log with it, and makes what the store needs, with a
// verifier that runs the public checks on everything read back (VerifyWritten). `head` is the log's
// as it stands. `next` is the key that a hand-over names, which signs the checkpoint then; null
// otherwise. `memory_uid` and `memory_name` may be empty. The verifier refers to keys by value.
absl::StatusOr<store::CertificateAppend> SignForStore(const audit::CertificateBody& body,
                                                      const store::LogHead& head,
                                                      const audit::Signer& signer,
                                                      const audit::Signer* next,
                                                      const std::string& memory_uid,
                                                      const std::string& memory_name,
                                                      int64_t time_micros);

// The C2SP tlog-proof that what SignForStore made for this head is the last entry of the log with
// it: the text that GetInclusionProof gives right after the append. It carries no cosignature,
// since no witness has seen the checkpoint yet. INTERNAL when the proof does not hold.
absl::StatusOr<std::string> ProofOfLast(const store::LogHead& head,
                                        const store::CertificateAppend& append);

// The public check on a stored record. DATA_LOSS names the failing check.
absl::Status VerifyRecord(const store::CertificateRecord& record,
                          const audit::VerificationKey& key);

// The public checks on what an append wrote: the certificate, the signature of the checkpoint, that
// it is over this root, that the certificate is in it as the last leaf, that it continues the log
// of `old_root`. DATA_LOSS names the failing check.
absl::Status VerifyWritten(const store::WrittenCertificate& written,
                           const audit::VerificationKey& key,
                           const audit::VerificationKey& checkpoint_key,
                           const audit::Digest& old_root);

// That the head's checkpoint is this key's and over the head's leaves. DATA_LOSS.
absl::Status VerifyHead(const store::LogHead& head, const audit::VerificationKey& key);

// The root over the head's leaves. DATA_LOSS when its range does not fit its size.
absl::StatusOr<audit::Digest> RootOf(const store::LogHead& head);

CertificateInfo ToInfo(const store::CertificateRecord& record);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_CERTIFICATES_H_
