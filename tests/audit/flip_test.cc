// An export with any byte of it changed is refused, for a reason that fits the place; random damage
// is refused; and exports that nobody touched are not.
//
// LETHE_FLIPS=all flips every byte (default: some of each file). LETHE_GOOD_EXPORTS says how many
// good exports (default 40), LETHE_DAMAGES how many damaged ones.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/verify_export.h"
#include "gtest/gtest.h"
#include "tests/audit/forge.h"

namespace lethe::audit {
namespace {

using testing::Files;
using testing::Forge;
using testing::kOrigin;
using testing::MemorySink;
using testing::SampleLog;
using testing::TarEntries;
using testing::TarEntry;
using testing::TarOf;
using testing::TempFolder;
using testing::VectorSigner;
using testing::WriteAll;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) ADD_FAILURE() << name;
  return value;
}

uint64_t Seed() {
  const uint64_t seed = FromEnvironment("LETHE_SEED", std::random_device()());
  std::printf("LETHE_SEED=%lu\n", seed);
  return seed;
}

ExportExpectations Pinned(int threads = 1) {
  ExportExpectations expected;
  expected.keys = {VectorSigner().verification_key()};
  expected.threads = threads;
  return expected;
}

// What a changed byte in a file may be called. Every reason of a certificate's own checks is one of
// its envelope; the report and the summaries have one each.
std::set<Failure> ReasonsIn(const std::string& file) {
  if (file == "checkpoint") {
    return {Failure::kMalformedCheckpoint, Failure::kCheckpointSignature,
            Failure::kCheckpointMismatch};
  }
  if (file == "keys.txt") return {Failure::kKeyListMismatch};
  if (file == "report.html") return {Failure::kReportMismatch};
  if (absl::StartsWith(file, "summary.")) return {Failure::kSummaryMismatch};
  if (absl::StartsWith(file, "tile/entries/")) {
    return {Failure::kTileMismatch, Failure::kMalformedLeaf, Failure::kLeafMismatch};
  }
  if (absl::StartsWith(file, "tile/")) return {Failure::kTileMismatch};
  if (absl::EndsWith(file, ".envelope.json")) {
    return {Failure::kMalformedEnvelope, Failure::kWrongPayloadType, Failure::kUnknownKey,
            Failure::kBadSignature};
  }
  if (absl::EndsWith(file, ".tlog-proof")) {
    return {Failure::kMalformedProof, Failure::kProofMismatch};
  }
  return {Failure::kMalformedBundle, Failure::kBundleMismatch};
}

// The .tar of an export in a file of its own, of which bytes can be changed and put back.
class Archive {
 public:
  Archive(const std::string& path, std::string bytes) : path_(path), bytes_(std::move(bytes)) {
    WriteAll(path_, bytes_);
    file_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_GE(file_, 0);
  }
  ~Archive() { ::close(file_); }
  Archive(const Archive&) = delete;
  Archive& operator=(const Archive&) = delete;

  ExportResult VerifyWith(size_t at, char byte) {
    Put(at, byte);
    ExportResult result = VerifyExport(path_, Pinned());
    Put(at, bytes_[at]);
    return result;
  }
  ExportResult Verify() const { return VerifyExport(path_, Pinned()); }
  const std::string& bytes() const { return bytes_; }

 private:
  void Put(size_t at, char byte) {
    EXPECT_EQ(::pwrite(file_, &byte, 1, static_cast<off_t>(at)), 1);
  }
  std::string path_;
  std::string bytes_;
  int file_ = -1;
};

TEST(FlipTest, AnyByteOfASmallExport) {
  const char* how = std::getenv("LETHE_FLIPS");
  const bool all = how != nullptr && std::string(how) == "all";
  SampleLog log(3, {1});
  const Files files = Forge(log, log.signers().back());
  const TempFolder folder;
  Archive archive(folder / "export.tar", TarOf(files));
  ASSERT_TRUE(archive.Verify().ok());

  size_t start = 0;
  uint64_t flipped = 0;
  for (const TarEntry& entry : TarEntries(files)) {
    const size_t end = start + TarOf(entry).size();
    const size_t step = all                                       ? 1
                        : entry.name == "report.html"             ? 31
                        : absl::StartsWith(entry.name, "summary") ? 11
                                                                  : 5;
    for (size_t at = start; at < end; at += step) {
      const char byte = static_cast<char>(archive.bytes()[at] ^ (1 << (at % 8)));
      const Finding finding = archive.VerifyWith(at, byte).finding;
      ++flipped;
      ASSERT_TRUE(finding.io.ok()) << entry.name << " " << at - start;
      const bool content = at >= start + 512 && at < start + 512 + entry.bytes.size();
      const std::set<Failure> reasons =
          content ? ReasonsIn(entry.name)
                  : std::set<Failure>{Failure::kMalformedArchive, Failure::kUnexpectedFile};
      ASSERT_EQ(reasons.count(finding.failure), 1u)
          << Name(finding.failure) << " for byte " << at - start << " of " << entry.name << ": "
          << finding.message;
      if (content) {
        ASSERT_EQ(finding.file, entry.name) << at - start;
      }
    }
    start = end;
  }
  for (size_t at = start; at < archive.bytes().size(); at += all ? 1 : 101) {
    ++flipped;
    ASSERT_EQ(archive.VerifyWith(at, 1).finding.failure, Failure::kMalformedArchive);
  }
  ASSERT_TRUE(archive.Verify().ok());
  std::printf("flipped=%lu of=%zu\n", flipped, archive.bytes().size());
}

