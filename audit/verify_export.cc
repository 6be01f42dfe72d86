#include "audit/verify_export.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "audit/dsse.h"
#include "audit/key_ledger.h"
#include "audit/report_html.h"
#include "audit/summary.h"
#include "audit/tiles.h"
#include "audit/verify_export_entry.h"
#include "audit/verify_export_names.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

constexpr size_t kMaxKeysBytes = size_t{1} << 20;
constexpr size_t kMaxReportBytes = size_t{16} << 20;
constexpr size_t kMaxEntriesBytes = static_cast<size_t>(kTileWidth) * (2 + kMaxLeafBytes);
constexpr int kMaxThreads = 16;
constexpr char kCheckpoint[] = "checkpoint";
constexpr char kKeys[] = "keys.txt";
constexpr char kReport[] = "report.html";
constexpr char kSummaryCsv[] = "summary.csv";
constexpr char kSummaryJson[] = "summary.jsonl";

Finding Wrong(Failure failure, absl::string_view message, absl::string_view file = "") {
  return NameFinding(failure, file, message);
}

// The line of keys.txt about a key.
std::string KeyLine(const ChainVerifier::KeyPeriod& period) {
  return absl::StrCat(period.first_sequence, " ", period.key.vkey(), "\n");
}

bool SameKey(const VerificationKey& a, const VerificationKey& b) {
  return a.name() == b.name() && a.raw() == b.raw();
}

bool HasKey(const std::vector<ChainVerifier::KeyPeriod>& periods, const VerificationKey& key) {
  return std::any_of(periods.begin(), periods.end(),
                     [&](const auto& period) { return SameKey(period.key, key); });
}

// keys.txt as periods; nothing when it has another form.
std::optional<std::vector<ChainVerifier::KeyPeriod>> ParseKeys(absl::string_view text) {
  std::vector<ChainVerifier::KeyPeriod> periods;
  std::string again;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty()) continue;
    const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
    uint64_t first = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &first)) return std::nullopt;
    absl::StatusOr<VerificationKey> key = VerificationKey::Parse(parts[1]);
    if (!key.ok() || (periods.empty() ? first != 0 : first <= periods.back().first_sequence)) {
      return std::nullopt;
    }
    if (HasKey(periods, *key)) return std::nullopt;
    periods.push_back({first, *std::move(key)});
    again += KeyLine(periods.back());
  }
  if (periods.empty() || again != text) return std::nullopt;
  return periods;
}

bool HasLineOf(const Note& note, const VerificationKey& key) {
  return std::any_of(note.signatures.begin(), note.signatures.end(), [&](const auto& line) {
    return line.name == key.name() && line.key_id == key.key_id();
  });
}

class Verifier {
 public:
  Verifier(const std::string& path, const ExportExpectations& expected)
      : path_(path), expected_(expected) {}

  ExportResult Run() {
    LETHE_CHECK(!expected_.keys.empty());
    const bool good = Open() && ReadCheckpoint() && CheckListing() && CheckCertificates() &&
                      CheckTree() && CheckKeys() && CheckTexts() && CheckReceipt();
    CountKeys();
    if (good) result_.finding.message = "Verified.";
    return std::move(result_);
  }

 private:
  // Takes over a finding; true when there is nothing wrong.
  bool Good(Finding finding) {
    if (finding.ok()) return true;
    result_.finding = std::move(finding);
    return false;
  }
  bool Unread(absl::Status status) {
    Finding finding;
    finding.io = std::move(status);
    return Good(std::move(finding));
  }
  // What is wrong with a certificate of which a file could not be read.
  static Finding Unread(uint64_t sequence, const EntryCheck& check) {
    Finding finding;
    finding.io = check.io;
    if (!absl::IsResourceExhausted(check.io)) return finding;
    constexpr std::pair<Failure, absl::string_view> kParts[] = {
        {Failure::kMalformedEnvelope, kEnvelopeSuffix},
        {Failure::kMalformedProof, kTlogProofSuffix},
        {Failure::kMalformedBundle, kSigstoreSuffix}};
    const auto& [failure, suffix] = kParts[check.files.failed_part];
    finding =
        Wrong(failure, "The file is longer than it can be.", CertificatePath(sequence, suffix));
    finding.sequence = sequence;
    return finding;
  }
  // The bytes of a file that may be too long to be right.
  bool Read(const char* file, size_t limit, Failure too_long, std::string& bytes) {
    absl::StatusOr<std::string> read = facts_.input->Read(file, limit);
    if (absl::IsResourceExhausted(read.status())) {
      return Good(Wrong(too_long, "The file is longer than it can be.", file));
    }
    if (!read.ok()) return Unread(read.status());
    bytes = *std::move(read);
    return true;
  }

