#include "client/types.h"

#include <cstdio>
#include <random>

namespace lethe::client {

std::string ToString(Kernel::Kind kind) {
  switch (kind) {
    case Kernel::Kind::kRbf:
      return "rbf";
    case Kernel::Kind::kLaplacian:
      return "laplacian";
    case Kernel::Kind::kExpDot:
      return "exp_dot";
  }
  return "unknown";
}

std::string ToString(DuplicatesPolicy policy) {
  switch (policy) {
    case DuplicatesPolicy::kUnspecified:
      return "UNSPECIFIED";
    case DuplicatesPolicy::kShared:
      return "SHARED";
    case DuplicatesPolicy::kOldestFirst:
      return "OLDEST_FIRST";
    case DuplicatesPolicy::kNewestFirst:
      return "NEWEST_FIRST";
  }
  return "UNKNOWN";
}

std::string ToString(MemoryPhase phase) {
  switch (phase) {
    case MemoryPhase::kUnspecified:
      return "UNSPECIFIED";
    case MemoryPhase::kEmpty:
      return "EMPTY";
    case MemoryPhase::kWarming:
      return "WARMING";
    case MemoryPhase::kActive:
      return "ACTIVE";
  }
  return "UNKNOWN";
}

std::string ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kUnspecified:
      return "UNSPECIFIED";
    case Verdict::kBitIdentical:
      return "BIT_IDENTICAL";
    case Verdict::kProven:
      return "PROVEN";
    case Verdict::kBounded:
      return "BOUNDED";
    case Verdict::kUncertified:
      return "UNCERTIFIED";
  }
  return "UNKNOWN";
}

std::string ToString(InsertOutcome outcome) {
  switch (outcome) {
    case InsertOutcome::kUnspecified:
      return "UNSPECIFIED";
    case InsertOutcome::kInserted:
      return "INSERTED";
    case InsertOutcome::kUnchanged:
      return "UNCHANGED";
    case InsertOutcome::kRejected:
      return "REJECTED";
  }
  return "UNKNOWN";
}

std::string ToString(QueryPosition position) {
  switch (position) {
    case QueryPosition::kUnspecified:
      return "UNSPECIFIED";
    case QueryPosition::kInside:
      return "INSIDE";
    case QueryPosition::kOutside:
      return "OUTSIDE";
    case QueryPosition::kBoundary:
      return "BOUNDARY";
    case QueryPosition::kUndefined:
      return "UNDEFINED";
  }
  return "UNKNOWN";
}

std::string NewRequestId() {
  // std::random_device reads the kernel's generator; uniqueness matters here, not secrecy.
  std::random_device device;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    char buffer[9];
    std::snprintf(buffer, sizeof(buffer), "%08x", static_cast<unsigned>(device()));
    id += buffer;
  }
  return id;
}

}  // namespace lethe::client
