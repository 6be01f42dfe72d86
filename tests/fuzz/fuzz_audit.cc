// What others give to a verifier: checkpoints, notes, proofs, certificates, exports.
//
// Two things hold for all of it. What has one text is printed as the text that it was read from.
// And nothing is accepted but what the key signed: the keys of this file have signed one log, so
// that whatever is accepted must be a part of that.
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/backup_manifest.h"
#include "audit/checkpoint.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/export_sinks.h"
#include "audit/json.h"
#include "audit/note.h"
#include "audit/sigstore_bundle.h"
#include "audit/tiles.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "audit/utc_time.h"
#include "audit/verify.h"
#include "audit/verify_export.h"
#include "audit/verify_export_names.h"
#include "audit/verify_proof.h"
#include "audit/verify_receipt.h"
#include "audit/witness.h"
#include "tests/audit/forge.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/targets.h"

namespace lethe::fuzz {
namespace {

using namespace audit;  // NOLINT(build/namespaces): all of this is about it

constexpr size_t kCertificates = 7;
constexpr uint64_t kHandover = 3;
constexpr size_t kMostParts = 64;
// Not that of tests/audit/golden, whose files are in the corpus.
constexpr char kSeed = '\x61';
constexpr char kWitnessName[] = "witness.example/w1";

bool IsProblem(const absl::Status& status) {
  return !status.ok() && status.code() == absl::StatusCode::kInvalidArgument;
}

// What could be read must be printed as `text`; what could not must be told as a bad argument.
template <typename T, typename Print>
void OneText(absl::string_view what,
             const absl::StatusOr<T>& read,
             absl::string_view text,
             const Print& print) {
  if (!read.ok()) {
    return Require(IsProblem(read.status()), "what cannot be read is INVALID_ARGUMENT",
                   absl::StrCat(what, ": ", read.status().ToString()));
  }
  Require(print(*read) == text, "what can be read has one text", what);
}

template <typename T>
T Must(absl::StatusOr<T> result, absl::string_view what) {
  RequireOk(result.status(), what);
  return *std::move(result);
}

// A hash in base64 a line; false where it is something else.
bool ReadHashes(const std::vector<absl::string_view>& lines, std::vector<Digest>& hashes) {
  for (const absl::string_view line : lines) {
    const absl::StatusOr<Digest> hash = DecodeBase64Digest(line);
    if (!hash.ok()) return false;
    hashes.push_back(*hash);
  }
  return true;
}

class Verifier {
 public:
  Verifier()
      : log_(kCertificates, {kHandover}, audit::testing::kOrigin, kSeed),
        witness_(Must(WitnessSigner::FromSeed(kWitnessName, std::string(32, 'w')), "a witness")),
        files_(audit::testing::Forge(log_, log_.signers().back())),
        tar_(audit::testing::TarOf(files_)) {
    for (const auto& [first, key] : log_.keys()) keys_.push_back(key);
    note_ = Must(ParseNote(log_.checkpoint()), "a note");
    root_ = Must(RootAt(kCertificates, node()), "a root");
    Note cosigned = note_;
    cosigned.signatures.push_back(Must(witness_.Cosign(note_.text, 1770000000), "a cosignature"));
    words_["@cosigned@"] = SerializeNote(cosigned);
    words_["@checkpoint@"] = log_.checkpoint();
    policy_ = Must(ParsePolicy(absl::StrCat("log ", keys_.back().vkey(), "\nwitness w1 ",
                                            witness_.key().vkey(), "\nquorum w1\n")),
                   "a policy");
    manifest_ = {.origin = audit::testing::kOrigin,
                 .tenant = "clinic",
                 .uid = std::string(32, 'a'),
                 .time = "2026-01-31T12:00:00.000000Z",
                 .log_size = kCertificates,
                 .log_root = root_,
                 .file_bytes = 4096,
                 .file_sha256 = Sha256("file")};
    words_["@manifest@"] = Must(SignBackupManifest(manifest_, log_.signers().back()), "a manifest");
    words_["@vkey@"] = keys_.front().vkey();
    for (const auto& [name, bytes] : files_) words_[absl::StrCat("@", name, "@")] = bytes;
    for (uint64_t i = 0; i < kCertificates; ++i) {
      words_[absl::StrCat("@leaf ", i, "@")] = log_.certificates()[i].leaf;
    }
    RequireOk(Verify(tar_).finding.io, "the export can be read");
    Require(Verify(tar_).ok(), "the export that nobody touched is good");

    Add("bundle", &Verifier::Bundle);
    Add("certificate", &Verifier::Certificate);
    Add("checkpoint", &Verifier::CheckpointNote);
    Add("consistency", &Verifier::Consistency);
    Add("cosigned", &Verifier::Cosigned);
    Add("export", &Verifier::Export);
    Add("flip", &Verifier::Flip);
    Add("inclusion", &Verifier::Inclusion);
    Add("json", &Verifier::JsonText);
    Add("key-file", &Verifier::KeyFile);
    Add("leaf", &Verifier::Leaf);
    Add("manifest", &Verifier::Manifest);
    Add("note", &Verifier::NoteText);
    Add("policy", &Verifier::Policy);
    Add("proof", &Verifier::Proof);
    Add("receipt", &Verifier::ReceiptText);
    Add("statement", &Verifier::Statement);
    Add("tar", &Verifier::Tar);
    Add("words", &Verifier::Words);
  }

