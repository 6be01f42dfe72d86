#include "client/cli/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "absl/time/clock.h"

namespace lethe::cli {
namespace {

// The screen of programs like this one, and the cursor hidden; and back.
constexpr absl::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr absl::string_view kLeave = "\x1b[?25h\x1b[?1049l";
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};

// The handler writes the signal's number into a pipe, which Wait polls: the signal may come to any
// thread, at any time. Full is as good as written.
int signal_pipe[2] = {-1, -1};

extern "C" void OnSignal(int signal) {
  const int error = errno;
  const char number = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(signal_pipe[1], &number, 1);
  errno = error;
}

void WriteWhole(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a terminal that is gone; Wait finds out
    text.remove_prefix(static_cast<size_t>(written));
  }
}

class RealTerminal : public Terminal {
 public:
  ~RealTerminal() override { Leave(); }

  void Enter() override {
    if (entered_ || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    if (signal_pipe[0] < 0 && ::pipe2(signal_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;
    entered_ = true;
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      struct sigaction action {};
      action.sa_handler = OnSignal;
      action.sa_flags = SA_RESTART;
      ::sigaction(kSignals[i], &action, &actions_before_[i]);
    }
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    WriteWhole(kEnter);
  }

  void Leave() override {
    if (!entered_) return;
    entered_ = false;
    WriteWhole(kLeave);
    // What was typed meanwhile is not the shell's.
    ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      ::sigaction(kSignals[i], &actions_before_[i], nullptr);
    }
  }

  void Draw(absl::string_view frame) override { WriteWhole(frame); }

  Event Wait(absl::Duration limit) override {
    const absl::Time deadline = absl::Now() + limit;
    for (;;) {
      // Rounded up: poll must not end before the deadline and be called again for nothing.
      const int64_t left =
          absl::ToInt64Milliseconds(deadline - absl::Now() + absl::Microseconds(999));
      pollfd inputs[] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                         {.fd = signal_pipe[0], .events = POLLIN, .revents = 0}};
      const int ready =
          ::poll(inputs, 2, static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000)));
      if (ready == 0) return Event::kTimeout;
      if (ready < 0) {
        if (errno == EINTR) continue;
        return Event::kQuit;
      }
      char byte = 0;
      if (inputs[1].revents != 0 && ::read(signal_pipe[0], &byte, 1) == 1) {
        return byte == SIGWINCH ? Event::kResized : Event::kQuit;
      }
      if (inputs[0].revents == 0) continue;
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return Event::kQuit;
      if (got == 1 && (byte == 'q' || byte == 'Q' || byte == '\x03' || byte == '\x04')) {
        return Event::kQuit;
      }
    }
  }

  size_t columns() const override { return Size().ws_col; }
  size_t rows() const override { return Size().ws_row; }

 private:
  static winsize Size() {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
      size.ws_col = 80;
      size.ws_row = 24;
    }
    return size;
  }

  bool entered_ = false;
  termios before_{};
  struct sigaction actions_before_[std::size(kSignals)] = {};
};

}  // namespace

std::unique_ptr<Terminal> OpenTerminal() {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDOUT_FILENO) != 1) return nullptr;
  return std::make_unique<RealTerminal>();
}

}  // namespace lethe::cli