  bool Open() {
    absl::StatusOr<std::unique_ptr<ExportInput>> input = ExportInput::Open(path_);
    if (!input.ok()) return Unread(input.status());
    input_ = *std::move(input);
    facts_.input = input_.get();
    facts_.origin = expected_.origin.value_or(expected_.keys.front().name());
    return Good(input_->Scan());
  }

  // The checkpoint's own checks. A key that is not pinned yet may have signed it; it must then turn
  // out to be one that a hand-over names.
  bool ReadCheckpoint() {
    const std::set<std::string>& files = input_->listing().files;
    if (files.count(kCheckpoint) == 0) return Good(Missing(kCheckpoint));
    if (!Read(kCheckpoint, kMaxNoteBytes, Failure::kMalformedCheckpoint, facts_.note)) return false;
    const absl::StatusOr<Note> note = ParseNote(facts_.note);
    std::vector<VerificationKey> signers;
    if (note.ok()) {
      std::copy_if(expected_.keys.begin(), expected_.keys.end(), std::back_inserter(signers),
                   [&](const VerificationKey& key) { return HasLineOf(*note, key); });
      if (signers.empty() && files.count(kKeys) != 0) {
        if (!ReadKeys()) return false;
        const VerificationKey& hint = listed_.back().key;
        if (HasLineOf(*note, hint) && hint.name() == expected_.keys.front().name()) {
          signers.push_back(hint);
        }
      }
    }
    if (signers.empty()) signers.push_back(expected_.keys.front());
    for (const VerificationKey& key : signers) {
      CheckpointResult checked = VerifyCheckpoint(facts_.note, key);
      if (!checked.ok()) return Good(Wrong(checked.failure, checked.message, kCheckpoint));
      facts_.checkpoint = std::move(checked.checkpoint);
      facts_.checkpoint_key = key;
    }
    if (facts_.checkpoint.origin != facts_.origin) {
      return Good(
          Wrong(Failure::kOriginMismatch, "The checkpoint is that of another log.", kCheckpoint));
    }
    result_.checkpoint = facts_.checkpoint;
    if (!expected_.policy.has_value()) return true;
    QuorumResult quorum = CheckQuorum(*note, *expected_.policy);
    result_.cosignatures = std::move(quorum.cosignatures);
    return quorum.ok() || Good(Wrong(quorum.failure, quorum.message, kCheckpoint));
  }

  bool ReadKeys() {
    std::string text;
    if (!Read(kKeys, kMaxKeysBytes, Failure::kKeyListMismatch, text)) return false;
    auto listed = ParseKeys(text);
    if (!listed.has_value()) {
      return Good(Wrong(Failure::kKeyListMismatch, "The file is no list of keys.", kKeys));
    }
    listed_ = *std::move(listed);
    return true;
  }

  Finding Missing(absl::string_view file) const {
    return Wrong(Failure::kMissingFile, "The file is missing.", file);
  }

