#include <algorithm>
#include <filesystem>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/verify.h"
#include "client/cli/certificate_view.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "client/cli/small_file.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

constexpr size_t kIdDigits = 64;
constexpr size_t kMinPrefix = 8;
constexpr size_t kShownDigits = 16;

struct Arguments {
  std::string which;
  std::string key;
  std::string key_file;
};

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  });
}

// `which`: an id, its first digits (at least eight), or a sequence number of up to seven.
absl::StatusOr<client::Certificate> Find(client::Client& client,
                                         const std::string& tenant,
                                         const std::string& which) {
  if (which.size() >= kIdDigits) return client.GetCertificate(tenant, which);
  uint64_t sequence = 0;
  const bool by_sequence = which.size() < kMinPrefix && absl::SimpleAtoi(which, &sequence);
  if (!by_sequence && (which.size() < kMinPrefix || !IsHex(which))) {
    return absl::InvalidArgumentError(
        "id: 64 hex digits, the first eight or more of them, or a sequence number");
  }
  std::optional<client::Certificate> found;
  for (const absl::StatusOr<client::Certificate>& item : client.ListCertificates(tenant)) {
    LETHE_RETURN_IF_ERROR(item.status());
    if (by_sequence ? item->sequence != sequence : !absl::StartsWith(item->id, which)) continue;
    if (found.has_value()) return absl::InvalidArgumentError("id: several certificates begin so");
    found = *item;
  }
  if (!found.has_value()) return absl::NotFoundError("no such certificate");
  return *std::move(found);
}

int List(Context& context) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  ListPrinter list(context, {{.title = "SEQUENCE", .right = true},
                             {.title = "KIND"},
                             {.title = "MEMORY", .flexible = true},
                             {.title = "CREATED", .flexible = true},
                             {.title = "ID"}});
  client::Client client = context.client();
  for (const absl::StatusOr<client::Certificate>& item :
       client.ListCertificates(*tenant, context.globals.memory)) {
    if (!item.ok()) return context.RpcError(item.status());
    list.Add(ToJson(*item), {std::to_string(item->sequence), item->kind, item->memory,
                             item->create_time, item->id.substr(0, kShownDigits)});
  }
  list.Finish("no certificates");
  return kExitOk;
}

int Show(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  client::Client client = context.client();
  const absl::StatusOr<client::Certificate> certificate = Find(client, *tenant, arguments.which);
  if (!certificate.ok()) return context.RpcError(certificate.status());
  const absl::StatusOr<Json> statement = DecodeStatement(certificate->envelope);
  if (!statement.ok()) return context.NotVerified(statement.status().message());
  Json json = ToJson(*certificate);
  json["statement"] = ReadableNumbers(*statement);
  Print(context, json,
        RenderFields({{"certificate", certificate->id},
                      {"leaf hash", certificate->leaf_hash},
                      {"memory", certificate->memory}}) +
            "\nSigned statement (not verified here)\n" + RenderStatement(*statement));
  return kExitOk;
}

absl::StatusOr<audit::VerificationKey> PinnedKey(const Arguments& arguments) {
  if (arguments.key.empty() == arguments.key_file.empty()) {
    return absl::InvalidArgumentError(
        "the tenant's verification key is needed: --key VKEY or --key-file PATH");
  }
  std::string text = arguments.key;
  if (text.empty()) {
    LETHE_ASSIGN_OR_RETURN(text, ReadSmallFile(arguments.key_file));
    text = std::string(absl::StripAsciiWhitespace(text));
  }
  absl::StatusOr<audit::VerificationKey> key = audit::VerificationKey::Parse(text);
  if (!key.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--key: ", key.status().message()));
  }
  return key;
}

