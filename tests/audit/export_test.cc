// WriteExport against readers of its files that share no code with it: tiles, entries, proofs and
// keys are parsed here again from the format's text, and the tree is computed from its definition.
#include "audit/export.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <new>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/sample_log.h"

namespace {

// What is allocated by new and not yet freed: unlike the process's size the same under sanitizers.
std::atomic<int64_t> live_bytes = 0;

void Free(void* memory) {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) {
  void* const memory = std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }

namespace lethe::audit::testing {
namespace {

using Hashes = std::vector<std::string>;

std::string Sha(const std::string& bytes) { return std::string(AsBytes(Sha256(bytes))); }

// RFC 6962, section 2.1, literally.
std::string Root(const Hashes& leaves) {
  if (leaves.empty()) return Sha("");
  if (leaves.size() == 1) return leaves[0];
  size_t split = 1;
  while (2 * split < leaves.size()) split *= 2;
  const auto middle = leaves.begin() + static_cast<ptrdiff_t>(split);
  return Sha('\1' + Root({leaves.begin(), middle}) + Root({middle, leaves.end()}));
}

// RFC 6962, section 2.1.1: PATH(m, D[n]).
Hashes Path(size_t m, const Hashes& leaves) {
  if (leaves.size() == 1) return {};
  size_t split = 1;
  while (2 * split < leaves.size()) split *= 2;
  const auto middle = leaves.begin() + static_cast<ptrdiff_t>(split);
  const Hashes left(leaves.begin(), middle);
  const Hashes right(middle, leaves.end());
  Hashes path = m < split ? Path(m, left) : Path(m - split, right);
  path.push_back(Root(m < split ? right : left));
  return path;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  EXPECT_TRUE(lines.back().empty()) << "no newline at the end";
  lines.pop_back();
  return lines;
}

std::string TileNumber(size_t n) {
  std::string text = absl::StrFormat("%03d", n % 1000);
  for (n /= 1000; n > 0; n /= 1000) text = absl::StrFormat("x%03d/%s", n % 1000, text);
  return text;
}

std::string Stem(size_t sequence) {
  return absl::StrFormat("certificates/%03d/%06d", sequence / 1000, sequence);
}

void TakeOut(Files& files, const std::string& name, std::string& bytes) {
  const auto found = files.find(name);
  ASSERT_NE(found, files.end()) << name;
  bytes = found->second;
  files.erase(found);
}

// Reads the tiles and takes them out of `files`; returns the leaf hashes.
Hashes ReadTiles(Files& files, const SampleLog& log) {
  Hashes leaves;
  for (const SignedCertificate& certificate : log.certificates()) {
    leaves.push_back(Sha('\0' + certificate.leaf));
  }
  Hashes level = leaves;
  for (size_t l = 0; !level.empty(); ++l) {
    for (size_t tile = 0; tile * 256 < level.size(); ++tile) {
      const size_t width = std::min<size_t>(256, level.size() - tile * 256);
      const std::string suffix = width < 256 ? absl::StrCat(".p/", width) : "";
      std::string expected;
      for (size_t i = 0; i < width; ++i) expected += level[tile * 256 + i];
      std::string bytes;
      TakeOut(files, absl::StrCat("tile/", l, "/", TileNumber(tile), suffix), bytes);
      EXPECT_EQ(bytes, expected) << "level " << l << " tile " << tile;
      if (l > 0) continue;
      std::string entries;
      TakeOut(files, absl::StrCat("tile/entries/", TileNumber(tile), suffix), entries);
      std::string expected_entries;
      for (size_t i = 0; i < width; ++i) {
        const std::string& leaf = log.certificates()[tile * 256 + i].leaf;
        expected_entries += static_cast<char>(leaf.size() / 256);
        expected_entries += static_cast<char>(leaf.size() % 256);
        expected_entries += leaf;
      }
      EXPECT_EQ(entries, expected_entries) << "entries " << tile;
    }
    Hashes above;
    for (size_t i = 0; i + 256 <= level.size(); i += 256) {
      const auto from = level.begin() + static_cast<ptrdiff_t>(i);
      above.push_back(Root({from, from + 256}));
    }
    level = std::move(above);
  }
  return leaves;
}

void CheckExport(const SampleLog& log, uint64_t first, uint64_t last, Files files) {
  Hashes leaves;
  if (first == 0 && last + 1 == log.size()) {
    leaves = ReadTiles(files, log);
  } else {
    for (const SignedCertificate& certificate : log.certificates()) {
      leaves.push_back(Sha('\0' + certificate.leaf));
    }
  }
  std::string checkpoint;
  TakeOut(files, "checkpoint", checkpoint);
  EXPECT_EQ(checkpoint, log.checkpoint());
  EXPECT_EQ(Lines(checkpoint)[2], Base64(Root(leaves)));
  std::string keys;
  TakeOut(files, "keys.txt", keys);
  const std::vector<std::string> key_lines = Lines(keys);
  ASSERT_EQ(key_lines.size(), log.keys().size());
  for (size_t i = 0; i < key_lines.size(); ++i) {
    EXPECT_EQ(key_lines[i], absl::StrCat(log.keys()[i].first, " ", log.keys()[i].second.vkey()));
  }
  for (uint64_t i = first; i <= last; ++i) {
    std::string envelope;
    std::string proof;
    std::string bundle;
    TakeOut(files, Stem(i) + ".envelope.json", envelope);
    TakeOut(files, Stem(i) + ".tlog-proof", proof);
    TakeOut(files, Stem(i) + ".sigstore.json", bundle);
    EXPECT_EQ(envelope, log.certificates()[i].envelope);
    std::string expected = absl::StrCat("c2sp.org/tlog-proof@v1\nindex ", i, "\n");
    for (const std::string& hash : Path(i, leaves)) absl::StrAppend(&expected, Base64(hash), "\n");
    EXPECT_EQ(proof, absl::StrCat(expected, "\n", checkpoint)) << i;
    EXPECT_NE(bundle.find(absl::StrCat("\"logIndex\":\"", i, "\"")), std::string::npos);
    EXPECT_NE(bundle.find(Base64(log.certificates()[i].leaf)), std::string::npos);
    EXPECT_NE(bundle.find(envelope), std::string::npos);
  }
  std::string json;
  std::string csv;
  std::string report;
  TakeOut(files, "summary.jsonl", json);
  TakeOut(files, "summary.csv", csv);
  TakeOut(files, "report.html", report);
  EXPECT_EQ(Lines(json).size(), last - first + 1);
  EXPECT_EQ(Lines(csv).size(), last - first + 2);
  for (uint64_t i = first; i <= last; ++i) {
    EXPECT_EQ(Lines(json)[i - first].find(absl::StrCat("{\"sequence\":", i, ",")), 0u);
  }
  EXPECT_NE(report.find(Base64(Root(leaves))), std::string::npos);
  EXPECT_TRUE(files.empty()) << "unexpected: " << files.begin()->first;
}

TEST(Export, EveryFileOfRandomLogsIsWhatTheFormatSays) {
  const uint32_t seed = 20260214;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (const size_t size : {1u, 2u, 3u, 7u, 40u, 255u, 256u, 257u, 300u, 530u}) {
    SCOPED_TRACE(::testing::Message() << size << " certificates");
    std::set<uint64_t> handovers;
    if (size > 2) handovers = {random() % size, random() % size};
    SampleLog log(size, handovers);
    CheckExport(log, 0, size - 1, log.Export().files());
    const uint64_t a = random() % size;
    const uint64_t b = random() % size;
    const ExportRange range{std::min(a, b), std::max(a, b)};
    SCOPED_TRACE(::testing::Message() << range.first << " to " << *range.last);
    CheckExport(log, range.first, *range.last, log.Export(range).files());
  }
}

TEST(Export, FilesComeInTheOrderOfTheFormat) {
  SampleLog log(3);
  EXPECT_EQ(
      log.Export().order(),
      (std::vector<std::string>{
          "checkpoint", "keys.txt", "tile/0/000.p/3", "tile/entries/000.p/3",
          "certificates/000/000000.envelope.json", "certificates/000/000000.tlog-proof",
          "certificates/000/000000.sigstore.json", "certificates/000/000001.envelope.json",
          "certificates/000/000001.tlog-proof", "certificates/000/000001.sigstore.json",
          "certificates/000/000002.envelope.json", "certificates/000/000002.tlog-proof",
          "certificates/000/000002.sigstore.json", "summary.jsonl", "summary.csv", "report.html"}));
}

// tests/audit/golden/export.sha256 is what sha256sum says of such an export. The report's looks are
// free to change; all else is the format.
TEST(Export, ThreeCertificatesAreTheGoldenBytes) {
  SampleLog log(3);
  std::string sums;
  const MemorySink sink = log.Export();
  for (const std::string& name : sink.order()) {
    if (name == "report.html") continue;
    absl::StrAppend(&sums, Hex(Sha256(sink.files().at(name))), "  ", name, "\n");
  }
  EXPECT_EQ(sums, ReadAll(LETHE_SOURCE_DIR "/tests/audit/golden/export.sha256"));
}

TEST(Export, AnEmptyLogHasNoCertificatesAndNoTiles) {
  SampleLog log(0);
  const Files files = log.Export().files();
  std::set<std::string> names;
  for (const auto& [name, bytes] : files) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"checkpoint", "keys.txt", "report.html", "summary.csv",
                                          "summary.jsonl"}));
  EXPECT_EQ(files.at("summary.jsonl"), "");
  EXPECT_EQ(Lines(files.at("summary.csv")).size(), 1u);
}