  // The certificates that are there are those that must be, and so are the other files.
  bool CheckListing() {
    const ExportListing& listing = input_->listing();
    const uint64_t size = facts_.checkpoint.size;
    const auto first_tile = listing.files.lower_bound("tile/");
    result_.whole = first_tile != listing.files.end() && absl::StartsWith(*first_tile, "tile/");
    const bool range = expected_.first.has_value() || expected_.last.has_value();
    if (size == 0) {
      return Good(Wrong(Failure::kEmptyChain, "The log is empty: there is nothing to verify."));
    }
    const uint64_t first = range && !result_.whole ? expected_.first.value_or(0) : 0;
    const uint64_t last = range && !result_.whole ? expected_.last.value_or(size - 1) : size - 1;
    if (range && (expected_.last.value_or(size - 1) >= size ||
                  expected_.first.value_or(0) > expected_.last.value_or(size - 1))) {
      return Good(Wrong(Failure::kTruncated,
                        absl::StrCat("The checkpoint is of ", size,
                                     " certificates, which are fewer than the range needs.")));
    }
    const uint64_t have_first = listing.first_certificate;
    const uint64_t end = have_first + listing.certificates;
    const std::string hint =
        result_.whole ? "" : " For an export of a range, say which: --first N --last M.";
    if (listing.certificates == 0) {
      return Good(Wrong(Failure::kMissingHead, absl::StrCat("No certificate is there.", hint)));
    }
    if (have_first > first) {
      return Good(Wrong(Failure::kMissingHead, absl::StrCat("The first certificate is ", have_first,
                                                            ", not ", first, ".", hint)));
    }
    if (end <= last) {
      return Good(Wrong(Failure::kTruncated, absl::StrCat("The last certificate is ", end - 1,
                                                          ", not ", last, ".", hint)));
    }
    if (end > size) {
      return Good(Wrong(
          Failure::kUnexpectedTail,
          absl::StrCat("Certificate ", size, " is there, and the checkpoint is of ", size, "."),
          CertificatePath(size, kEnvelopeSuffix)));
    }
    if (have_first < first || end - 1 > last) {
      return Good(
          Wrong(Failure::kUnexpectedFile, "The certificate is not of the range asked for.",
                CertificatePath(have_first < first ? have_first : last + 1, kEnvelopeSuffix)));
    }
    result_.first = first;
    end_ = end;
    std::set<std::string> wanted = {kCheckpoint, kKeys, kReport, kSummaryCsv, kSummaryJson};
    if (result_.whole || !range) {
      for (const TileId& tile : TilesOf(size)) {
        wanted.insert(TilePath(tile));
        if (tile.level == 0) wanted.insert(EntriesPath(tile.index, tile.width));
      }
    }
    for (const std::string& file : wanted) {
      if (listing.files.count(file) == 0) return Good(Missing(file));
    }
    for (const std::string& file : listing.files) {
      if (wanted.count(file) == 0) {
        return Good(
            Wrong(Failure::kUnexpectedFile, "An export of this size has no such file.", file));
      }
    }
    return true;
  }

  // The pinned key that the first certificate names; else the first one, which it then is not
  // signed by.
  bool ChooseFirstKey() {
    EntryCheck first;
    ReadEntry(facts_, result_.first, first);
    if (!first.io.ok()) return Good(Unread(result_.first, first));
    const absl::StatusOr<Envelope> envelope = ParseEnvelope(first.files.envelope);
    auto key = std::find_if(expected_.keys.begin(), expected_.keys.end(),
                            [&](const VerificationKey& pinned) {
                              return envelope.ok() && envelope->keyid == pinned.short_name();
                            });
    if (key == expected_.keys.end()) key = expected_.keys.begin();
    result_.keys.push_back({result_.first, *key});
    return true;
  }

  // What is made anew from the certificates while they are read.
  bool OpenTexts() {
    ReportFacts facts;
    facts.checkpoint = facts_.checkpoint;
    const absl::StatusOr<Note> note = ParseNote(facts_.note);
    LETHE_CHECK(note.ok());  // its signature was verified
    facts.note = *note;
    for (const auto& period : listed_) facts.keys.emplace_back(period.first_sequence, period.key);
    facts.first = result_.first;
    facts.count = end_ - result_.first;
    if (!expected_.skip_report) {
      if (!Read(kReport, kMaxReportBytes, Failure::kReportMismatch, report_text_)) return false;
      const absl::StatusOr<int64_t> time = ReportTime(report_text_);
      if (!time.ok()) {
        return Good(
            Wrong(Failure::kReportMismatch, "The report gives no time as its own.", kReport));
      }
      facts.created_unix = *time;
      report_ = std::make_unique<HtmlReport>(std::move(facts));
    }
    json_ = std::make_unique<TextCheck>(*input_, kSummaryJson, Failure::kSummaryMismatch);
    csv_ = std::make_unique<TextCheck>(*input_, kSummaryCsv, Failure::kSummaryMismatch);
    return Good(csv_->Expect(SummaryCsvHeader()));
  }

