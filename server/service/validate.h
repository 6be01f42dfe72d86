// Checks of what a client sends, before anything changes. Every error names its field.
#ifndef LETHE_SERVER_SERVICE_VALIDATE_H_
#define LETHE_SERVER_SERVICE_VALIDATE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/svdd/memory.h"
#include "core/svdd/problem.h"
#include "server/service/types.h"

namespace lethe::service {

// The problem that the configuration states. INVALID_ARGUMENT names "config.kernel", "config.box",
// "config.capacity", "config.key_dimension", ...
absl::StatusOr<svdd::MemoryOptions> ToOptions(const MemoryConfig& config);

// Replaces -0.0 by 0.0 in the key, so that keys equal as numbers are equal as bytes.
void NormaliseKey(std::vector<double>& key);

// Splits "<field>: <what>"; the field of the result starts with `prefix`.
ItemError ToItemError(const absl::Status& status, absl::string_view prefix);

// Id (which may be empty), subject, payload, labels, key and value of one token; nullopt when all
// is well. The error's field starts with `prefix`, for example "tokens[3]" -> "tokens[3].key[1]".
std::optional<ItemError> CheckToken(const TokenInput& token,
                                    const svdd::ExactMemory& memory,
                                    absl::string_view prefix);

// Dimension, finiteness and kernel overflow of one query. INVALID_ARGUMENT names "queries[i]" or
// "queries[i].values[j]".
absl::Status CheckQuery(std::span<const double> query,
                        const svdd::MemoryOptions& options,
                        size_t index);

inline constexpr size_t kMaxLocalKeys = 1024;

// Of a local chunk beside this many queries. INVALID_ARGUMENT names "local.keys" and the like.
absl::Status CheckLocalCounts(const LocalChunkInput& chunk, size_t queries);
// Its counts, dimensions and limits. INVALID_ARGUMENT names
// "local.keys[i].values[j]" and the like.
absl::Status CheckLocalChunk(const LocalChunkInput& chunk,
                             const svdd::MemoryOptions& options,
                             size_t queries);

// "tokens[3]"
std::string Indexed(absl::string_view field, size_t index);

// INVALID_ARGUMENT names `field` for 0 or more than 10,000 items.
absl::Status CheckBatchSize(absl::string_view field, size_t size);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_VALIDATE_H_
