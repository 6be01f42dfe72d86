// The log as a whole: its checkpoint, proofs and keys, a cold refit written to it, a new key.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/note.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/numbers.h"
#include "client/cli/render.h"
#include "client/cli/small_file.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

constexpr size_t kIdDigits = 64;

struct Arguments {
  std::string tenant;
  std::string memory;
  std::string which;
  uint64_t old_size = 0;
  uint64_t new_size = 0;
  uint64_t size = 0;
  std::string out;
  bool yes = false;
};

// Runs `run(tenant)` for the tenant that the arguments or --tenant name.
template <typename Run>
int WithTenant(Context& context, const std::string& positional, const Run& run) {
  const absl::StatusOr<std::string> tenant = context.Tenant(positional);
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  return run(*tenant);
}

int Checkpoint(Context& context, const std::string& tenant) {
  const absl::StatusOr<client::Checkpoint> checkpoint = context.client().GetCheckpoint(tenant);
  if (!checkpoint.ok()) return context.RpcError(checkpoint.status());
  // A note is text for a file: it is printed as it is.
  Print(context,
        {{"origin", checkpoint->origin},
         {"size", checkpoint->size},
         {"root", checkpoint->root},
         {"note", checkpoint->note}},
        checkpoint->note);
  return kExitOk;
}

int Keys(Context& context, const std::string& tenant) {
  const absl::StatusOr<client::Checkpoint> checkpoint = context.client().GetCheckpoint(tenant);
  if (!checkpoint.ok()) return context.RpcError(checkpoint.status());
  ListPrinter list(context, {{.title = "FROM", .right = true}, {.title = "KEY"}});
  for (const client::LogKey& key : checkpoint->keys) {
    list.Add({{"first_sequence", key.first_sequence}, {"vkey", key.vkey}},
             {std::to_string(key.first_sequence), key.vkey});
  }
  list.Finish("no keys");
  return kExitOk;
}

absl::StatusOr<std::vector<audit::Digest>> ToDigests(const std::vector<std::string>& hashes) {
  std::vector<audit::Digest> digests;
  for (const std::string& hash : hashes) {
    if (hash.size() != sizeof(audit::Digest)) {
      return absl::InvalidArgumentError("the server sent a hash that has not 32 bytes");
    }
    std::copy(hash.begin(), hash.end(), digests.emplace_back().begin());
  }
  return digests;
}

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

// Whether the text that is given away says what was checked.
absl::Status CheckText(const client::InclusionProof& proof,
                       const std::vector<audit::Digest>& hashes,
                       const audit::Digest& root) {
  LETHE_ASSIGN_OR_RETURN(const audit::ParsedTlogProof text,
                         audit::ParseTlogProof(proof.tlog_proof));
  LETHE_ASSIGN_OR_RETURN(const audit::Note note, audit::ParseNote(text.checkpoint_note));
  LETHE_ASSIGN_OR_RETURN(const audit::Checkpoint checkpoint, audit::ParseCheckpointText(note.text));
  if (text.index != proof.sequence || text.proof != hashes || checkpoint.size != proof.size ||
      checkpoint.root != root) {
    return Wrong("its tlog-proof is another one");
  }
  return absl::OkStatus();
}

// A proof is checked before it is given away, and that it answers the request; that the root is the
// log's is what a pinned key and a checkpoint are for.
absl::Status Check(const client::InclusionProof& proof,
                   const client::InclusionProofRequest& request) {
  LETHE_ASSIGN_OR_RETURN(const std::vector<audit::Digest> hashes, ToDigests(proof.hashes));
  LETHE_ASSIGN_OR_RETURN(const audit::Digest leaf, audit::DecodeDigest(proof.leaf_hash));
  LETHE_ASSIGN_OR_RETURN(const audit::Digest root, audit::DecodeDigest(proof.root));
  if (request.certificate_id.empty() && proof.sequence != request.sequence) {
    return Wrong("it is of another certificate");
  }
  if (request.size != 0 && proof.size != request.size) return Wrong("it is for another size");
  LETHE_RETURN_IF_ERROR(audit::VerifyInclusion(proof.sequence, proof.size, leaf, hashes, root));
  return proof.tlog_proof.empty() ? absl::OkStatus() : CheckText(proof, hashes, root);
}

