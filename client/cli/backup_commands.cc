// lethe backup: copies of tenants in folders, checked offline, and tenants put back from them.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/encoding.h"
#include "client/cli/backup_folder.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/progress.h"
#include "client/cli/render.h"
#include "client/cli/small_file.h"
#include "client/retry.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

// What the server takes in a message.
constexpr size_t kPieceBytes = size_t{1} << 20;

struct Arguments {
  std::string tenant;
  std::string folder;
  std::vector<std::string> keys;
  std::string key_file;
  bool replace = false;
};

// A bar on a terminal, once the size of the file is known.
class Bar {
 public:
  explicit Bar(Context& context) : context_(context) {}
  void operator()(uint64_t bytes, uint64_t of) {
    if (!progress_.has_value()) {
      progress_.emplace(context_.io().err, context_.io().err_is_terminal && !context_.globals.quiet,
                        of, "bytes");
    }
    progress_->Update(bytes, bytes);
  }
  void Wipe() {
    if (progress_.has_value()) progress_->Wipe();
  }

 private:
  Context& context_;
  std::optional<Progress> progress_;
};

Json ToJson(const audit::BackupManifest& manifest, const std::string& folder) {
  return {{"folder", folder},
          {"tenant", manifest.tenant},
          {"uid", manifest.uid},
          {"time", manifest.time},
          {"log_origin", manifest.origin},
          {"log_size", manifest.log_size},
          {"log_root", audit::Hex(manifest.log_root)},
          {"file_bytes", manifest.file_bytes},
          {"file_sha256", audit::Hex(manifest.file_sha256)}};
}

Json ToJson(const client::RestoreResult& result) {
  return {{"tenant", result.tenant},
          {"certificate_id", result.certificate_id},
          {"copy_size", result.copy_size},
          {"reapplied", result.reapplied},
          {"removed", result.removed},
          {"unreadable", result.unreadable},
          {"memories_removed", result.memories_removed},
          {"keys_destroyed", result.keys_destroyed},
          {"requests_lost", result.requests_lost},
          {"holds_lost", result.holds_lost},
          {"requests_ended", result.requests_ended},
          {"holds_released", result.holds_released}};
}

// Sheets of fields, an object each, with an empty line between them; a list in JSON.
class Sheets {
 public:
  // `one`: a single object, no list.
  Sheets(Context& context, bool one) : context_(context), one_(one) {}
  void Add(const Json& json, const Fields& fields) {
    if (one_ || context_.globals.output != OutputFormat::kJson) {
      if (!first_ && context_.globals.output == OutputFormat::kTable) context_.io().out << "\n";
      Print(context_, json, RenderFields(fields));
    } else {
      list_.push_back(json);
    }
    first_ = false;
  }
  void Finish() {
    if (!one_ && context_.globals.output == OutputFormat::kJson) Print(context_, list_, "");
  }

 private:
  Context& context_;
  const bool one_;
  bool first_ = true;
  Json list_ = Json::array();
};

// Runs `run` for each; the status of the first that fails.
int ForEach(const std::vector<std::string>& items,
            const std::function<int(const std::string&)>& run) {
  int status = kExitOk;
  for (const std::string& item : items) {
    const int got = run(item);
    if (status == kExitOk) status = got;
  }
  return status;
}

// --- create

// Names become folders, and may come from a server.
bool IsFolderName(const std::string& tenant) {
  return !tenant.empty() && std::all_of(tenant.begin(), tenant.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
  });
}

int CreateOne(Context& context, const std::string& tenant, const std::string& to, Sheets& sheets) {
  const auto file_error = [&](const absl::Status& status) {
    return context.FileError(absl::StrCat("tenant ", tenant, ": ", status.message()));
  };
  if (!IsFolderName(tenant)) {
    return context.UsageError("tenant: must be 1 to 63 characters of a-z, 0-9 and -");
  }
  absl::StatusOr<std::unique_ptr<BackupWriter>> writer = BackupWriter::Create(to, tenant);
  if (!writer.ok()) return file_error(writer.status());
  Bar bar(context);
  uint64_t bytes = 0;
  absl::Status local;  // what went wrong on this side
  const absl::StatusOr<std::string> note =
      context.client().CreateBackup(tenant, [&](const client::BackupPiece& piece) {
        local = (*writer)->Write(piece.data);
        bytes += piece.data.size();
        bar(bytes, piece.file_bytes);
        return local;
      });
  bar.Wipe();
  if (!local.ok()) return file_error(local);
  if (!note.ok()) {
    return context.RpcError(absl::Status(
        note.status().code(), absl::StrCat("tenant ", tenant, ": ", note.status().message())));
  }
  const absl::StatusOr<audit::BackupManifest> manifest = (*writer)->Finish(*note);
  if (!manifest.ok()) {
    return absl::IsFailedPrecondition(manifest.status()) ||
                   absl::IsInvalidArgument(manifest.status())
               ? context.NotVerified(absl::StrCat("what the server sent is not whole: ",
                                                  manifest.status().message()))
               : file_error(manifest.status());
  }
  const std::string folder = absl::StrCat(to, "/", tenant);
  sheets.Add(ToJson(*manifest, folder), {{"tenant", tenant},
                                         {"to", folder},
                                         {"certificates", FormatCount(manifest->log_size)},
                                         {"bytes", FormatCount(manifest->file_bytes)},
                                         {"sha256", audit::Hex(manifest->file_sha256)}});
  return kExitOk;
}

