// A terminal that a live view draws on and takes keys from.
#ifndef LETHE_CLIENT_CLI_TERMINAL_H_
#define LETHE_CLIENT_CLI_TERMINAL_H_

#include <cstddef>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace lethe::cli {

class Terminal {
 public:
  enum class Event {
    kTimeout,
    kResized,
    kQuit,  // q, Ctrl-C, Ctrl-D, the end of the input, or a signal that asks to end
  };

  virtual ~Terminal() = default;
  // Draws on a screen of its own and takes keys unbuffered, until Leave.
  virtual void Enter() = 0;
  // Everything as it was. Does nothing without Enter.
  virtual void Leave() = 0;
  // One write, whole.
  virtual void Draw(absl::string_view frame) = 0;
  // Waits for one of these; other keys are passed over.
  virtual Event Wait(absl::Duration limit) = 0;
  virtual size_t columns() const = 0;
  virtual size_t rows() const = 0;
};

// On standard input and output; null where either is no terminal. At most one in a process: between
// Enter and Leave it handles SIGINT, SIGTERM, SIGHUP and SIGWINCH. Its destructor leaves.
std::unique_ptr<Terminal> OpenTerminal();

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_TERMINAL_H_
