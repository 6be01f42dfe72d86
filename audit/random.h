// Random bytes from OpenSSL's private generator. A generator that fails ends the process: nothing
// built on guessable salts may go on. Threads: safe.
#ifndef LETHE_AUDIT_RANDOM_H_
#define LETHE_AUDIT_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lethe::audit {

// 32 secret random bytes that blind a commitment.
using Salt = std::array<uint8_t, 32>;

// At most 1 MiB.
std::string RandomBytes(size_t count);
Salt RandomSalt();
// 32 lower-case hex digits: the public name of a memory in certificates.
std::string RandomUid();

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_RANDOM_H_
