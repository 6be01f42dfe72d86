// SHA-1 and MD5, in lower-case hex digits: to recognise what others write so (identities in the
// requests of the OpenDSR specification), and for nothing else. Nothing rests on them.
//
// Cost: linear. Errors: none. Threads: safe. Source: FIPS 180-4, RFC 1321.
#ifndef LETHE_AUDIT_WEAK_HASH_H_
#define LETHE_AUDIT_WEAK_HASH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace lethe::audit {

std::string Sha1Hex(absl::string_view bytes);
std::string Md5Hex(absl::string_view bytes);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_WEAK_HASH_H_