  void Run(absl::string_view input) {
    const std::optional<Choice> choice = Choose(input, names_);
    if (!choice.has_value()) return;
    (this->*readers_[choice->index])(Fill(choice->rest));
  }

 private:
  using Reader = void (Verifier::*)(const std::string&);

  void Add(const std::string& name, Reader reader) {
    names_.push_back(name);
    readers_.push_back(reader);
  }

  std::function<absl::StatusOr<Digest>(int, uint64_t)> node() {
    return [this](int level, uint64_t index) { return log_.Node(level, index); };
  }

  // "@checkpoint@" and the like stand for what this log has; a file of its export by its name.
  std::string Fill(absl::string_view text) const {
    std::string filled;
    while (true) {
      const size_t begin = text.find('@');
      const size_t end = begin == absl::string_view::npos ? begin : text.find('@', begin + 1);
      if (end == absl::string_view::npos) break;
      const auto word = words_.find(std::string(text.substr(begin, end + 1 - begin)));
      const bool known = word != words_.end();
      absl::StrAppend(&filled, text.substr(0, begin),
                      known ? absl::string_view(word->second) : text.substr(begin, end - begin));
      text.remove_prefix(known ? end + 1 : end);
    }
    absl::StrAppend(&filled, text);
    return filled;
  }

  // --- Notes.

  void CheckpointNote(const std::string& text) {
    OneText("a checkpoint's text", ParseCheckpointText(text), text, CheckpointText);
    for (const VerificationKey& key : keys_) {
      const CheckpointResult result = VerifyCheckpoint(text, key);
      if (!result.ok()) {
        CheckMessage("a checkpoint", result.message);
        continue;
      }
      Require(key.vkey() == keys_.back().vkey(), "only the last key has signed a checkpoint");
      Require(result.note.text == note_.text, "a checkpoint that is accepted is the one signed");
    }
  }

  void Cosigned(const std::string& text) {
    const ProofResult result = VerifySignedCheckpoint(text, keys_, &policy_);
    if (!result.ok()) return CheckMessage("a cosigned checkpoint", result.message);
    const Note note = Must(ParseNote(text), "what is accepted");
    Require(note.text == note_.text, "a cosigned checkpoint is the one signed");
    Require(result.cosignatures.size() == 1 && result.key + 1 == keys_.size(),
            "with the witness that there is");
  }

  void NoteText(const std::string& text) {
    const absl::StatusOr<Note> note = ParseNote(text);
    OneText("a note", note, text, SerializeNote);
    OneText("a signature line", ParseSignatureLine(text), text, SerializeSignatureLine);
    if (!note.ok()) return;
    for (const NoteSignature& signature : note->signatures) {
      const std::string line = SerializeSignatureLine(signature);
      OneText("a signature line", ParseSignatureLine(line), line, SerializeSignatureLine);
      if (witness_.key().Verify(note->text, signature)) {
        Require(note->text == note_.text, "a witness's line is over what it signed");
      }
    }
  }

