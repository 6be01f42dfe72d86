// LETHE_CHECK(condition): a broken invariant of ours ends the process with the place and the words
// of the condition. Never for bad input or a bad environment: those are absl::Status.
#ifndef LETHE_CORE_BASE_CHECK_H_
#define LETHE_CORE_BASE_CHECK_H_

namespace lethe::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace lethe::internal

#define LETHE_CHECK(condition)                         \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::lethe::internal::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // LETHE_CORE_BASE_CHECK_H_