absl::Status Check(const client::ConsistencyProof& proof, const Arguments& request) {
  if (proof.old_size != request.old_size ||
      (request.new_size != 0 && proof.new_size != request.new_size)) {
    return Wrong("it is for other sizes");
  }
  LETHE_ASSIGN_OR_RETURN(const std::vector<audit::Digest> hashes, ToDigests(proof.hashes));
  LETHE_ASSIGN_OR_RETURN(const audit::Digest old_root, audit::DecodeDigest(proof.old_root));
  LETHE_ASSIGN_OR_RETURN(const audit::Digest new_root, audit::DecodeDigest(proof.new_root));
  return audit::VerifyConsistency(proof.old_size, proof.new_size, old_root, new_root, hashes);
}

Json HexList(const std::vector<std::string>& hashes) {
  Json list = Json::array();
  for (const std::string& hash : hashes) list.push_back(audit::Hex(hash));
  return list;
}

int Prove(Context& context, const std::string& tenant, const Arguments& arguments) {
  client::InclusionProofRequest request;
  request.tenant = tenant;
  request.size = arguments.size;
  if (arguments.which.size() == kIdDigits) {
    request.certificate_id = arguments.which;
  } else if (!absl::SimpleAtoi(arguments.which, &request.sequence)) {
    return context.UsageError("which: 64 hex digits of an id, or a sequence number");
  }
  const absl::StatusOr<client::InclusionProof> proof = context.client().GetInclusionProof(request);
  if (!proof.ok()) return context.RpcError(proof.status());
  if (const absl::Status status = Check(*proof, request); !status.ok()) {
    return context.NotVerified(absl::StrCat("the server's proof is wrong: ", status.message()));
  }
  if (!arguments.out.empty()) {
    if (proof->tlog_proof.empty()) {
      return context.UsageError("--out is for the present size, whose checkpoint goes with it");
    }
    const absl::Status written = WriteFile(arguments.out, proof->tlog_proof);
    if (!written.ok()) return context.FileError(written.message());
  }
  Print(context,
        {{"sequence", proof->sequence},
         {"size", proof->size},
         {"leaf_hash", proof->leaf_hash},
         {"root", proof->root},
         {"hashes", HexList(proof->hashes)},
         {"tlog_proof", proof->tlog_proof}},
        proof->tlog_proof.empty() || !arguments.out.empty()
            ? RenderFields({{"sequence", FormatCount(proof->sequence)},
                            {"size", FormatCount(proof->size)},
                            {"leaf hash", proof->leaf_hash},
                            {"root", proof->root},
                            {"hashes", FormatCount(proof->hashes.size())},
                            {"written to", arguments.out}})
            : proof->tlog_proof);
  return kExitOk;
}

int Consistency(Context& context, const std::string& tenant, const Arguments& arguments) {
  const absl::StatusOr<client::ConsistencyProof> proof =
      context.client().GetConsistencyProof(tenant, arguments.old_size, arguments.new_size);
  if (!proof.ok()) return context.RpcError(proof.status());
  if (const absl::Status status = Check(*proof, arguments); !status.ok()) {
    return context.NotVerified(absl::StrCat("the server's proof is wrong: ", status.message()));
  }
  if (!arguments.out.empty()) {
    std::string text;
    for (const std::string& hash : proof->hashes) absl::StrAppend(&text, audit::Base64(hash), "\n");
    const absl::Status written = WriteFile(arguments.out, text);
    if (!written.ok()) return context.FileError(written.message());
  }
  Fields fields = {{"old size", FormatCount(proof->old_size)},
                   {"old root", proof->old_root},
                   {"new size", FormatCount(proof->new_size)},
                   {"new root", proof->new_root}};
  for (const std::string& hash : proof->hashes) {
    fields.push_back({"hash", audit::Hex(hash)});
  }
  Print(context,
        {{"old_size", proof->old_size},
         {"new_size", proof->new_size},
         {"old_root", proof->old_root},
         {"new_root", proof->new_root},
         {"hashes", HexList(proof->hashes)}},
        RenderFields(fields));
  return kExitOk;
}

