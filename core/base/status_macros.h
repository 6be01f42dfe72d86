// LETHE_RETURN_IF_ERROR(expr) and LETHE_ASSIGN_OR_RETURN(declaration, expr) for absl::Status and
// absl::StatusOr; Abseil 20220623 ships none.
#ifndef LETHE_CORE_BASE_STATUS_MACROS_H_
#define LETHE_CORE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define LETHE_RETURN_IF_ERROR(expression)                               \
  do {                                                                  \
    if (absl::Status lethe_status = (expression); !lethe_status.ok()) { \
      return lethe_status;                                              \
    }                                                                   \
  } while (false)

#define LETHE_INTERNAL_CONCAT2(a, b) a##b
#define LETHE_INTERNAL_CONCAT(a, b) LETHE_INTERNAL_CONCAT2(a, b)

#define LETHE_ASSIGN_OR_RETURN(declaration, expression)                                           \
  LETHE_INTERNAL_ASSIGN_OR_RETURN(LETHE_INTERNAL_CONCAT(lethe_status_or_, __LINE__), declaration, \
                                  expression)
#define LETHE_INTERNAL_ASSIGN_OR_RETURN(name, declaration, expression) \
  auto name = (expression);                                            \
  if (!name.ok()) return std::move(name).status();                     \
  declaration = *std::move(name)

#endif  // LETHE_CORE_BASE_STATUS_MACROS_H_