  bool CheckCertificates() {
    if (expected_.earlier.has_value() && !ReadEarlier()) return false;
    if (!ReadKeys() || !OpenTexts() || !ChooseFirstKey()) return false;
    tiles_ = std::make_unique<TileCheck>(*input_);
    ledger_ = std::make_unique<KeyLedger>(result_.first);
    int threads = expected_.threads;
    // More than processors: the same threads wait for the files.
    if (threads <= 0) threads = 2 * static_cast<int>(std::thread::hardware_concurrency());
    threads = std::clamp(threads, 1, kMaxThreads);

    std::vector<std::optional<EntryCheck>> checks(kTileWidth);
    std::vector<absl::string_view> leaves;
    std::string entries;
    for (uint64_t at = result_.first; at < end_;) {
      // Batches end where tiles do.
      const uint64_t tile = at / kTileWidth;
      const uint64_t next = std::min<uint64_t>(end_, (tile + 1) * kTileWidth);
      const auto count = static_cast<size_t>(next - at);
      const uint64_t begin = result_.whole ? tile * kTileWidth : at;
      if (result_.whole && at == begin &&
          !ReadEntries(tile, static_cast<int>(count), entries, leaves)) {
        return false;
      }
      const VerificationKey key = result_.keys.back().key;
      const auto skipped = static_cast<size_t>(at - begin);
      for (auto& check : checks) check.reset();
      std::atomic<size_t> bytes = 0;
      InParallel(count, threads, [&](size_t i) {
        if (i > 0 && bytes > expected_.batch_bytes) return;
        EntryCheck& check = checks[i].emplace();
        ReadEntry(facts_, at + i, check);
        bytes += check.files.Bytes();
        CheckEntry(facts_, at + i, LeafAt(leaves, skipped + i), key, check);
      });
      // What is behind one that was left out is read again.
      const auto done = static_cast<size_t>(
          std::find_if(checks.begin(), checks.begin() + static_cast<ptrdiff_t>(count),
                       [](const auto& check) { return !check.has_value(); }) -
          checks.begin());
      for (size_t i = 0; i < done; ++i) {
        // A hand-over among those before it: the key is another one now.
        if (!SameKey(key, result_.keys.back().key)) {
          CheckEntry(facts_, at + i, LeafAt(leaves, skipped + i), result_.keys.back().key,
                     *checks[i]);
        }
        if (!Accept(at + i, *checks[i])) return false;
      }
      at += done;
    }
    return true;
  }

  std::optional<absl::string_view> LeafAt(const std::vector<absl::string_view>& leaves,
                                          size_t i) const {
    if (!result_.whole) return std::nullopt;
    return leaves[i];
  }

  bool ReadEntries(uint64_t tile,
                   int width,
                   std::string& bytes,
                   std::vector<absl::string_view>& leaves) {
    const std::string file = EntriesPath(tile, width);
    return Read(file.c_str(), kMaxEntriesBytes, Failure::kTileMismatch, bytes) &&
           Good(SplitEntries(bytes, file, width, leaves));
  }

  // One certificate, after all before it.
  bool Accept(uint64_t sequence, EntryCheck& check) {
    if (!check.io.ok()) {
      return Good(Unread(sequence, check));
    }
    const CertificateResult& certificate = check.certificate;
    if (!certificate.ok()) return Refuse(sequence, certificate.failure, certificate.message);
    const CertificateBody& body = *certificate.body;
    if (body.sequence != sequence) {
      return Refuse(
          sequence, Failure::kSequenceMismatch,
          absl::StrCat("The export calls it ", sequence, ", it is signed as ", body.sequence, "."));
    }
    if (sequence > result_.first && body.previous_leaf_hash != result_.last_leaf_hash) {
      return Refuse(sequence, Failure::kPreviousLeafMismatch,
                    absl::StrCat("Certificate ", sequence, " names another predecessor."));
    }
    if (!Good(std::move(check.proofs))) return false;
    result_.last_leaf_hash = certificate.leaf_hash;
    if (body.kind == CertificateKind::kTenantClosed && sequence + 1 != facts_.checkpoint.size) {
      return Refuse(sequence, Failure::kAfterClosing,
                    absl::StrCat("It closes the log, which goes on to ", facts_.checkpoint.size,
                                 " certificates in the checkpoint."));
    }
    if (!ledger_->Add(body)) {
      return body.restoration.has_value()
                 ? Refuse(sequence, Failure::kRestorationMismatch,
                          "It says that tokens of a copy were erased after it, and no certificate "
                          "after the copy erased any.")
                 : Refuse(sequence, Failure::kDestructionMismatch,
                          "It says that the keys of a range are destroyed, in which there is no "
                          "erasure.");
    }
    if (body.handover.has_value()) {
      absl::StatusOr<VerificationKey> next = VerificationKey::Parse(body.handover->next);
      LETHE_CHECK(next.ok());  // a rule of the statement
      if (HasKey(result_.keys, *next)) {
        return Refuse(sequence, Failure::kBadStatement,
                      "The key handed over to was the log's before.");
      }
      result_.keys.push_back({sequence + 1, *std::move(next)});
    }
    if (result_.whole && !Good(tiles_->Append(certificate.leaf_hash))) return false;
    ++result_.verified;
    if (!CheckEarlier() || !Good(json_->Expect(check.summary_json)) ||
        !Good(csv_->Expect(check.summary_csv))) {
      return false;
    }
    if (report_ != nullptr) report_->Add(check.SummaryOf());
    return MatchOwn(sequence, certificate);
  }

