// The shortest useful program: remember two visits, ask, forget one patient, keep the proof.
#include <iostream>

#include "client/client.h"

int main() {
  using namespace lethe::client;
  Client client(MakeConnection({.address = "127.0.0.1:7421"}));
  const MemoryName visits{"clinic", "visits"};
  client.CreateTenant(visits.tenant).IgnoreError();
  client
      .CreateMemory(
          visits,
          {.kernel = Kernel::Rbf(0.5), .capacity = 1, .key_dimension = 2, .value_dimension = 1})
      .IgnoreError();
  auto inserted = client.Insert(
      visits, {{.id = "v1", .key = {0.1, 0.2}, .value = {4.0}, .subject = "patient-1"},
               {.id = "v2", .key = {0.3, 0.1}, .value = {6.0}, .subject = "patient-2"}});
  auto answer = client.Query(visits, {0.2, 0.2});
  auto forgotten = client.Forget({.name = visits, .subject = "patient-1"});
  if (!inserted.ok() || !answer.ok() || !forgotten.ok()) return 1;
  std::cout << answer->readout[0] << ", certificate " << forgotten->certificate_id << "\n";
}