TEST(Export, EqualLogsGiveEqualBytes) {
  SampleLog a(20, {5});
  SampleLog b(20, {5});
  EXPECT_EQ(a.Export().files(), b.Export().files());
}

class NullSink : public ExportSink {
 public:
  absl::Status Begin(absl::string_view) override { return absl::OkStatus(); }
  absl::Status Write(absl::string_view) override { return absl::OkStatus(); }
  absl::Status End() override { return absl::OkStatus(); }
};

TEST(Export, RangesOutsideOfTheLogAreRefused) {
  SampleLog log(5);
  NullSink sink;
  const auto refused = [&](const ExportRange& range, int64_t now = 0) {
    return WriteExport(log, range, now, sink).code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({.first = 5}));
  EXPECT_TRUE(refused({.first = 0, .last = 5}));
  EXPECT_TRUE(refused({.first = 3, .last = 2}));
  EXPECT_TRUE(refused({.first = ~uint64_t{0}}));
  EXPECT_TRUE(refused({.first = 0, .last = ~uint64_t{0}}));
  EXPECT_TRUE(refused({}, -1));
  EXPECT_TRUE(refused({}, int64_t{1} << 60));
  EXPECT_FALSE(refused({.first = 4, .last = 4}));
  SampleLog empty(0);
  EXPECT_EQ(WriteExport(empty, {.first = 0, .last = 0}, 0, sink).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteExport(empty, {.first = 1}, 0, sink).code(), absl::StatusCode::kInvalidArgument);
}

