#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/export_sinks.h"
#include "audit/hash.h"
#include "audit/note.h"
#include "audit/tlog_proof.h"
#include "audit/verify.h"
#include "audit/verify_proof.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "client/retry.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

constexpr char kEnvelopeFile[] = "closing.envelope.json";
constexpr char kProofFile[] = "closing.tlog-proof";
constexpr char kCheckpointFile[] = "checkpoint";

struct Arguments {
  std::string name;
  std::string out;
  bool yes = false;
};

int PrintTenant(Context& context, const absl::StatusOr<client::Tenant>& tenant) {
  if (!tenant.ok()) return context.RpcError(tenant.status());
  Print(context, ToJson(*tenant), RenderFields(ToFields(*tenant)));
  return kExitOk;
}

int ListTenants(Context& context) {
  ListPrinter list(context, {{.title = "TENANT", .flexible = true},
                             {.title = "MEMORIES", .right = true},
                             {.title = "CERTIFICATES", .right = true},
                             {.title = "CREATED"}});
  client::Client client = context.client();
  for (const absl::StatusOr<client::Tenant>& tenant : client.ListTenants()) {
    if (!tenant.ok()) return context.RpcError(tenant.status());
    list.Add(ToJson(*tenant), {tenant->name, FormatCount(tenant->memory_count),
                               FormatCount(tenant->certificate_count), tenant->create_time});
  }
  list.Finish("no tenants");
  return kExitOk;
}

// The folder that receives what proves the closing. Open before the tenant is deleted: afterwards
// it would be too late to learn that nothing can be written there.
class ClosingFolder {
 public:
  absl::Status Open(const std::string& path) {
    std::error_code ignored;
    const bool there = std::filesystem::exists(path, ignored);
    LETHE_ASSIGN_OR_RETURN(sink_, audit::CreateFolderSink(path));
    if (!there) made_ = path;
    return absl::OkStatus();
  }
  // What is empty and was made for nothing goes away again.
  ~ClosingFolder() {
    std::error_code ignored;
    if (!made_.empty()) std::filesystem::remove(made_, ignored);
  }
  absl::Status Write(const client::TenantDeletion& deletion) {
    LETHE_RETURN_IF_ERROR(WriteOne(kEnvelopeFile, deletion.envelope));
    LETHE_RETURN_IF_ERROR(WriteOne(kProofFile, deletion.tlog_proof));
    LETHE_RETURN_IF_ERROR(WriteOne(kCheckpointFile, deletion.checkpoint));
    return sink_->Finish();
  }

 private:
  absl::Status WriteOne(absl::string_view name, absl::string_view content) {
    LETHE_RETURN_IF_ERROR(sink_->Begin(name));
    LETHE_RETURN_IF_ERROR(sink_->Write(content));
    return sink_->End();
  }

  std::unique_ptr<audit::FileSink> sink_;
  std::string made_;
};

// Whether certificate, checkpoint and proof are of one another and, where the tenant could still be
// asked for its key, signed with it and the proof one of inclusion. That the key is the tenant's is
// what a pinned one and lethe-verify are for.
absl::Status CheckClosing(const client::TenantDeletion& deletion,
                          const std::optional<audit::VerificationKey>& key) {
  if (audit::Hex(audit::Sha256(deletion.envelope)) != deletion.certificate_id) {
    return absl::InvalidArgumentError("the certificate is another than the one named");
  }
  LETHE_ASSIGN_OR_RETURN(const audit::ParsedTlogProof proof,
                         audit::ParseTlogProof(deletion.tlog_proof));
  LETHE_ASSIGN_OR_RETURN(const audit::Note note, audit::ParseNote(proof.checkpoint_note));
  LETHE_ASSIGN_OR_RETURN(const audit::Checkpoint checkpoint, audit::ParseCheckpointText(note.text));
  if (proof.checkpoint_note != deletion.checkpoint || checkpoint.size != proof.index + 1) {
    return absl::InvalidArgumentError("the proof is not of the log's last certificate");
  }
  if (!key.has_value()) return absl::OkStatus();
  const audit::CertificateResult certificate =
      audit::VerifyCertificate(deletion.envelope, std::nullopt, *key);
  if (!certificate.ok()) return absl::InvalidArgumentError(certificate.message);
  if (certificate.body->kind != audit::CertificateKind::kTenantClosed) {
    return absl::InvalidArgumentError("the certificate does not close a tenant");
  }
  const audit::ProofResult included = audit::VerifyCertificateProof(
      deletion.tlog_proof, deletion.envelope, certificate, *key, {&*key, 1}, nullptr);
  return included.ok() ? absl::OkStatus() : absl::InvalidArgumentError(included.message);
}

// Why there may be nothing to give out, and where it is then.
void NoteLostAnswer(Context& context, const absl::Status& status) {
  const bool open = client::IsTransient(status) || absl::IsDeadlineExceeded(status);
  if (open) {
    context.Note(
        "the deletion may have begun, which cannot be taken back, and may not have ended (from\n"
        "its beginning on `lethe tenant get` says NOT_FOUND); send it again until the answer is "
        "OK\n"
        "or NOT_FOUND");
  }
  if (open || absl::IsNotFound(status)) {
    context.Note(
        "if it was deleted and the answer was lost, the closing certificate and its proof are in\n"
        "closed/ of the server's data (docs/operations.md, \"A deleted tenant\")");
  }
}