  bool Refuse(uint64_t sequence, Failure failure, absl::string_view message) {
    const bool leaf = failure == Failure::kLeafMismatch || failure == Failure::kMalformedLeaf;
    const uint64_t tile = sequence / kTileWidth;
    const uint64_t rest = facts_.checkpoint.size - tile * kTileWidth;
    Finding finding =
        Wrong(failure, message,
              leaf ? EntriesPath(tile, static_cast<int>(std::min<uint64_t>(rest, kTileWidth)))
                   : CertificatePath(sequence, kEnvelopeSuffix));
    finding.sequence = sequence;
    return Good(std::move(finding));
  }

  bool ReadEarlier() {
    const absl::StatusOr<Note> note = ParseNote(*expected_.earlier);
    const absl::StatusOr<Checkpoint> earlier =
        note.ok() ? ParseCheckpointText(note->text) : note.status();
    if (!earlier.ok()) {
      return Good(Wrong(Failure::kMalformedCheckpoint, "The earlier checkpoint is malformed."));
    }
    earlier_ = *earlier;
    if (earlier->size == 0) {
      return Good(Wrong(Failure::kInconsistent,
                        "The earlier checkpoint is of an empty log, which shows nothing."));
    }
    if (earlier->size <= facts_.checkpoint.size) return true;
    return Good(Wrong(Failure::kInconsistent,
                      absl::StrCat("The log shrank: it had ", earlier->size,
                                   " certificates and has ", facts_.checkpoint.size, ".")));
  }

  // Whether the log passed through the earlier checkpoint, with the key of that time.
  bool CheckEarlier() {
    if (!earlier_.has_value() || !result_.whole || earlier_->size != result_.verified) return true;
    const CheckpointResult checked = VerifyCheckpoint(*expected_.earlier, result_.keys.back().key);
    if (!checked.ok()) {
      return Good(
          Wrong(checked.failure, absl::StrCat("The earlier checkpoint: ", checked.message)));
    }
    if (checked.checkpoint.root == tiles_->range().Root()) return true;
    return Good(Wrong(Failure::kInconsistent,
                      absl::StrCat("The log forked: its first ", earlier_->size,
                                   " certificates are not those of the earlier checkpoint.")));
  }

  bool CheckTree() {
    if (!result_.whole) return true;
    if (!Good(tiles_->Finish())) return false;
    if (tiles_->range().Root() == facts_.checkpoint.root) return true;
    return Good(Wrong(Failure::kCheckpointMismatch,
                      "The checkpoint's root is not that of the certificates.", kCheckpoint));
  }

  // The checkpoint's key is one that a pinned key leads to, each pinned key is the log's, and
  // keys.txt says the same.
  bool CheckKeys() {
    if (!CheckSigner(*facts_.checkpoint_key)) return false;
    for (const VerificationKey& key : expected_.keys) {
      if (result_.whole && !HasKey(result_.keys, key)) {
        return Good(Wrong(Failure::kUnknownKey, absl::StrCat("The pinned key ", key.short_name(),
                                                             " is none of this log's.")));
      }
    }
    if (!Lists(listed_)) {
      return Good(Wrong(Failure::kKeyListMismatch,
                        "The list of keys is not that of the certificates.", kKeys));
    }
    return true;
  }

