// Between the client's values of erasure_types.h and proto/lethe/v1/erasure_service.proto, as
// convert.h. Threads: functions without state.
#ifndef LETHE_CLIENT_CONVERT_ERASURE_H_
#define LETHE_CLIENT_CONVERT_ERASURE_H_

#include <vector>

#include "client/erasure_types.h"
#include "lethe/v1/erasure_service.pb.h"

namespace lethe::client::convert {

void ToWire(const std::vector<Identity>& identities,
            google::protobuf::RepeatedPtrField<v1::Identity>* wire);
v1::CreateErasureRequestRequest ToWire(const NewErasureRequest& request);
v1::PlaceHoldRequest ToWire(const NewHold& hold);

ErasureRequest FromWire(const v1::ErasureRequest& wire);
std::vector<ErasureReceipt> FromWire(const v1::TakeErasureReceiptsResponse& wire);
Discovery FromWire(const v1::DiscoverResponse& wire);
Hold FromWire(const v1::Hold& wire);

}  // namespace lethe::client::convert

#endif  // LETHE_CLIENT_CONVERT_ERASURE_H_