// What is to be deleted, for whoever is asked. A tenant that is not found may be one whose deletion
// began and did not end: only another call to delete it ends it.
void ShowTenant(Context& context, const std::string& name, const client::Tenant* tenant) {
  std::ostream& err = context.io().err;
  if (tenant == nullptr) {
    err << "There is no tenant " << name
        << " to be seen. If an earlier deletion began and did not\n"
        << "end, deleting it again ends it; otherwise the answer is NOT_FOUND.\n";
    return;
  }
  err << "This erases every token of " << FormatCount(tenant->memory_count)
      << " memories of tenant " << tenant->name << " and closes its log of certificates:\n"
      << RenderFields(ToFields(*tenant), 2);
}

int DeleteTenant(Context& context, const std::string& name, const Arguments& arguments) {
  client::Client client = context.client();
  // With --yes too: its key is what the answer is checked with.
  const absl::StatusOr<client::Tenant> tenant = client.GetTenant(name);
  if (!arguments.yes) {
    if (!tenant.ok() && !absl::IsNotFound(tenant.status())) {
      return context.RpcError(tenant.status());
    }
    ShowTenant(context, name, tenant.ok() ? &*tenant : nullptr);
    if (!context.Confirm(/*yes=*/false, "Delete the tenant?")) return kExitUsage;
  }
  std::optional<audit::VerificationKey> key;
  if (tenant.ok()) {
    absl::StatusOr<audit::VerificationKey> parsed =
        audit::VerificationKey::Parse(tenant->verification_key);
    if (parsed.ok()) key = *std::move(parsed);
  }
  ClosingFolder folder;
  if (!arguments.out.empty()) {
    const absl::Status opened = folder.Open(arguments.out);
    if (!opened.ok()) return context.FileError(absl::StrCat("--out: ", opened.message()));
  }
  const absl::StatusOr<client::TenantDeletion> deletion = client.DeleteTenant(name);
  if (!deletion.ok()) {
    const int status = context.RpcError(deletion.status());
    NoteLostAnswer(context, deletion.status());
    return status;
  }
  absl::Status written;
  if (!arguments.out.empty()) written = folder.Write(*deletion);
  Fields fields = {{"erased tokens", FormatCount(deletion->erased_tokens)},
                   {"certificate", deletion->certificate_id}};
  AddLevels(fields, deletion->stores);
  std::string rest;
  if (!arguments.out.empty() && written.ok()) {
    fields.push_back({"written to", arguments.out});
  } else {
    // Nobody can ask for them again.
    rest = absl::StrCat("\nThe closing certificate\n", deletion->envelope,
                        "\n\nThe proof that it is in the log\n", deletion->tlog_proof);
  }
  Print(context,
        {{"erased_tokens", deletion->erased_tokens},
         {"certificate_id", deletion->certificate_id},
         {"envelope", audit::Base64(deletion->envelope)},
         {"checkpoint", deletion->checkpoint},
         {"tlog_proof", deletion->tlog_proof},
         {"stores", ToJson(deletion->stores)}},
        RenderFields(fields) + rest);
  if (!written.ok()) return context.FileError(absl::StrCat("--out: ", written.message()));
  if (const absl::Status status = CheckClosing(*deletion, key); !status.ok()) {
    return context.NotVerified(
        absl::StrCat("the tenant is deleted, but its proof is wrong: ", status.message()));
  }
  if (!key.has_value()) {
    context.Note(
        "the server did not say the tenant's key any more, so the signatures are not checked;\n"
        "check them with `lethe-verify certificate` and the pinned key");
  }
  return kExitOk;
}

}  // namespace

void AddTenantCommands(CLI::App& app, Context& context, Action& action) {
  CLI::App* group = AddGroup(app, "tenant", "Create, show and delete tenants");
  auto arguments = std::make_shared<Arguments>();
  // `run` gets the tenant that NAME or --tenant names.
  const auto with_name = [&context, &action, arguments](
                             CLI::App* verb, std::function<int(const std::string&)> run) {
    verb->add_option("name", arguments->name, "The tenant (default: --tenant)")->type_name("");
    verb->callback([&context, &action, arguments, run] {
      action = [&context, arguments, run] {
        const absl::StatusOr<std::string> tenant = context.Tenant(arguments->name);
        return tenant.ok() ? run(*tenant) : context.UsageError(tenant.status().message());
      };
    });
  };
  with_name(AddVerb(*group, "create", "Create a tenant and its log of certificates"),
            [&context](const std::string& tenant) {
              return PrintTenant(context, context.client().CreateTenant(tenant));
            });
  with_name(AddVerb(*group, "get", "Show a tenant; the key is what verifiers pin"),
            [&context](const std::string& tenant) {
              return PrintTenant(context, context.client().GetTenant(tenant));
            });
  AddVerb(*group, "list", "List all tenants")->callback([&context, &action] {
    action = [&context] { return ListTenants(context); };
  });
  CLI::App* remove =
      AddVerb(*group, "delete", "Erase every memory and close the log",
              "Its answer alone has the closing certificate and the proof that the log ends\n"
              "with it: keep them. lethe-verify certificate checks them against the pinned\n"
              "key. For the whole log: `lethe export` first.");
  remove->add_flag("-y,--yes", arguments->yes, "Do it without asking");
  remove
      ->add_option("--out", arguments->out,
                   absl::StrCat("A new or empty folder for ", kEnvelopeFile, ", ", kProofFile,
                                " and the last ", kCheckpointFile))
      ->type_name("PATH");
  with_name(remove, [&context, arguments](const std::string& tenant) {
    return DeleteTenant(context, tenant, *arguments);
  });
}

}  // namespace lethe::cli