  // The last key that the certificates show, since those before it are retired. Behind a range
  // there may have been more hand-overs: then it is the newest pinned key, which the range does not
  // show.
  bool CheckSigner(const VerificationKey& signer) {
    const VerificationKey& newest = expected_.keys.back();
    const bool shown = result_.whole || HasKey(result_.keys, newest);
    if (SameKey(signer, shown ? result_.keys.back().key : newest)) {
      if (shown || end_ != facts_.checkpoint.size) return true;
      // The range goes to the end of the log: nothing can have come behind it.
      return Good(Wrong(Failure::kCheckpointSignature,
                        "The checkpoint is not signed by the key in force.", kCheckpoint));
    }
    const bool retired = HasKey(result_.keys, signer) && !SameKey(signer, result_.keys.back().key);
    if (retired) {
      return Good(Wrong(Failure::kCheckpointSignature,
                        "The checkpoint is not signed by the key in force.", kCheckpoint));
    }
    if (!shown) {
      return Good(Wrong(Failure::kUnknownKey,
                        absl::StrCat("The newest pinned key, ", newest.short_name(),
                                     ", did not sign the checkpoint. Pin keys oldest first, and "
                                     "none that came after the export."),
                        kCheckpoint));
    }
    return Good(Wrong(Failure::kUnknownKey,
                      "The checkpoint is signed by a key that no hand-over leads to.",
                      kCheckpoint));
  }

  // Of a range the list may tell more than what was verified, but nothing else.
  bool Lists(const std::vector<ChainVerifier::KeyPeriod>& listed) const {
    auto next = result_.keys.begin();
    for (size_t i = 0; i < listed.size(); ++i) {
      if (listed[i].first_sequence > facts_.checkpoint.size) return false;
      const bool later = listed[i].first_sequence > end_;
      const bool before = i + 1 < listed.size() && listed[i + 1].first_sequence <= result_.first;
      if (later || before) {
        if (result_.whole) return false;
        continue;
      }
      if (next == result_.keys.end() || !SameKey(listed[i].key, next->key)) return false;
      if (next != result_.keys.begin() || result_.whole) {
        if (listed[i].first_sequence != next->first_sequence) return false;
      }
      ++next;
    }
    return next == result_.keys.end() && SameKey(listed.back().key, *facts_.checkpoint_key);
  }

  bool CheckTexts() {
    if (!Good(json_->Finish()) || !Good(csv_->Finish())) return false;
    return report_ == nullptr || report_->Html() == report_text_ ||
           Good(Wrong(Failure::kReportMismatch,
                      "The report is not what these certificates make; if another version of Lethe "
                      "made it, --skip-report checks the rest.",
                      kReport));
  }

  void CountKeys() {
    if (ledger_ == nullptr) return;
    result_.erasures = ledger_->erasures();
    if (result_.first + result_.verified != facts_.checkpoint.size) return;
    result_.keys_pending = ledger_->pending();
    result_.first_pending = ledger_->NextPending(0);
  }

  bool MatchOwn(uint64_t sequence, const CertificateResult& certificate) {
    if (!expected_.receipt.has_value()) return true;
    switch (MatchReceipt(*expected_.receipt, *certificate.body, certificate.id)) {
      case ReceiptMatch::kNo:
        return true;
      case ReceiptMatch::kYes:
        result_.receipt_sequence = sequence;
        return true;
      case ReceiptMatch::kOtherSubject:
        return Refuse(sequence, Failure::kReceiptMismatch,
                      "The certificate is of this request, but not of this subject.");
      case ReceiptMatch::kOtherCertificate:
        return Refuse(sequence, Failure::kReceiptMismatch,
                      "The certificate that the receipt names is not of this request.");
    }
    LETHE_CHECK(false);
  }

  bool CheckReceipt() {
    if (!expected_.receipt.has_value() || result_.receipt_sequence.has_value()) return true;
    return Good(Wrong(Failure::kReceiptMismatch, "No certificate is of the receipt's request."));
  }

  const std::string path_;
  const ExportExpectations& expected_;
  std::unique_ptr<ExportInput> input_;
  ExportFacts facts_;
  uint64_t end_ = 0;  // one past the last certificate
  std::optional<Checkpoint> earlier_;
  std::unique_ptr<TileCheck> tiles_;
  std::unique_ptr<KeyLedger> ledger_;
  std::unique_ptr<TextCheck> json_;
  std::unique_ptr<TextCheck> csv_;
  std::vector<ChainVerifier::KeyPeriod> listed_;  // as keys.txt says
  std::unique_ptr<HtmlReport> report_;
  std::string report_text_;
  ExportResult result_;
};

}  // namespace

ExportResult VerifyExport(const std::string& path, const ExportExpectations& expectations) {
  return Verifier(path, expectations).Run();
}

}  // namespace lethe::audit
