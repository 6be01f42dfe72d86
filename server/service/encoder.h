// The encoder in front of a memory (core/model/memory_encoder.h): what it makes of a configuration,
// and of what clients send. Threads: functions without state.
#ifndef LETHE_SERVER_SERVICE_ENCODER_H_
#define LETHE_SERVER_SERVICE_ENCODER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/model/memory_encoder.h"
#include "server/service/types.h"

namespace lethe::service {

using EncoderPtr = std::shared_ptr<const model::MemoryEncoder>;

// Reads config.encoder, of which the configuration then keeps what EncoderInfo says. The
// dimensions, and the kernel where it is absent, become those of the encoder; the kernel's
// parameter has the same bits on every machine. INVALID_ARGUMENT names the field: no encoder,
// dimensions that are set and differ. Requires config.encoder not to be empty.
absl::StatusOr<EncoderPtr> AttachEncoder(MemoryConfig& config);
// What AttachEncoder has read once. DATA_LOSS: it is not what `info` says.
absl::StatusOr<EncoderPtr> ReadEncoder(const std::string& artefact, const EncoderInfo& info);

// The numbers that encoding one request may make: as many as a message could bring.
inline constexpr uint64_t kMaxEncodedNumbers = uint64_t{1} << 21;
// INVALID_ARGUMENT names `field` where so many rows of this kind would make more.
absl::Status CheckEncodedSize(absl::string_view field, uint64_t rows, uint64_t numbers);
absl::Status CheckEncodedTokens(const model::MemoryEncoder& encoder, uint64_t tokens);

// Puts what the memory keeps in the place of what came. The error is about numbers of `token` that
// are not as many as the encoder takes, not finite, or finite and not so when they are projected.
std::optional<ItemError> EncodeToken(const model::MemoryEncoder& encoder,
                                     absl::string_view prefix,
                                     TokenInput& token);
// INVALID_ARGUMENT names the field, "queries[3]". Asks now and then whether it is still wanted.
absl::Status EncodeQueries(const model::MemoryEncoder& encoder,
                           const CallOptions& call,
                           QueryInput& input);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_ENCODER_H_