int Create(Context& context, const Arguments& arguments) {
  std::string to = arguments.folder;
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  if (!arguments.tenant.empty()) {
    Sheets sheets(context, /*one=*/true);
    return CreateOne(context, arguments.tenant, to, sheets);
  }
  std::vector<std::string> tenants;
  for (const absl::StatusOr<client::Tenant>& tenant : context.client().ListTenants()) {
    if (!tenant.ok()) return context.RpcError(tenant.status());
    tenants.push_back(tenant->name);
  }
  if (tenants.empty()) context.Note("no tenants");
  Sheets sheets(context, /*one=*/false);
  const int status = ForEach(
      tenants, [&](const std::string& tenant) { return CreateOne(context, tenant, to, sheets); });
  sheets.Finish();
  return status;
}

// --- verify

absl::StatusOr<std::vector<audit::VerificationKey>> PinnedKeys(const Arguments& arguments) {
  std::vector<std::string> texts = arguments.keys;
  if (!arguments.key_file.empty()) {
    LETHE_ASSIGN_OR_RETURN(const std::string content, ReadSmallFile(arguments.key_file));
    for (const absl::string_view line : absl::StrSplit(content, '\n')) {
      const absl::string_view key = absl::StripAsciiWhitespace(line);
      if (!key.empty()) texts.emplace_back(key);
    }
  }
  if (texts.empty()) {
    return absl::InvalidArgumentError(
        "the tenant's verification key is needed: --key VKEY or --key-file PATH");
  }
  std::vector<audit::VerificationKey> keys;
  for (const std::string& text : texts) {
    absl::StatusOr<audit::VerificationKey> key = audit::VerificationKey::Parse(text);
    if (!key.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--key: ", key.status().message()));
    }
    keys.push_back(*std::move(key));
  }
  return keys;
}

// A backup that is not what its manifest says, or a file that cannot be read.
int BadBackup(Context& context, const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status)
             ? context.NotVerified(status.message())
             : context.FileError(status.message());
}

absl::StatusOr<FoundBackup> Read(Context& context, const std::string& folder) {
  Bar bar(context);
  absl::StatusOr<FoundBackup> found = ReadBackup(folder, std::ref(bar));
  bar.Wipe();
  return found;
}

int Verify(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::vector<audit::VerificationKey>> keys = PinnedKeys(arguments);
  if (!keys.ok()) {
    return absl::IsInvalidArgument(keys.status()) ? context.UsageError(keys.status().message())
                                                  : context.FileError(keys.status().message());
  }
  const absl::StatusOr<std::vector<std::string>> folders = FindBackups(arguments.folder);
  if (!folders.ok()) return context.FileError(folders.status().message());
  Sheets sheets(context, folders->size() == 1);
  const int status = ForEach(*folders, [&](const std::string& folder) {
    const absl::StatusOr<FoundBackup> found = Read(context, folder);
    if (!found.ok()) return BadBackup(context, found.status());
    if (const absl::Status is_signed = CheckSigned(*found, *keys); !is_signed.ok()) {
      return context.NotVerified(absl::StrCat(folder, ": ", is_signed.message()));
    }
    const audit::BackupManifest& manifest = found->manifest;
    Json json = ToJson(manifest, folder);
    json["verified"] = true;
    sheets.Add(json, {{"verified", "yes: signature, size and SHA-256"},
                      {"tenant", manifest.tenant},
                      {"folder", folder},
                      {"time", manifest.time},
                      {"certificates", FormatCount(manifest.log_size)},
                      {"bytes", FormatCount(manifest.file_bytes)}});
    return kExitOk;
  });
  sheets.Finish();
  return status;
}

// --- restore