  void Policy(const std::string& text) {
    const absl::StatusOr<WitnessPolicy> policy = ParsePolicy(text);
    if (!policy.ok()) {
      Require(IsProblem(policy.status()), "a bad policy is INVALID_ARGUMENT");
      return CheckMessage("a policy", std::string(policy.status().message()));
    }
    for (const WitnessPolicy::Entry& entry : policy->entries) {
      Require(entry.witness.has_value() ||
                  (entry.threshold >= 1 && entry.threshold <= entry.members.size()),
              "a group can be satisfied, and not by nobody");
    }
    const Note cosigned = Must(ParseNote(words_.at("@cosigned@")), "a note");
    const QuorumResult result = CheckQuorum(cosigned, *policy);
    Require(result.ok() || result.failure == Failure::kWitnessQuorum, "a quorum is there or not");
    const QuorumResult none = CheckQuorum(note_, *policy);
    Require(none.ok() <= result.ok(), "a cosignature takes no quorum away");
    Require(none.ok() == !policy->quorum.has_value(), "without any there is no quorum");
  }

  void Manifest(const std::string& text) {
    OneText("a manifest", ParseBackupManifestText(text), text, BackupManifestText);
    const absl::StatusOr<BackupManifest> read = ReadBackupManifest(text);
    Require(read.ok() || IsProblem(read.status()), "a bad manifest is INVALID_ARGUMENT");
    const absl::StatusOr<BackupManifest> verified = VerifyBackupManifest(text, keys_.back());
    if (!verified.ok()) return CheckMessage("a manifest", std::string(verified.status().message()));
    Require(*verified == manifest_, "a manifest that is accepted is the one signed");
  }

  // --- Proofs.

  // "INDEX LEAF" and the hashes, in base64, a line each.
  void Inclusion(const std::string& text) {
    std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    uint64_t index = 0;
    std::vector<Digest> hashes;
    if (lines.empty() || !absl::SimpleAtoi(lines[0], &index)) return;
    lines.erase(lines.begin());
    if (!ReadHashes(lines, hashes) || hashes.empty()) return;
    const Digest leaf = hashes[0];
    hashes.erase(hashes.begin());
    const absl::Status status = VerifyInclusion(index, kCertificates, leaf, hashes, root_);
    if (!status.ok()) return Require(IsProblem(status), "a bad proof is INVALID_ARGUMENT");
    Require(index < kCertificates && leaf == log_.certificates()[index].leaf_hash,
            "a leaf that is shown to be there is there");
    Require(hashes == Must(InclusionProof(index, kCertificates, node()), "a proof"),
            "and by one proof alone");
  }

  // "OLD_SIZE", the old root and the hashes, a line each.
  void Consistency(const std::string& text) {
    std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    uint64_t size = 0;
    std::vector<Digest> hashes;
    if (lines.empty() || !absl::SimpleAtoi(lines[0], &size)) return;
    lines.erase(lines.begin());
    if (!ReadHashes(lines, hashes) || hashes.empty()) return;
    const Digest old_root = hashes[0];
    hashes.erase(hashes.begin());
    const absl::Status status = VerifyConsistency(size, kCertificates, old_root, root_, hashes);
    Require(status.ok() || IsProblem(status), "a bad proof is INVALID_ARGUMENT");
    std::string proof;
    for (const Digest& hash : hashes) absl::StrAppend(&proof, Base64(hash), "\n");
    const Checkpoint older = {audit::testing::kOrigin, size, old_root};
    const Checkpoint newer = {audit::testing::kOrigin, kCertificates, root_};
    const ProofResult extension = VerifyExtension(older, 0, newer, 1, proof);
    if (size > 0 && size < kCertificates) {
      Require(extension.ok() == status.ok(), "both say the same of a proof", extension.message);
    }
    if (!status.ok()) return;
    Require(size >= 1 && size <= kCertificates, "a log grew from what is no longer than it");
    Require(old_root == Must(RootAt(size, node()), "a root"), "and from what it was");
  }

  // A .tlog-proof or a bundle, of certificate 0.
  void Proof(const std::string& text) {
    OneText("a proof", ParseTlogProof(text), text, [](const ParsedTlogProof& proof) {
      return TlogProof(proof.index, proof.proof, proof.checkpoint_note);
    });
    const std::string& envelope = log_.certificates()[0].envelope;
    const CertificateResult certificate = VerifyCertificate(envelope, std::nullopt, keys_.front());
    const ProofResult result =
        VerifyCertificateProof(text, envelope, certificate, keys_.front(), keys_, nullptr);
    if (!result.ok()) return CheckMessage("a proof", result.message);
    Require(result.checkpoint.size == kCertificates && result.checkpoint.root == root_,
            "a proof that is accepted leads to the checkpoint");
  }

