// A witness: it remembers the largest checkpoint of a log that it has signed, and signs another one
// only when that extends it.
#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "audit/checkpoint.h"
#include "audit/encoding.h"
#include "audit/tree_proof.h"
#include "audit/verify_export.h"
#include "audit/witness.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "client/cli/witness_state.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::string tenant;
  std::string name;
  std::string out;
  std::vector<std::string> keys;
  std::string witness_key;
  std::string witness_name;
  std::string state;
  std::string from;
  bool first = false;
  bool send = false;
};

// A checkpoint that a pinned key signed.
struct Seen {
  audit::Checkpoint checkpoint;
  audit::Note note;
  std::string bytes;
  size_t key = 0;  // which of the pinned ones
};

// Kinds of refusal, told apart by their codes: DATA_LOSS is a fork, a shrunk log or a false proof.
absl::StatusOr<Seen> Verified(const std::string& note,
                              const std::vector<audit::VerificationKey>& keys) {
  std::string why = "no key is pinned";
  // The newest first: with several signatures it is the one that counts.
  for (size_t i = keys.size(); i-- > 0;) {
    audit::CheckpointResult result = audit::VerifyCheckpoint(note, keys[i]);
    if (result.ok()) return Seen{std::move(result.checkpoint), std::move(result.note), note, i};
    why = result.message;
  }
  return absl::DataLossError(absl::StrCat("the checkpoint does not verify: ", why));
}

// What the server shows, and its proof that it extends what was signed before.
absl::StatusOr<Seen> FromServer(Context& context,
                                const std::string& tenant,
                                const std::vector<audit::VerificationKey>& keys,
                                const std::string& before) {
  client::Client client = context.client();
  LETHE_ASSIGN_OR_RETURN(const client::Checkpoint now, client.GetCheckpoint(tenant));
  LETHE_ASSIGN_OR_RETURN(Seen seen, Verified(now.note, keys));
  if (before.empty()) return seen;
  const absl::StatusOr<Seen> older = Verified(before, keys);
  if (!older.ok()) {
    return absl::DataLossError(absl::StrCat("the state file: ", older.status().message()));
  }
  const audit::Checkpoint& old = older->checkpoint;
  if (old.origin != seen.checkpoint.origin) {
    return absl::DataLossError("the state file is of another log");
  }
  if (seen.checkpoint.size < old.size) {
    return absl::DataLossError(absl::StrCat("the log shrank: ", old.size,
                                            " certificates were signed, ", seen.checkpoint.size,
                                            " are there now"));
  }
  if (seen.key < older->key) {
    return absl::DataLossError(absl::StrCat("the checkpoint of ", seen.checkpoint.size,
                                            " certificates is signed by an older key than that of ",
                                            old.size, ", so by one that was retired before"));
  }
  if (seen.checkpoint.size == old.size) {
    if (seen.checkpoint.root == old.root) return seen;
    return absl::DataLossError(
        absl::StrCat("the log forked: there is another one of ", old.size, " certificates"));
  }
  LETHE_ASSIGN_OR_RETURN(const client::ConsistencyProof proof,
                         client.GetConsistencyProof(tenant, old.size, seen.checkpoint.size));
  std::vector<audit::Digest> hashes;
  for (const std::string& hash : proof.hashes) {
    audit::Digest digest;
    if (hash.size() != digest.size()) return absl::DataLossError("the proof has a bad hash");
    std::copy(hash.begin(), hash.end(), digest.begin());
    hashes.push_back(digest);
  }
  if (!audit::VerifyConsistency(old.size, seen.checkpoint.size, old.root, seen.checkpoint.root,
                                hashes)
           .ok()) {
    return absl::DataLossError(
        absl::StrCat("the log forked: its first ", old.size,
                     " certificates are not those that were signed, or the proof is false"));
  }
  return seen;
}

// An export of the whole log, verified in full; it follows hand-overs of the key by itself.
absl::StatusOr<Seen> FromExport(const std::string& path,
                                const std::vector<audit::VerificationKey>& keys,
                                const std::string& before) {
  audit::ExportExpectations expected;
  expected.keys = keys;
  if (!before.empty()) expected.earlier = before;
  const audit::ExportResult result = audit::VerifyExport(path, expected);
  if (!result.finding.io.ok()) return result.finding.io;
  if (!result.ok()) {
    return absl::DataLossError(absl::StrCat(
        "the export does not verify: ", std::string(audit::Name(result.finding.failure)), ": ",
        result.finding.message));
  }
  LETHE_ASSIGN_OR_RETURN(const auto input, audit::ExportInput::Open(path));
  if (const audit::Finding names = input->Scan(); !names.ok()) {
    return absl::UnavailableError("the export changed while it was read");
  }
  LETHE_ASSIGN_OR_RETURN(const std::string note, input->Read("checkpoint", audit::kMaxNoteBytes));
  LETHE_ASSIGN_OR_RETURN(Seen seen, Verified(note, {result.keys.back().key}));
  if (seen.checkpoint == result.checkpoint) return seen;
  return absl::UnavailableError("the export changed while it was read");
}

