// Remembers two visits, asks for an average, forgets one patient and prints the certificate's id.
#include <iostream>

#include "client/client.h"

int main() {
  using namespace lethe::client;
  Client client(MakeConnection({.address = "127.0.0.1:7421"}));
  const MemoryName visits{"clinic", "visits"};
  const MemoryConfig config{
      .kernel = Kernel::Rbf(0.5), .capacity = 1, .key_dimension = 2, .value_dimension = 1};
  if (!client.CreateTenant("clinic").ok() || !client.CreateMemory(visits, config).ok()) return 1;
  auto inserted = client.Insert(
      visits, {{.id = "v1", .key = {0.1, 0.2}, .value = {4.0}, .subject = "patient-1"},
               {.id = "v2", .key = {0.3, 0.1}, .value = {6.0}, .subject = "patient-2"}});
  auto answer = client.Query(visits, {0.2, 0.2});
  auto forgotten = client.Forget({.name = visits, .subject = "patient-1"});
  if (!inserted.ok() || !answer.ok() || !forgotten.ok()) return 1;
  std::cout << answer->readout[0] << "\n" << forgotten->certificate_id << "\n";
}
