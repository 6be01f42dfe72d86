// A private key in a file: PEM PKCS#8, unencrypted, mode 0400. Signer::CreateFile and LoadFile are
// the public face and state the errors. Threads: safe.
#ifndef LETHE_AUDIT_KEY_FILE_H_
#define LETHE_AUDIT_KEY_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "audit/signer.h"

namespace lethe::audit {

// The file appears under its name complete and synced, or not at all.
absl::Status WriteKeyFile(evp_pkey_st& key, const std::string& path);
absl::StatusOr<PrivateKey> ReadKeyFile(const std::string& path);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_KEY_FILE_H_
