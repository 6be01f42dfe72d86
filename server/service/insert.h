// What an Insert means for a memory: which tokens are new, which are there already, which are
// refused.
#ifndef LETHE_SERVER_SERVICE_INSERT_H_
#define LETHE_SERVER_SERVICE_INSERT_H_

#include <cstdint>
#include <vector>

#include "core/model/memory_encoder.h"
#include "server/service/memory_state.h"
#include "server/service/types.h"

namespace lethe::service {

struct InsertPlan {
  std::vector<InsertReply> replies;     // one a batch; phase and partition are left to the caller
  std::vector<AcceptedToken> accepted;  // what has to be appended, in order
};

// Judges the batches in order against the state and against each other: an id that is repeated with
// the same content is UNCHANGED, with other content REJECTED. Gives new tokens handles from
// `next_handle` on, ids where they have none, and salts. Changes nothing.
// `encoder` may be null.
InsertPlan PlanInsert(const MemoryState& state,
                      const model::MemoryEncoder* encoder,
                      uint64_t next_handle,
                      std::vector<std::vector<TokenInput>> batches);

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_INSERT_H_
