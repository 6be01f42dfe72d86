// What the tests of the tenants' logs share.
#ifndef LETHE_TESTS_SERVER_LOG_TESTING_H_
#define LETHE_TESTS_SERVER_LOG_TESTING_H_

#include <string>
#include <vector>

#include "audit/checkpoint.h"
#include "audit/hash.h"
#include "audit/signer.h"
#include "tests/server/service_testing.h"

namespace lethe::service {

// The leaf hashes of a tenant's log, from the certificates' bytes.
std::vector<audit::Digest> LeavesOf(Harness& service, const std::string& tenant = "t");

// The checkpoint, verified under the key that the log's hand-overs lead to from its first key.
audit::Checkpoint VerifiedCheckpoint(const CheckpointInfo& info);

audit::VerificationKey FirstKey(Harness& service, const std::string& tenant = "t");

std::vector<audit::Digest> ToDigests(const std::vector<std::string>& hashes);

// Runs statements on the file of a tenant; the service must be stopped.
void Raw(const Harness& service, const std::string& sql, const std::string& tenant = "t");
// The first column of a query's only row; likewise.
std::string RawText(const Harness& service,
                    const std::string& sql,
                    const std::string& tenant = "t");

}  // namespace lethe::service

#endif  // LETHE_TESTS_SERVER_LOG_TESTING_H_
