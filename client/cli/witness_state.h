// What a witness remembers of a log: the largest checkpoint that it has signed.
//
// A file with the note, replaced by writing beside it, syncing, renaming and syncing the folder, so
// that a crash leaves the old state or the new one. A lock beside it keeps a second witness with
// the same file away. Threads: compatible.
#ifndef LETHE_CLIENT_CLI_WITNESS_STATE_H_
#define LETHE_CLIENT_CLI_WITNESS_STATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace lethe::cli {

class WitnessState {
 public:
  // Holds the lock until the object goes. UNAVAILABLE when another process has it or the file
  // cannot be read; FAILED_PRECONDITION when there is no file and `create` is false, or when there
  // is one and `create` is true.
  static absl::StatusOr<WitnessState> Open(const std::string& path, bool create);
  WitnessState(WitnessState&& other) noexcept;
  WitnessState& operator=(WitnessState&&) = delete;
  ~WitnessState();

  // Empty when there is none yet.
  const std::string& note() const { return note_; }
  // Durable when it returns OK.
  absl::Status Replace(absl::string_view note);

 private:
  WitnessState(std::string path, int lock, std::string note);
  std::string path_;
  int lock_;
  std::string note_;
};

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_WITNESS_STATE_H_