int ReportCertificate(Context& context, const audit::CertificateResult& result, bool leaf_given) {
  if (!result.ok()) {
    return context.NotVerified(
        absl::StrCat(std::string(audit::Name(result.failure)), ": ", result.message));
  }
  const std::string kind(audit::Name(result.body->kind));
  const std::string leaf_hash = audit::Hex(result.leaf_hash);
  Json json = {{"verified", true},
               {"leaf_checked", leaf_given},
               {"id", result.id},
               {"origin", result.body->origin},
               {"sequence", result.body->sequence},
               {"kind", kind},
               {"leaf_hash", leaf_hash}};
  Fields fields = {{"verified", leaf_given ? "yes: signature, statement and log entry"
                                           : "yes: signature and statement; leaf not given"},
                   {"certificate", result.id},
                   {"origin", result.body->origin},
                   {"sequence", FormatCount(result.body->sequence)},
                   {"kind", kind},
                   {"leaf hash", leaf_hash}};
  if (result.body->change.has_value() && result.body->change->selection.has_value()) {
    const audit::Selection& selection = *result.body->change->selection;
    json["selection"] = {
        {"budget", selection.budget},
        {"reserve", selection.reserve},
        {"surplus", selection.surplus},
        {"retained", selection.retained},
        {"scope",
         {{"now", std::string(audit::kScopeNow)}, {"later", std::string(audit::kScopeLater)}}}};
    fields.push_back(
        {"taken out", absl::StrCat(FormatCount(selection.reserve), " from reserve, ",
                                   FormatCount(selection.surplus), " surplus copies")});
    fields.push_back({"retained", absl::StrCat(FormatCount(selection.retained), ", the budget was ",
                                               FormatCount(selection.budget))});
    fields.push_back({"scope", "no readout changed at that time; from then on changes"});
    fields.push_back({"", "are measured against the tokens retained"});
  }
  Print(context, json, RenderFields(fields));
  return kExitOk;
}

// Files first: they need no server.
int Verify(Context& context, const Arguments& arguments) {
  const absl::StatusOr<audit::VerificationKey> key = PinnedKey(arguments);
  if (!key.ok()) {
    return absl::IsInvalidArgument(key.status()) ? context.UsageError(key.status().message())
                                                 : context.FileError(key.status().message());
  }
  std::error_code error;
  if (!std::filesystem::exists(arguments.which, error)) {
    if (absl::StrContains(arguments.which, "/") || absl::StrContains(arguments.which, ".")) {
      return context.FileError(absl::StrCat(arguments.which, ": No such file or directory"));
    }
    const absl::StatusOr<std::string> tenant = context.Tenant();
    if (!tenant.ok()) return context.UsageError(tenant.status().message());
    client::Client client = context.client();
    const absl::StatusOr<client::Certificate> found = Find(client, *tenant, arguments.which);
    if (!found.ok()) return context.RpcError(found.status());
    const audit::CertificateResult result =
        audit::VerifyCertificate(found->envelope, absl::string_view(found->leaf), *key);
    if (result.ok() && arguments.which.size() == kIdDigits && result.id != arguments.which) {
      return context.NotVerified("the server sent another certificate than the one asked for");
    }
    return ReportCertificate(context, result, /*leaf_given=*/true);
  }
  const absl::StatusOr<std::string> envelope = ReadSmallFile(arguments.which);
  if (!envelope.ok()) return context.FileError(envelope.status().message());
  // An editor's or a shell's last line break is not part of an envelope.
  return ReportCertificate(
      context,
      audit::VerifyCertificate(absl::StripTrailingAsciiWhitespace(*envelope), std::nullopt, *key),
      /*leaf_given=*/false);
}

}  // namespace

void AddCertificateCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App* group = AddGroup(app, "certificate", "Read and verify certificates");
  auto arguments = std::make_shared<Arguments>();
  AddVerb(*group, "list", "List the tenant's log, or what concerns --memory")
      ->callback([&context, &action] { action = [&context] { return List(context); }; });

  CLI::App* show = AddVerb(*group, "show", "Show what a certificate says");
  show->add_option("id", arguments->which, "Its id, the first digits of it, or its sequence number")
      ->required()
      ->type_name("");
  show->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Show(context, *arguments); };
  });

  CLI::App* verify =
      AddVerb(*group, "verify", "Check a certificate against a pinned key",
              "Pin the key when the tenant is created: `lethe tenant get` shows it. For a whole\n"
              "log: lethe-verify on what `lethe export` wrote.");
  verify
      ->add_option("id-or-file", arguments->which,
                   "An .envelope.json of an export (no server needed), or an id")
      ->required()
      ->type_name("");
  verify->add_option("--key", arguments->key, "The tenant's verification key")->type_name("VKEY");
  verify->add_option("--key-file", arguments->key_file, "A file that holds it")->type_name("PATH");
  verify->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Verify(context, *arguments); };
  });
}

}  // namespace lethe::cli