int Rotate(Context& context, bool yes) {
  if (!yes) {
    context.io().err
        << "This makes a new signing key, hands the logs of all tenants over to it and\n"
           "destroys the old one. Backups of the key have to be made again.\n";
    if (!context.Confirm(yes, "Replace the key?")) return kExitUsage;
  }
  const absl::StatusOr<client::KeyRotation> rotation = context.client().RotateKey();
  if (!rotation.ok()) return context.RpcError(rotation.status());
  Fields fields = {{"handed over", FormatCount(rotation->handed_over)},
                   {"complete", rotation->complete ? "yes, the old key is destroyed"
                                                   : "no, the old key is kept"}};
  for (const std::string& tenant : rotation->pending) fields.push_back({"pending", tenant});
  Print(context,
        {{"complete", rotation->complete},
         {"handed_over", rotation->handed_over},
         {"pending", rotation->pending}},
        RenderFields(fields));
  if (!rotation->complete) {
    context.Note(
        "make those tenants whole again, or take their folders out of the data folder;\n"
        "the next start of the server, or this command, goes on");
  }
  return kExitOk;
}

// The tenant that is named, or all of them.
absl::StatusOr<std::vector<std::string>> TenantsOf(Context& context,
                                                   const std::string& positional) {
  std::vector<std::string> names;
  if (const absl::StatusOr<std::string> named = context.Tenant(positional); named.ok()) {
    names.push_back(*named);
    return names;
  }
  client::Client client = context.client();
  for (const absl::StatusOr<client::Tenant>& tenant : client.ListTenants()) {
    LETHE_RETURN_IF_ERROR(tenant.status());
    names.push_back(tenant->name);
  }
  return names;
}

int Rewrap(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::vector<std::string>> tenants = TenantsOf(context, arguments.tenant);
  if (!tenants.ok()) return context.RpcError(tenants.status());
  if (!arguments.yes) {
    context.io().err << "This wraps the keys of the rows of " << FormatCount(tenants->size())
                     << " tenant(s) under new key-encryption keys and\n"
                        "destroys the old ones. Older copies of keys.db are worthless\n"
                        "afterwards, unless a copy of the folder kek is beside them: make new\n"
                        "copies of the vault, and destroy the old ones.\n";
    if (!context.Confirm(arguments.yes, "Replace the key-encryption keys?")) return kExitUsage;
  }
  ListPrinter list(context, {{.title = "TENANT", .flexible = true},
                             {.title = "KEYS", .right = true},
                             {.title = "EPOCH", .right = true},
                             {.title = "CERTIFICATE"}});
  // One that fails does not keep the others from it.
  int status = kExitOk;
  for (const std::string& tenant : *tenants) {
    const absl::StatusOr<client::KeyRewrap> rewrap = context.client().RewrapKeys(tenant);
    if (!rewrap.ok()) {
      context.Note(absl::StrCat(tenant, ": not done"));
      status = context.RpcError(rewrap.status());
      continue;
    }
    list.Add(
        {{"tenant", tenant},
         {"keys", rewrap->keys},
         {"epoch", rewrap->epoch},
         {"certificate_id", rewrap->certificate_id}},
        {tenant, FormatCount(rewrap->keys), FormatCount(rewrap->epoch), rewrap->certificate_id});
  }
  list.Finish("no tenants");
  return status;
}

int Verify(Context& context, const Arguments& arguments) {
  if (!arguments.tenant.empty()) context.globals.tenant = arguments.tenant;
  const absl::StatusOr<client::MemoryName> name = context.Memory(arguments.memory);
  if (!name.ok()) return context.UsageError(name.status().message());
  const absl::StatusOr<client::Verification> result = context.client().Verify(*name);
  if (!result.ok()) return context.RpcError(result.status());
  Print(context,
        {{"verdict", Text(result->verdict)},
         {"bits_equal", result->bits_equal},
         {"deviation", result->deviation},
         {"certificate_id", result->certificate_id},
         {"sequence", result->sequence},
         {"state_digest", result->state_digest},
         {"partition", ToJson(result->partition)}},
        RenderFields({{"verdict", Text(result->verdict)},
                      {"bits", result->bits_equal ? "equal to those of a cold refit" : "differ"},
                      {"deviation", absl::StrCat(result->deviation)},
                      {"partition", Text(result->partition)},
                      {"certificate", result->certificate_id},
                      {"sequence", FormatCount(result->sequence)},
                      {"state digest", result->state_digest}}));
  if (result->bits_equal) return kExitOk;
  return context.NotVerified(
      "the served state differed from a cold refit; it was replaced, and the log says so");
}

}  // namespace