// A log that lies in one way.
class LyingLog : public LogSource {
 public:
  enum class Lie {
    kNone,
    kSize,
    kCheckpoint,
    kKeys,
    kNode,
    kLeaf,
    kSwapped,
    kMissing,
    kTwice,
    kNoEnvelope,
    kNodeFails,
    kEntriesFail
  };
  LyingLog(SampleLog& log, Lie lie) : log_(log), lie_(lie) {}

  uint64_t size() const override { return log_.size() - (lie_ == Lie::kSize ? 1 : 0); }
  std::string checkpoint() const override {
    std::string note = log_.checkpoint();
    if (lie_ == Lie::kCheckpoint) note[note.size() - 10] ^= 1;
    return note;
  }
  std::vector<std::pair<uint64_t, VerificationKey>> keys() const override {
    auto keys = log_.keys();
    if (lie_ == Lie::kKeys) keys.erase(keys.begin());
    return keys;
  }
  absl::StatusOr<Digest> Node(int level, uint64_t index) override {
    if (lie_ == Lie::kNodeFails) return absl::UnavailableError("disk");
    absl::StatusOr<Digest> node = log_.Node(level, index);
    if (lie_ == Lie::kNode && level == 1 && index == 1) (*node)[0] ^= 1;
    return node;
  }
  absl::Status Entries(uint64_t first,
                       uint64_t last,
                       absl::FunctionRef<absl::Status(const ExportEntry&)> visit) override {
    if (lie_ == Lie::kEntriesFail) return absl::UnavailableError("disk");
    for (uint64_t i = first; i <= last; ++i) {
      uint64_t from = i;
      if (lie_ == Lie::kMissing && i == last) break;
      if (lie_ == Lie::kSwapped && i == 2) from = 3;
      ExportEntry entry{i, log_.certificates()[from].envelope, log_.certificates()[from].leaf};
      if (lie_ == Lie::kLeaf && i == 2) entry.leaf = log_.certificates()[3].leaf;
      if (lie_ == Lie::kNoEnvelope && i == 2) entry.envelope = "{}";
      absl::Status status = visit(entry);
      if (lie_ == Lie::kTwice && i == 2 && status.ok()) status = visit(entry);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  SampleLog& log_;
  Lie lie_;
};

TEST(Export, ALogThatContradictsItselfIsDataLoss) {
  using Lie = LyingLog::Lie;
  SampleLog log(9, {4});
  NullSink sink;
  for (const ExportRange& range : {ExportRange{}, ExportRange{.first = 1, .last = 6}}) {
    const auto code = [&](Lie lie) {
      LyingLog lying(log, lie);
      return WriteExport(lying, range, 0, sink).code();
    };
    EXPECT_EQ(code(Lie::kNone), absl::StatusCode::kOk);
    for (const Lie lie : {Lie::kSize, Lie::kCheckpoint, Lie::kKeys, Lie::kNode, Lie::kLeaf,
                          Lie::kSwapped, Lie::kMissing, Lie::kTwice, Lie::kNoEnvelope}) {
      EXPECT_EQ(code(lie), absl::StatusCode::kDataLoss) << static_cast<int>(lie);
    }
    EXPECT_EQ(code(Lie::kNodeFails), absl::StatusCode::kUnavailable);
    EXPECT_EQ(code(Lie::kEntriesFail), absl::StatusCode::kUnavailable);
  }
}

// Fails at its n-th call.
class FailingSink : public ExportSink {
 public:
  explicit FailingSink(int calls) : calls_(calls) {}
  absl::Status Begin(absl::string_view) override { return Next(); }
  absl::Status Write(absl::string_view) override { return Next(); }
  absl::Status End() override { return Next(); }
  bool failed() const { return failed_; }

 private:
  absl::Status Next() {
    EXPECT_FALSE(failed_) << "called again after it failed";
    failed_ = calls_-- == 0;
    return failed_ ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  }
  int calls_;
  bool failed_ = false;
};

TEST(Export, AFailingSinkEndsTheExportWithItsError) {
  SampleLog log(4);
  int failures = 0;
  while (true) {
    FailingSink sink(failures);
    const absl::Status written = WriteExport(log, {}, 0, sink);
    if (!sink.failed()) {
      EXPECT_TRUE(written.ok());
      break;
    }
    EXPECT_EQ(written.code(), absl::StatusCode::kResourceExhausted);
    ++failures;
  }
  EXPECT_GT(failures, 40);
}

// A long log that is made as it is read; nothing in WriteExport looks at signatures of
// certificates.
class EndlessLog : public LogSource {
 public:
  explicit EndlessLog(uint64_t size) : signer_(VectorSigner()) {
    CompactRange tree;
    nodes_.resize(40);
    for (uint64_t i = 0; i < size; ++i) {
      const Digest hash = LeafHash(Make(i).leaf);
      nodes_[0].push_back(hash);
      tree.Append(hash, [this](int level, uint64_t, const Digest& node) {
        nodes_[static_cast<size_t>(level)].push_back(node);
      });
    }
    absl::StatusOr<std::string> note =
        SignCheckpoint({.origin = kOrigin, .size = size, .root = tree.Root()}, signer_);
    LETHE_CHECK(note.ok());
    note_ = *std::move(note);
    size_ = size;
  }

  uint64_t size() const override { return size_; }
  std::string checkpoint() const override { return note_; }
  std::vector<std::pair<uint64_t, VerificationKey>> keys() const override {
    return {{0, signer_.verification_key()}};
  }
  absl::StatusOr<Digest> Node(int level, uint64_t index) override {
    ++reads_;
    return nodes_.at(static_cast<size_t>(level)).at(index);
  }
  absl::Status Entries(uint64_t first,
                       uint64_t last,
                       absl::FunctionRef<absl::Status(const ExportEntry&)> visit) override {
    for (uint64_t i = first; i <= last; ++i) {
      const absl::Status status = visit(Make(i));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  uint64_t reads() const { return reads_; }

 private:
  ExportEntry Make(uint64_t i) const {
    CertificateBody body = MixedBody(i);
    body.sequence = i;
    if (i > 0) body.previous_leaf_hash = Sha256(absl::StrCat(i));
    Envelope envelope;
    envelope.payload_type = std::string(kInTotoPayloadType);
    envelope.payload = *SerializeStatement(body);
    envelope.keyid = signer_.verification_key().short_name();
    envelope.signature = std::string(64, 's');
    return {i, *SerializeEnvelope(envelope),
            LeafBytes(envelope.payload, envelope.signature, signer_.verification_key())};
  }

  Signer signer_;
  std::vector<std::vector<Digest>> nodes_;
  std::string note_;
  uint64_t size_ = 0;
  uint64_t reads_ = 0;
};

// Watches memory at each file.
class WatchingSink : public NullSink {
 public:
  absl::Status Begin(absl::string_view path) override {
    largest_ = std::max(largest_, live_bytes.load());
    return NullSink::Begin(path);
  }
  int64_t largest() const { return largest_; }

 private:
  int64_t largest_ = 0;
};

TEST(Export, NodesAreReadOnceForTilesAndAboutTwiceForProofs) {
  EndlessLog log(5000);
  NullSink sink;
  ASSERT_TRUE(WriteExport(log, {}, 0, sink).ok());
  // Tiles: n + n / 256 + ...; proofs: a sibling each at every level, 2 n in all.
  EXPECT_LT(log.reads(), 5000u * 31 / 10);
  EXPECT_GT(log.reads(), 5000u);
}

// Summaries that do not fit into memory wait where TMPDIR says.
TEST(Export, TemporaryFilesLieWhereTheEnvironmentSays) {
  EndlessLog log(1500);
  NullSink sink;
  setenv("TMPDIR", "/no/such/folder", 1);
  const absl::Status refused = WriteExport(log, {}, 0, sink);
  unsetenv("TMPDIR");
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("temporary file of a summary"));
  EXPECT_TRUE(WriteExport(log, {}, 0, sink).ok());
}

TEST(Export, MemoryDoesNotGrowWithTheLog) {
  EndlessLog small(1500);
  EndlessLog large(6000);
  WatchingSink first;
  ASSERT_TRUE(WriteExport(small, {}, 0, first).ok());
  WatchingSink second;
  ASSERT_TRUE(WriteExport(large, {}, 0, second).ok());
  // What the summaries alone would take: 6,000 x 2,600 bytes.
  EXPECT_LT(second.largest() - first.largest(), 8 << 20);
}

}  // namespace
}  // namespace lethe::audit::testing
