// A service with something in it, for the targets whose inputs are calls of one.
//
// Each input finds the same folder: one that was prepared once is copied whenever the input before
// it has changed something. Its clock goes by itself and does not know the time of day.
//
//     tenant t    memory m       rbf in the plane, capacity 3, seven tokens a0 to a5 and "b", one
//                                erased
//                 memory dot     exp_dot on the line, box 1/2, tokens c0 to c2
//                 memory empty
//                 a hold on subject "held", a request for "later" that begins in a day
//     tenant u    memory m       one token
//
// Threads: compatible.
#ifndef LETHE_TESTS_FUZZ_WORLD_H_
#define LETHE_TESTS_FUZZ_WORLD_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/program/event_log.h"
#include "server/service/service.h"

namespace lethe::fuzz {

class World {
 public:
  // `name`: of its folder, among those of the process.
  explicit World(const std::string& name);

  // Not to be kept beyond the input, nor beyond Restart.
  service::Service* service() { return service_.get(); }
  // Grows whenever there is another service.
  uint64_t generation() const { return generation_; }

  // Puts in what nobody can know beforehand: "@certificate@", "@cosignature@", "@hold@",
  // "@request@".
  std::string Fill(absl::string_view text) const;

  // Closes the service and opens its folder again; no memory may be another one afterwards.
  void Restart();
  void Pass(absl::Duration time) { now_micros_ += absl::ToInt64Microseconds(time); }

  // The input is over; `changed`: something may not be as it was. Then what is there must be there
  // after a restart too, and the next input finds the prepared folder again.
  void EndInput(bool changed);

  // What a call may be answered with here, where nothing fails and nobody else calls.
  static void CheckCode(absl::string_view call, const absl::Status& status);

 private:
  service::ServiceOptions Options(const std::string& data);
  void Open(const std::string& data);
  void Prepare();
  // By tenant and memory.
  std::map<std::string, std::string> Digests();

  const std::string prepared_;
  const std::string live_;
  program::EventLog log_{-1, program::LogLevel::kError};
  int64_t now_micros_;
  std::map<std::string, std::string> words_;
  int64_t prepared_micros_ = 0;
  uint64_t generation_ = 0;
  std::unique_ptr<service::Service> service_;
};

}  // namespace lethe::fuzz

#endif  // LETHE_TESTS_FUZZ_WORLD_H_
