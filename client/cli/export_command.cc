// lethe export: the files of a log, from the server's stream into a folder or a .tar.
//
// They go to a place beside the target, which takes its name only when all is there and on the
// disk.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "audit/export_sinks.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/numbers.h"
#include "client/cli/render.h"
#include "client/cli/small_file.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string tenant;
  std::string to;
  uint64_t first = 0;
  std::optional<uint64_t> last;
};

absl::Status CheckTarget(const std::string& to, bool tar) {
  std::error_code error;
  if (tar ? !fs::exists(fs::symlink_status(to, error)) : IsNewOrEmptyFolder(to)) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      absl::StrCat(to, tar ? ": exists" : ": exists and is not an empty folder"));
}

// Writes pieces as files. The stream comes from a server: the sink judges each path.
class Receiver {
 public:
  explicit Receiver(audit::ExportSink* sink) : sink_(sink) {}

  absl::Status Take(const client::ExportPiece& piece) {
    if (!piece.path.empty()) {
      if (open_) LETHE_RETURN_IF_ERROR(sink_->End());
      open_ = false;
      LETHE_RETURN_IF_ERROR(sink_->Begin(piece.path));
      open_ = true;
      if (absl::EndsWith(piece.path, ".envelope.json")) ++certificates_;
    } else if (!open_) {
      return absl::InvalidArgumentError("the server sent bytes of no file");
    }
    return piece.data.empty() ? absl::OkStatus() : sink_->Write(piece.data);
  }
  absl::Status Finish() {
    if (!std::exchange(open_, false)) return absl::OkStatus();
    return sink_->End();
  }
  uint64_t certificates() const { return certificates_; }

 private:
  audit::ExportSink* sink_;
  bool open_ = false;
  uint64_t certificates_ = 0;
};

// A folder may take the place of an empty one; nothing else is replaced.
bool TakeName(const std::string& part, const std::string& to, bool tar) {
  if (!tar) return ::rename(part.c_str(), to.c_str()) == 0;
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  // Some file systems cannot do that in one step.
  if (errno != EINVAL && errno != ENOSYS) return false;
  if (::access(to.c_str(), F_OK) == 0) {
    errno = EEXIST;
    return false;
  }
  return ::rename(part.c_str(), to.c_str()) == 0;
}

int Export(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant(arguments.tenant);
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  std::string to = arguments.to;
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  const bool tar = absl::EndsWith(to, ".tar");
  if (const absl::Status free = CheckTarget(to, tar); !free.ok()) {
    return context.FileError(free.message());
  }
  const std::string part = absl::StrCat(to, ".part-", client::NewRequestId());
  absl::Cleanup remove_part = [&part] {
    std::error_code ignored;
    fs::remove_all(part, ignored);
  };
  absl::StatusOr<std::unique_ptr<audit::FileSink>> sink =
      tar ? audit::CreateTarSink(part) : audit::CreateFolderSink(part);
  if (!sink.ok()) return context.FileError(sink.status().message());
  Receiver receiver(sink->get());
  absl::Status local;  // what went wrong on this side
  const absl::StatusOr<client::ExportSummary> summary =
      context.client().Export({.tenant = *tenant, .first = arguments.first, .last = arguments.last},
                              [&](const client::ExportPiece& piece) {
                                local = receiver.Take(piece);
                                return local;
                              });
  if (!local.ok()) return context.FileError(local.message());
  if (!summary.ok()) return context.RpcError(summary.status());
  local = receiver.Finish();
  if (local.ok()) local = (*sink)->Finish();
  if (!local.ok()) return context.FileError(local.message());
  sink->reset();
  if (!TakeName(part, to, tar)) {
    return context.FileError(
        absl::StrCat(to, ": cannot be given its name: ", std::strerror(errno)));
  }
  std::move(remove_part).Cancel();
  if (const absl::Status synced = SyncFolder(FolderOf(to)); !synced.ok()) {
    return context.FileError(synced.message());
  }
  Print(context,
        {{"certificates", receiver.certificates()},
         {"files", summary->files},
         {"bytes", summary->bytes},
         {"to", to}},
        RenderFields({{"certificates", FormatCount(receiver.certificates())},
                      {"files", FormatCount(summary->files)},
                      {"bytes", FormatCount(summary->bytes)},
                      {"to", to}}));
  return kExitOk;
}

}  // namespace

void AddExportCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = AddVerb(app, "export", "Write a tenant's log for others to check",
                           "lethe-verify reads the result; its report.html is for people.");
  verb->add_option("tenant", arguments->tenant, "The tenant (default: --tenant)")->type_name("");
  verb->add_option("--to", arguments->to, "A new or empty folder, or a new file that ends in .tar")
      ->required()
      ->type_name("PATH");
  verb->add_option("--first", arguments->first, "Sequence number to begin at (default 0)")
      ->check(CheckDigits)
      ->type_name("N");
  verb->add_option("--last", arguments->last, "Sequence number to end with (default: the end)")
      ->check(CheckDigits)
      ->type_name("N");
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Export(context, *arguments); };
  });
}

}  // namespace lethe::cli