// Damage of any size and kind: cut, repeated, moved, overwritten, taken from another export.
TEST(FlipTest, RandomDamage) {
  std::mt19937_64 random(Seed());
  SampleLog log(4, {2});
  SampleLog other(5, {2});
  const Files good = Forge(log, log.signers().back());
  const Files strange = Forge(other, other.signers().back());
  const TempFolder folder;
  const std::string path = folder / "export.tar";
  const auto below = [&random](size_t n) { return n == 0 ? 0 : random() % n; };
  const uint64_t rounds = FromEnvironment("LETHE_DAMAGES", 1500);
  for (uint64_t round = 0; round < rounds; ++round) {
    Files files = good;
    const auto pick = [&](Files& from) {
      return std::next(from.begin(), static_cast<std::ptrdiff_t>(below(from.size())));
    };
    const auto victim = pick(files);
    std::string& bytes = victim->second;
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(64);
    switch (below(7)) {
      case 0:
        bytes.erase(at, length);
        break;
      case 1:
        bytes.insert(at, bytes.substr(below(bytes.size()), length));
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        for (size_t i = at; i < std::min(bytes.size(), at + length); ++i) {
          bytes[i] = static_cast<char>(random());
        }
        break;
      case 4:
        bytes = pick(files)->second;
        break;
      case 5: {
        const auto from = strange.find(victim->first);
        bytes = from == strange.end() ? "" : from->second;
        break;
      }
      default: {
        const std::string moved = victim->second;
        files.erase(victim);
        if (below(2) == 0) files[pick(files)->first] = moved;
        break;
      }
    }
    if (files == good) continue;
    std::string tar = TarOf(files);
    if (below(10) == 0) tar.resize(below(tar.size()));
    WriteAll(path, tar);
    const Finding finding = VerifyExport(path, Pinned()).finding;
    ASSERT_TRUE(finding.io.ok()) << finding.io;
    ASSERT_NE(finding.failure, Failure::kNone) << "round " << round;
    ASSERT_FALSE(finding.message.empty());
  }
}

// No false alarm, whatever the size, the hand-overs, the range, the form and the threads.
TEST(FlipTest, GoodExportsAreAccepted) {
  std::mt19937_64 random(Seed());
  const TempFolder folder;
  const uint64_t wanted = FromEnvironment("LETHE_GOOD_EXPORTS", 40);
  const auto below = [&random](uint64_t n) { return random() % n; };
  uint64_t accepted = 0;
  for (uint64_t round = 0; round < wanted; ++round) {
    // Most are small; some cross a tile, few two.
    const uint64_t size = 1 + (round % 100 == 99  ? below(600)
                               : round % 20 == 19 ? below(270)
                                                  : below(24));
    std::set<uint64_t> handovers;
    for (uint64_t i = below(4); i > 0; --i) handovers.insert(below(size));
    SampleLog log(size, handovers);
    ExportRange range;
    ExportExpectations expected = Pinned(1 + static_cast<int>(below(4)));
    if (below(3) == 0) {
      range.first = below(size);
      range.last = range.first + below(size - range.first);
      expected.first = range.first;
      expected.last = range.last;
      // The keys that were in force for the range and the checkpoint must be known.
      for (const Signer& signer : log.signers()) {
        expected.keys.push_back(signer.verification_key());
      }
    }
    const MemorySink sink = log.Export(range);
    const std::string path = folder / absl::StrCat("export", round);
    if (below(2) == 0) {
      std::string tar;
      for (const std::string& name : sink.order())
        tar += TarOf(TarEntry{name, sink.files().at(name)});
      WriteAll(path, tar + testing::TarEnd());
    } else {
      testing::WriteFolder(path, sink.files());
    }
    const ExportResult result = VerifyExport(path, expected);
    ASSERT_TRUE(result.ok()) << "size " << size << ", " << handovers.size() << " hand-overs, range "
                             << range.first << ": " << Name(result.finding.failure) << " "
                             << result.finding.file << " " << result.finding.message
                             << result.finding.io;
    ++accepted;
    std::filesystem::remove_all(path);
  }
  std::printf("accepted=%lu of=%lu\n", accepted, wanted);
}

}  // namespace
}  // namespace lethe::audit