void AddLogCommands(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  const auto with_tenant = [&context, &action, arguments](
                               CLI::App* verb, std::function<int(const std::string&)> run) {
    verb->add_option("tenant", arguments->tenant, "The tenant (default: --tenant)")->type_name("");
    verb->callback([&context, &action, arguments, run] {
      action = [&context, arguments, run] { return WithTenant(context, arguments->tenant, run); };
    });
  };
  CLI::App* log = AddGroup(app, "log", "Checkpoint, proofs and keys of a tenant's log");
  with_tenant(AddVerb(*log, "checkpoint", "Print the signed size and root of the log",
                      "Keep it: a later log must continue it (`lethe log consistency`)."),
              [&context](const std::string& tenant) { return Checkpoint(context, tenant); });
  with_tenant(AddVerb(*log, "key", "List the keys of the log and what each signs",
                      "Trust the key you pinned and those that it hands over to."),
              [&context](const std::string& tenant) { return Keys(context, tenant); });
  CLI::App* prove = AddVerb(*log, "prove", "Prove that a certificate is in the log",
                            "Prints a tlog-proof, which carries its checkpoint.");
  prove->add_option("which", arguments->which, "The certificate's id or its sequence number")
      ->required()
      ->type_name("");
  prove->add_option("--size", arguments->size, "Of the log (default: as it is now)")
      ->check(CheckDigits)
      ->type_name("N");
  prove->add_option("--out", arguments->out, "Write the tlog-proof to a file")->type_name("PATH");
  prove->callback([&context, &action, arguments] {
    action = [&context, arguments] {
      return WithTenant(context, "", [&](const std::string& tenant) {
        return Prove(context, tenant, *arguments);
      });
    };
  });
  CLI::App* consistency = AddVerb(*log, "consistency", "Prove that the log continues what it was");
  consistency->add_option("old", arguments->old_size, "The earlier size, at least 1")
      ->required()
      ->check(CheckDigits)
      ->type_name("");
  consistency->add_option("new", arguments->new_size, "The later size (default: as it is now)")
      ->check(CheckDigits)
      ->type_name("");
  consistency
      ->add_option("--out", arguments->out,
                   "Write the proof to a file, a base64 hash a line, for lethe-verify")
      ->type_name("PATH");
  consistency->callback([&context, &action, arguments] {
    action = [&context, arguments] {
      return WithTenant(context, "", [&](const std::string& tenant) {
        return Consistency(context, tenant, *arguments);
      });
    };
  });

  CLI::App* key = AddGroup(app, "key", "The key that signs all logs, and those of the vault");
  CLI::App* rotate = AddVerb(*key, "rotate", "Replace the key that signs the logs by a new one",
                             "Each log gets a certificate, signed by the old key, that names the\n"
                             "new one. An interrupted rotation is continued.");
  rotate->add_flag("-y,--yes", arguments->yes, "Do it without asking");
  rotate->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Rotate(context, arguments->yes); };
  });
  CLI::App* rewrap =
      AddVerb(*key, "rewrap", "Wrap the keys of a tenant's rows under a new key",
              "The key-encryption key before it is destroyed: after it, older copies of\n"
              "keys.db are worthless without a copy of the folder kek beside them. Rows are\n"
              "not touched. The log gets a certificate that names the epoch which ended. A\n"
              "change that was interrupted is finished first.");
  rewrap
      ->add_option("tenant", arguments->tenant,
                   "The tenant (default: --tenant, or else all of them)")
      ->type_name("");
  rewrap->add_flag("-y,--yes", arguments->yes, "Do it without asking");
  rewrap->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Rewrap(context, *arguments); };
  });

  CLI::App* verify = AddVerb(app, "verify", "Compare a memory with a cold refit, bit for bit",
                             "The result is appended to the log, equal or not.");
  verify->add_option("tenant", arguments->tenant, "The tenant (default: --tenant)")->type_name("");
  verify->add_option("memory", arguments->memory, "The memory (default: --memory)")->type_name("");
  verify->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Verify(context, *arguments); };
  });
}

}  // namespace lethe::cli
