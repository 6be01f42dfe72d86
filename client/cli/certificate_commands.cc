#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "audit/report.h"
#include "audit/verify.h"
#include "client/cli/certificate_file.h"
#include "client/cli/certificate_view.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
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
  std::optional<uint64_t> count;
  std::string head;
  std::string out;

  // Whether the end of a chain is told.
  bool anchored() const { return count.has_value() || !head.empty(); }
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

int ReportChain(Context& context, const audit::ChainResult& result, bool anchored) {
  if (!result.ok()) {
    return context.NotVerified(absl::StrCat(audit::FailureWords(result), ": ", result.message));
  }
  const std::string last = audit::Hex(result.last_leaf_hash);
  const std::string root = audit::Hex(result.root);
  Print(context,
        {{"verified", true},
         {"tail_checked", anchored},
         {"certificates", result.verified},
         {"last_leaf_hash", last},
         {"root", root}},
        RenderFields({{"verified", "yes: every certificate, and each names the one before it"},
                      {"tail", anchored ? "as expected"
                                        : "a missing one cannot be seen without --count or --head"},
                      {"certificates", FormatCount(result.verified)},
                      {"last leaf", last},
                      {"tree root", root}}));
  return kExitOk;
}

absl::StatusOr<audit::ChainExpectations> Expectations(const Arguments& arguments) {
  audit::ChainExpectations expectations;
  expectations.size = arguments.count;
  if (!arguments.head.empty()) {
    const absl::StatusOr<audit::Digest> head = audit::DecodeDigest(arguments.head);
    if (!head.ok()) return absl::InvalidArgumentError("--head: not 64 hex digits");
    expectations.last_leaf_hash = *head;
  }
  return expectations;
}

// Files first: they need no server.
int Verify(Context& context, const Arguments& arguments) {
  const absl::StatusOr<audit::VerificationKey> key = PinnedKey(arguments);
  if (!key.ok()) {
    return absl::IsInvalidArgument(key.status()) ? context.UsageError(key.status().message())
                                                 : context.FileError(key.status().message());
  }
  const absl::StatusOr<audit::ChainExpectations> expectations = Expectations(arguments);
  if (!expectations.ok()) return context.UsageError(expectations.status().message());
  const bool is_chain = absl::EndsWith(arguments.which, ".jsonl");
  if (arguments.anchored() && !is_chain) {
    return context.UsageError("--count and --head are for a chain, a file that ends in .jsonl");
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
  if (is_chain) {
    const absl::StatusOr<audit::ChainResult> result =
        VerifyChainFile(arguments.which, *key, *expectations);
    return result.ok() ? ReportChain(context, *result, arguments.anchored())
                       : context.FileError(result.status().message());
  }
  const absl::StatusOr<std::string> envelope = ReadSmallFile(arguments.which);
  if (!envelope.ok()) return context.FileError(envelope.status().message());
  // An editor's or a shell's last line break is not part of an envelope.
  return ReportCertificate(
      context,
      audit::VerifyCertificate(absl::StripTrailingAsciiWhitespace(*envelope), std::nullopt, *key),
      /*leaf_given=*/false);
}

int Export(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  std::error_code error;
  std::filesystem::create_directories(arguments.out, error);
  if (error) return context.FileError(absl::StrCat(arguments.out, ": ", error.message()));
  const std::string chain_path = absl::StrCat(arguments.out, "/chain.jsonl");
  const std::string chain_part = chain_path + ".part";
  std::ofstream chain(chain_part, std::ios::binary | std::ios::trunc);
  uint64_t count = 0;
  client::Client client = context.client();
  for (const absl::StatusOr<client::Certificate>& item : client.ListCertificates(*tenant)) {
    if (!item.ok()) return context.RpcError(item.status());
    const absl::StatusOr<std::string> name = EnvelopeFileName(*item);
    if (!name.ok()) return context.NotVerified("the server sent a certificate without a proper id");
    chain << ChainLine(*item);
    const absl::Status written = WriteFile(absl::StrCat(arguments.out, "/", *name), item->envelope);
    if (!written.ok()) return context.FileError(written.message());
    ++count;
  }
  chain.close();
  if (chain.fail()) return context.FileError(absl::StrCat(chain_path, ": writing failed"));
  std::filesystem::rename(chain_part, chain_path, error);
  if (error) return context.FileError(absl::StrCat(chain_path, ": ", error.message()));
  Print(context, {{"certificates", count}, {"chain", chain_path}},
        RenderFields({{"certificates", FormatCount(count)}, {"chain", chain_path}}));
  return kExitOk;
}

}  // namespace

void AddCertificateCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App* group = AddGroup(app, "certificate", "Read, verify and export certificates");
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
      AddVerb(*group, "verify", "Check a certificate or a chain against a pinned key",
              "Pin the key when the tenant is created: `lethe tenant get` shows it.");
  verify
      ->add_option("which", arguments->which,
                   "A file of `certificate export` (no server needed), or an id")
      ->required()
      ->type_name("");
  verify->add_option("--key", arguments->key, "The tenant's verification key")->type_name("VKEY");
  verify->add_option("--key-file", arguments->key_file, "A file that holds it")->type_name("PATH");
  verify->add_option("--count", arguments->count, "How many certificates a chain must have")
      ->type_name("N");
  verify->add_option("--head", arguments->head, "Leaf hash of the last certificate of a chain")
      ->type_name("HEX");
  verify->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Verify(context, *arguments); };
  });

  CLI::App* export_verb =
      AddVerb(*group, "export", "Write the whole log into a folder",

              "Writes every certificate as <sequence>-<first digits of the id>.json, and\n"
              "chain.jsonl, which lethe-verify and `lethe certificate verify` read.");
  export_verb->add_option("--out", arguments->out, "The folder; made when it is not there")
      ->required()
      ->type_name("DIR");
  export_verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Export(context, *arguments); };
  });
}

}  // namespace lethe::cli