int RestoreOne(Context& context, const std::string& folder, bool replace, Sheets& sheets) {
  // What is damaged here is not sent.
  const absl::StatusOr<FoundBackup> found = Read(context, folder);
  if (!found.ok()) return BadBackup(context, found.status());
  const std::string path = absl::StrCat(folder, "/", kBackupFile);
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return context.FileError(SystemError(errno, "read it", path).message());
  Bar bar(context);
  uint64_t bytes = 0;
  absl::Status local;
  const absl::StatusOr<client::RestoreResult> result = context.client().RestoreBackup(
      {.manifest = found->note, .replace = replace}, [&]() -> absl::StatusOr<std::string> {
        std::string piece(kPieceBytes, '\0');
        const absl::StatusOr<size_t> count = ReadNext(file.get(), piece.data(), piece.size(), path);
        if (!count.ok()) return local = count.status();
        piece.resize(*count);
        bytes += piece.size();
        bar(bytes, found->manifest.file_bytes);
        return piece;
      });
  bar.Wipe();
  if (!local.ok()) return context.FileError(local.message());
  if (!result.ok()) {
    const absl::Status& status = result.status();
    const int exit = context.RpcError(absl::Status(
        status.code(), absl::StrCat("tenant ", found->manifest.tenant, ": ", status.message())));
    if (client::IsTransient(status) || absl::IsDeadlineExceeded(status)) {
      context.Note(
          "it may have happened; `lethe certificate list` ends with one of kind restored then");
    }
    return exit;
  }
  sheets.Add(ToJson(*result), {{"tenant", result->tenant},
                               {"certificate", result->certificate_id},
                               {"certificates in the copy", FormatCount(result->copy_size)},
                               {"certificates put back", FormatCount(result->reapplied)},
                               {"tokens taken out again", FormatCount(result->removed)},
                               {"tokens lost with their keys", FormatCount(result->unreadable)},
                               {"memories deleted again", FormatCount(result->memories_removed)},
                               {"keys destroyed", FormatCount(result->keys_destroyed)},
                               {"erasure requests lost", FormatCount(result->requests_lost)},
                               {"legal holds lost", FormatCount(result->holds_lost)}});
  return kExitOk;
}

int Restore(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::vector<std::string>> folders = FindBackups(arguments.folder);
  if (!folders.ok()) return context.FileError(folders.status().message());
  Sheets sheets(context, folders->size() == 1);
  const int status = ForEach(*folders, [&](const std::string& folder) {
    return RestoreOne(context, folder, arguments.replace, sheets);
  });
  sheets.Finish();
  return status;
}

}  // namespace

void AddBackupCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App* group = AddGroup(app, "backup", "Copy tenants, check the copies, put them back");
  auto arguments = std::make_shared<Arguments>();
  CLI::App* create =
      AddVerb(*group, "create", "Write a copy of a tenant, or of all, with a signed manifest",
              "The copy is sealed and of no use without the server's keys: the vault and the\n"
              "signing key are copied apart (docs/backups.md).\n"
              "Of several tenants, one that fails is named and the others are copied; the exit\n"
              "status is that of the first that failed.");
  create
      ->add_option("tenant", arguments->tenant,
                   "The tenant (default: all of them, whatever --tenant says)")
      ->type_name("");
  create
      ->add_option("--out", arguments->folder,
                   "A folder that gets a new folder a tenant; made when missing")
      ->required()
      ->type_name("DIR");
  create->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Create(context, *arguments); };
  });

  CLI::App* verify =
      AddVerb(*group, "verify", "Check backups against pinned keys, without a server",
              "The key is the one that the log had when the copy was made. Exit status 3 when\n"
              "a check fails; it is named.");
  verify->add_option("dir", arguments->folder, "A backup, or a folder of several")
      ->required()
      ->type_name("");
  verify
      ->add_option("--key", arguments->keys,
                   "The tenant's verification key; may be repeated, for several tenants or keys")
      ->type_name("VKEY");
  verify->add_option("--key-file", arguments->key_file, "A file with such keys, one a line")
      ->type_name("PATH");
  verify->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Verify(context, *arguments); };
  });

  CLI::App* restore =
      AddVerb(*group, "restore", "Put a tenant back from a backup, or each of several",
              "The server does the erasures again that the copy does not know of, before it\n"
              "serves anything, and its log says so (`restored`). A tenant that is served is\n"
              "replaced with --replace only: what was inserted since the backup is lost then.\n"
              "Erasures are never lost.");
  restore->add_option("dir", arguments->folder, "A backup, or a folder of several")
      ->required()
      ->type_name("");
  restore->add_flag("--replace", arguments->replace,
                    "Also a tenant that is served: what it got since the backup is lost");
  restore->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Restore(context, *arguments); };
  });
}

}  // namespace lethe::cli