  void Bundle(const std::string& text) {
    for (uint64_t i = 0; i < kCertificates; ++i) {
      const SignedCertificate& certificate = log_.certificates()[i];
      const std::vector<Digest> proof = Must(InclusionProof(i, kCertificates, node()), "a proof");
      const std::string note = log_.checkpoint();
      const absl::Status status =
          CheckSigstoreBundle(text, {certificate.envelope, certificate.leaf, i, kCertificates,
                                     root_, proof, note, keys_.back()});
      if (status.ok()) {
        Require(text == files_.at(audit::testing::CertificateFile(i, ".sigstore.json")),
                "a bundle that is accepted is the one made");
      } else {
        Require(!absl::IsInternal(status), "a bad bundle is the giver's fault");
        CheckMessage("a bundle", std::string(status.message()));
      }
    }
  }

  // --- Certificates.

  void Certificate(const std::string& text) {
    OneText("an envelope", ParseEnvelope(text), text,
            [](const Envelope& envelope) { return Must(SerializeEnvelope(envelope), "printed"); });
    for (const VerificationKey& key : keys_) {
      const CertificateResult result = VerifyCertificate(text, std::nullopt, key);
      if (!result.ok()) {
        CheckMessage("a certificate", result.message);
        continue;
      }
      const uint64_t sequence = result.body->sequence;
      Require(sequence < kCertificates && text == log_.certificates()[sequence].envelope &&
                  result.id == log_.certificates()[sequence].id,
              "a certificate that is accepted is one that was signed");
    }
  }

  void Leaf(const std::string& text) {
    for (uint64_t i = 0; i < kCertificates; ++i) {
      const CertificateResult result =
          VerifyCertificate(log_.certificates()[i].envelope, text, keys_[i > kHandover ? 1 : 0]);
      Require(result.ok() == (text == log_.certificates()[i].leaf), "a certificate has one leaf");
    }
  }

  void Statement(const std::string& text) {
    OneText("a statement", ParseStatement(text), text, [](const CertificateBody& body) {
      RequireOk(ValidateBody(body), "a statement that can be read keeps the rules");
      return Must(SerializeStatement(body), "printed");
    });
  }

  void JsonText(const std::string& text) {
    OneText("canonical JSON", ParseJson(text, JsonForm::kCanonical), text,
            [](const Json& json) { return Must(SerializeJson(json), "printed"); });
    const absl::StatusOr<Json> any = ParseJson(text, JsonForm::kAnyForm);
    if (!any.ok()) {
      Require(!ParseJson(text, JsonForm::kCanonical).ok(), "what is canonical has a form");
      return CheckMessage("JSON", std::string(any.status().message()));
    }
    const std::string printed = Must(SerializeJson(*any), "what has a form has a text");
    RequireOk(ParseJson(printed, JsonForm::kCanonical).status(), "which is canonical");
  }

  void ReceiptText(const std::string& text) {
    absl::StatusOr<Receipt> receipt = ParseReceipt(text);
    if (!receipt.ok()) {
      Require(IsProblem(receipt.status()), "a bad receipt is INVALID_ARGUMENT");
      return CheckMessage("a receipt", std::string(receipt.status().message()));
    }
    receipt->tenant = "clinic";
    for (const SignedCertificate& certificate : log_.certificates()) {
      Require(MatchReceipt(*receipt, certificate.body, certificate.id) == ReceiptMatch::kNo ||
                  text.find(std::string(64, '1')) != std::string::npos,
              "only who has the salt opens a commitment");
    }
  }

  void KeyFile(const std::string& text) {
    const std::string path = ScratchFile("key.pem", text, 0400);
    const absl::StatusOr<Signer> signer = Signer::LoadFile("lethe.example", path);
    if (!signer.ok()) {
      return Require(IsProblem(signer.status()), "a file without a key is INVALID_ARGUMENT",
                     signer.status().ToString());
    }
    const std::string signature = Must(signer->Sign("text"), "a signature");
    Require(signer->verification_key().Verify("text", signature), "a key that is read signs");
  }