int NewKey(Context& context, const Arguments& arguments) {
  const absl::StatusOr<audit::WitnessSigner> signer =
      audit::WitnessSigner::CreateFile(arguments.name, arguments.out);
  if (!signer.ok()) return context.FileError(signer.status().message());
  Print(context, {{"name", signer->key().name()}, {"vkey", signer->key().vkey()}},
        signer->key().vkey() + "\n");
  return kExitOk;
}

int Refusal(Context& context, const absl::Status& status) {
  if (absl::IsDataLoss(status)) return context.NotVerified(status.message());
  return context.RpcError(status);
}

int Sign(Context& context, const Arguments& arguments) {
  std::string tenant;
  if (arguments.from.empty() || arguments.send) {
    const absl::StatusOr<std::string> named = context.Tenant(arguments.tenant);
    if (!named.ok()) return context.UsageError(named.status().message());
    tenant = *named;
  }
  std::vector<audit::VerificationKey> keys;
  for (const std::string& text : arguments.keys) {
    absl::StatusOr<audit::VerificationKey> key = audit::VerificationKey::Parse(text);
    if (!key.ok()) return context.UsageError(absl::StrCat("--key: ", key.status().message()));
    if (!keys.empty() && key->name() != keys.front().name()) {
      return context.UsageError("--key: the keys are of two logs");
    }
    keys.push_back(*std::move(key));
  }
  const absl::StatusOr<audit::WitnessSigner> signer =
      audit::WitnessSigner::LoadFile(arguments.witness_name, arguments.witness_key);
  if (!signer.ok()) return context.FileError(signer.status().message());
  absl::StatusOr<WitnessState> state = WitnessState::Open(arguments.state, arguments.first);
  if (!state.ok()) return context.FileError(state.status().message());

  const absl::StatusOr<Seen> seen = arguments.from.empty()
                                        ? FromServer(context, tenant, keys, state->note())
                                        : FromExport(arguments.from, keys, state->note());
  if (!seen.ok()) {
    const bool file = !arguments.from.empty() && !absl::IsDataLoss(seen.status());
    return file ? context.FileError(seen.status().message()) : Refusal(context, seen.status());
  }
  if (seen->checkpoint.size == 0)
    return context.NotVerified("the log is empty: nothing to witness");
  // First remembered, then signed: a crash in between costs a signature and no promise.
  if (const absl::Status kept = state->Replace(seen->bytes); !kept.ok()) {
    return context.FileError(kept.message());
  }
  const absl::StatusOr<audit::NoteSignature> signature =
      signer->Cosign(seen->note.text, std::time(nullptr));
  if (!signature.ok()) return context.FileError(signature.status().message());
  const std::string line = audit::SerializeSignatureLine(*signature);
  if (arguments.send) {
    const absl::StatusOr<client::Checkpoint> sent = context.client().AddCosignature(tenant, line);
    if (!sent.ok()) return context.RpcError(sent.status());
  }
  context.Note(absl::StrCat("witnessed ", seen->checkpoint.origin, ": ", seen->checkpoint.size,
                            " certificates", arguments.send ? ", sent" : ""));
  Print(context,
        {{"origin", seen->checkpoint.origin},
         {"size", seen->checkpoint.size},
         {"root", audit::Hex(seen->checkpoint.root)},
         {"sent", arguments.send},
         {"line", line}},
        line);
  return kExitOk;
}

}  // namespace

void AddWitnessCommands(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* witness = AddGroup(app, "witness", "Watch a log and countersign what it grows to");

  CLI::App* key = AddVerb(*witness, "key", "Make a witness's key and print its public half",
                          "Use it for nothing else. The server takes its signatures when it runs\n"
                          "with --witness and what this prints.");
  key->add_option("name", arguments->name, "Name of the witness, as witness.example.org/1")
      ->required()
      ->type_name("");
  key->add_option("--out", arguments->out, "New file for the private key")
      ->required()
      ->type_name("PATH");
  key->callback([&context, &action, arguments] {
    action = [&context, arguments] { return NewKey(context, *arguments); };
  });

  CLI::App* sign = AddVerb(
      *witness, "sign", "Countersign the log as it is now, if it extends what was signed before",
      "Prints the signature line. Refuses (exit status 3) a log that forked or shrank.\n"
      "The state file is what the promise hangs on: keep it, and never put an older\n"
      "one back.\n"
      "Once a checkpoint by a newer key was signed, none by an older key is. Give only\n"
      "the newest key with --first: nothing else shows which keys are retired.");
  sign->add_option("tenant", arguments->tenant, "The tenant (default: --tenant)")->type_name("");
  sign->add_option("--key", arguments->keys, "Pinned key of the log; repeated: oldest first")
      ->required()
      ->allow_extra_args(false)
      ->type_name("VKEY");
  sign->add_option("--witness-key", arguments->witness_key, "The witness's private key")
      ->required()
      ->type_name("PATH");
  sign->add_option("--name", arguments->witness_name, "The witness's name")
      ->required()
      ->type_name("NAME");
  sign->add_option("--state", arguments->state, "File with the largest checkpoint signed so far")
      ->required()
      ->type_name("PATH");
  sign->add_flag("--first", arguments->first, "Begin here: there is no state file yet");
  sign->add_option("--from", arguments->from, "An export instead of the server's word")
      ->type_name("PATH");
  sign->add_flag("--send", arguments->send, "Give the signature to the server");
  sign->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Sign(context, *arguments); };
  });
}

}  // namespace lethe::cli
