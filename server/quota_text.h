// Quotas as they are written in the settings: "TENANT:NAME=VALUE,...", with "*" for every tenant
// that has no entry of its own.
//
//     *:tokens=1000000,inserts=2000        at most a million tokens, 2,000 inserted a second
//     clinic:tokens=0,bytes=20GiB          this one: any number, 20 GiB; inserts as for the others
//
// Names are those of service::QuotaName; 0 is no bound. An entry inherits what it does not name
// from "*". Threads: functions without state.
#ifndef LETHE_SERVER_QUOTA_TEXT_H_
#define LETHE_SERVER_QUOTA_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/service/quotas.h"

namespace lethe::server {

// INVALID_ARGUMENT begins with `where`.
absl::StatusOr<service::QuotaSettings> ParseQuotas(absl::string_view where,
                                                   const std::vector<std::string>& texts);
// Texts that say the same.
std::vector<std::string> FormatQuotas(const service::QuotaSettings& settings);

}  // namespace lethe::server

#endif  // LETHE_SERVER_QUOTA_TEXT_H_
