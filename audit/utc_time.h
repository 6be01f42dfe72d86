// Times as certificates and manifests write them: RFC 3339 in UTC. Threads: safe.
#ifndef LETHE_AUDIT_UTC_TIME_H_
#define LETHE_AUDIT_UTC_TIME_H_

#include "absl/strings/string_view.h"

namespace lethe::audit {

// YYYY-MM-DDTHH:MM:SS, a fraction of 1 to 9 digits or none, Z; a day that there is.
bool IsUtcTime(absl::string_view time);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_UTC_TIME_H_