  // Short texts, a line each.
  void Words(const std::string& text) {
    const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    for (size_t i = 0; i < lines.size() && i < kMostParts; ++i) {
      const absl::string_view line = lines[i];
      OneText("hex", DecodeHex(line), line, [](const std::string& bytes) { return Hex(bytes); });
      OneText("base64", DecodeBase64(line), line,
              [](const std::string& bytes) { return Base64(bytes); });
      OneText("a key", VerificationKey::Parse(line), line,
              [](const VerificationKey& key) { return key.vkey(); });
      OneText("a witness", WitnessKey::Parse(line), line,
              [](const WitnessKey& key) { return key.vkey(); });
      OneText("a tile", ParseTilePath(line), line, [](const ParsedTilePath& path) {
        return path.entries ? EntriesPath(path.tile.index, path.tile.width) : TilePath(path.tile);
      });
      const ParsedName name = ParseExportName(line);
      Require(name.kind == NameKind::kUnexpected || name.kind == NameKind::kHostile ||
                  ValidateExportPath(line).ok(),
              "what an export may hold can be written", line);
      if (name.kind == NameKind::kCertificate) {
        constexpr std::array kSuffixes = {kEnvelopeSuffix, kTlogProofSuffix, kSigstoreSuffix};
        Require(CertificatePath(name.sequence, kSuffixes[static_cast<size_t>(name.part)]) == line,
                "a certificate's file has one name");
      }
      Require(ShownName(line).size() <= 120 + 3, "a name that is shown is short");
      if (IsUtcTime(line)) {
        Require(line.size() >= 20 && line.back() == 'Z' && line[10] == 'T', "a time has a form");
      }
    }
  }

  // --- Exports.

  ExportResult Verify(absl::string_view tar) const {
    ExportExpectations expected;
    expected.keys = {keys_.front()};
    expected.threads = 1;
    return VerifyExport(ScratchFile("export.tar", tar), expected);
  }

  void CheckExport(const std::string& tar) const {
    const ExportResult result = Verify(tar);
    if (!result.ok()) {
      Require(result.finding.io.ok(), "a bad export can be read", result.finding.io.ToString());
      CheckMessage("an export", result.finding.message);
      return;
    }
    Require(tar == tar_, "an export that is accepted is the one written");
  }

  // Any bytes.
  void Tar(const std::string& text) { CheckExport(text); }

  // The files of an archive with headers that sum up: a line with the name, then the bytes.
  void Export(const std::string& text) {
    std::string tar;
    for (const absl::string_view part : Parts(text, kMostParts)) {
      const std::pair<absl::string_view, absl::string_view> entry =
          absl::StrSplit(part, absl::MaxSplits('\n', 1));
      tar += audit::testing::TarOf(audit::testing::TarEntry{.name = std::string(entry.first),
                                                            .bytes = std::string(entry.second)});
    }
    CheckExport(tar + audit::testing::TarEnd());
  }

  // The good one, changed: lines of a place and the bytes that stand there instead.
  void Flip(const std::string& text) {
    std::string tar = tar_;
    const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    for (size_t i = 0; i < lines.size() && i < kMostParts; ++i) {
      const std::pair<absl::string_view, absl::string_view> change =
          absl::StrSplit(lines[i], absl::MaxSplits(' ', 1));
      uint32_t at = 0;
      if (!absl::SimpleAtoi(change.first, &at)) continue;
      const size_t place = at % tar.size();
      const size_t size = std::min(change.second.size(), tar.size() - place);
      tar.replace(place, size, std::string(change.second.substr(0, size)));
    }
    CheckExport(tar);
  }

  audit::testing::SampleLog log_;
  WitnessSigner witness_;
  const audit::testing::Files files_;
  const std::string tar_;
  std::vector<VerificationKey> keys_;
  Note note_;
  Digest root_{};
  WitnessPolicy policy_;
  BackupManifest manifest_;
  std::map<std::string, std::string> words_;
  std::vector<std::string> names_;
  std::vector<Reader> readers_;
};

}  // namespace

void FuzzAudit(absl::string_view input) {
  static Verifier* const verifier = new Verifier;
  verifier->Run(input);
}

}  // namespace lethe::fuzz
