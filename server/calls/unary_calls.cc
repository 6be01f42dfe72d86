#include "server/calls/unary_calls.h"

#include <iterator>

namespace lethe::calls {

std::vector<UnaryCall> AllUnaryCalls(service::Service* service) {
  std::vector<UnaryCall> all = TenantCalls(service);
  for (std::vector<UnaryCall> more : {MemoryCalls(service), CertificateCalls(service),
                                      ErasureCalls(service), JobCalls(service)}) {
    all.insert(all.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
  }
  return all;
}

}  // namespace lethe::calls
