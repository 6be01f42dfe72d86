// Every way we know to cheat with the files of an export, and the reason it must be refused with.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/dsse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/tamper_testing.h"

namespace lethe::audit {
namespace {

using testing::CertificateFile;
using testing::Files;
using testing::Forge;
using testing::kOrigin;
using testing::kParts;
using testing::SampleLog;
using testing::TamperTest;
using testing::TarEnd;
using testing::TarEntries;
using testing::TarEntry;
using testing::TarOf;
using testing::WriteAll;
using testing::WriteFolder;

TEST_F(TamperTest, WhatTheForgeMakesOfAGoodLogIsTheExport) {
  Accepted(good_);
  const Files written = log_.Export().files();
  EXPECT_EQ(written.size(), good_.size());
  for (const auto& [name, bytes] : good_) {
    ASSERT_EQ(written.count(name), 1u) << name;
    EXPECT_EQ(written.at(name), bytes) << name;
  }
  // Across tiles, and across a thousand.
  SampleLog large(1030, {3, 300});
  Accepted(Forge(large, large.signers().back()));
}

TEST_F(TamperTest, MissingCertificates) {
  Files files = good_;
  RemoveCertificate(files, 0);
  Refused(files, Failure::kMissingHead);
  RemoveCertificate(files, 1);
  Refused(files, Failure::kMissingHead);
  // Without tiles it looks like an export of a range, which must be asked for.
  RemoveTiles(files);
  Refused(files, Failure::kMissingHead);

  files = good_;
  RemoveCertificate(files, 6);
  Refused(files, Failure::kTruncated);
  RemoveTiles(files);
  Refused(files, Failure::kTruncated);

  files = good_;
  RemoveCertificate(files, 3);
  Refused(files, Failure::kSequenceGap, CertificateFile(3, ".envelope.json"));

  files = good_;
  for (uint64_t i = 0; i < 7; ++i) RemoveCertificate(files, i);
  Refused(files, Failure::kMissingHead);
}

TEST_F(TamperTest, MissingFiles) {
  for (const auto& [name, bytes] : good_) {
    SCOPED_TRACE(name);
    Files files = good_;
    files.erase(name);
    // Of two missing in a row the tile is told first, whatever it holds.
    Refused(files, Failure::kMissingFile, name);
  }
  Refused({}, Failure::kMissingFile, "checkpoint");
}

TEST_F(TamperTest, UnexpectedFiles) {
  for (const char* name :
       {"README", "checkpoint.old", "tile/0/001.p/1", "tile/0/000", "tile/0/000.p/6",
        "tile/1/000.p/1", "tile/entries/000", "tile/0/0", "certificates/000/7.envelope.json",
        "certificates/000/000006.envelope.json.bak", "certificates/000/-00001.envelope.json",
        "certificates/001/000006.envelope.json", "certificates/README", "summary.csv~",
        "tile/README", ".checkpoint"}) {
    SCOPED_TRACE(name);
    Files files = good_;
    files[name] = std::string(1, 'x');
    Refused(files, Failure::kUnexpectedFile, name);
  }
  // A folder that should not be is told itself, in an archive the file in it.
  for (const char* name : {"tile/8/000", "tile/x/000", "certificates/000/x/000001.envelope.json",
                           "certificates/0/000007.envelope.json", "more/checkpoint"}) {
    SCOPED_TRACE(name);
    Files files = good_;
    files[name] = std::string(1, 'x');
    const Finding folder = VerifyFolder(files, Pinned()).finding;
    EXPECT_EQ(folder.failure, Failure::kUnexpectedFile);
    EXPECT_THAT(name, ::testing::StartsWith(folder.file + "/"));
    const Finding tar = VerifyTar(TarOf(files)).finding;
    EXPECT_EQ(tar.failure, Failure::kUnexpectedFile);
    EXPECT_EQ(tar.file, name);
  }
  Files files = good_;
  CopyCertificate(good_, 6, files, 7);
  Refused(files, Failure::kUnexpectedTail, CertificateFile(7, ".envelope.json"));
}

TEST_F(TamperTest, RepeatedRelinkedAndSwappedCertificates) {
  // [A,B,C,C]: C once more at the end, instead of the last one.
  Files files = good_;
  CopyCertificate(good_, 5, files, 6);
  Refused(files, Failure::kLeafMismatch);
  // The owner of the key can have it in a tree as well.
  SampleLog repeated(4);
  repeated.AppendRaw(repeated.certificates()[3]);
  repeated.SignAgain();
  Refused(Forge(repeated, repeated.signers()[0]), Failure::kSequenceMismatch,
          CertificateFile(4, ".envelope.json"));
  // A middle that was taken out, all numbers moved up.
  SampleLog moved(0);
  for (const size_t i : std::vector<size_t>{0, 1, 3, 4}) moved.AppendRaw(log_.certificates()[i]);
  moved.SignAgain();
  Refused(Forge(moved, moved.signers()[0]), Failure::kSequenceMismatch,
          CertificateFile(2, ".envelope.json"));
  // Relinked: signed with another predecessor.
  SampleLog relinked(3);
  CertificateBody body = testing::MixedBody(3);
  body.origin = kOrigin;
  body.sequence = 3;
  body.previous_leaf_hash = relinked.certificates()[1].leaf_hash;
  relinked.AppendRaw(BuildCertificate(body, relinked.signers()[0]).value());
  relinked.SignAgain();
  Refused(Forge(relinked, relinked.signers()[0]), Failure::kPreviousLeafMismatch,
          CertificateFile(3, ".envelope.json"));
  // Swapped bodies: the envelopes only, and everything of them.
  files = good_;
  std::swap(files[CertificateFile(1, ".envelope.json")],
            files[CertificateFile(4, ".envelope.json")]);
  Refused(files, Failure::kLeafMismatch);
  files = good_;
  CopyCertificate(good_, 1, files, 4);
  CopyCertificate(good_, 4, files, 1);
  Refused(files, Failure::kLeafMismatch);
  // In a range there are no entries to compare with.
  RemoveTiles(files);
  ExportExpectations range = Pinned();
  range.first = 0;
  Refused(files, Failure::kSequenceMismatch, CertificateFile(1, ".envelope.json"), range);
}

TEST_F(TamperTest, ProofsOfSomethingElse) {
  Files files = good_;
  std::swap(files[CertificateFile(1, ".tlog-proof")], files[CertificateFile(2, ".tlog-proof")]);
  Refused(files, Failure::kProofMismatch, CertificateFile(1, ".tlog-proof"));
  files = good_;
  std::swap(files[CertificateFile(1, ".sigstore.json")],
            files[CertificateFile(2, ".sigstore.json")]);
  Refused(files, Failure::kBundleMismatch, CertificateFile(1, ".sigstore.json"));

  const std::string name = CertificateFile(2, ".tlog-proof");
  const std::string proof = good_.at(name);
  const size_t hashes = proof.find('\n', proof.find("index")) + 1;
  const std::string first_hash = proof.substr(hashes, 45);
  for (const auto& [changed, failure] : std::vector<std::pair<std::string, Failure>>{
           {absl::StrReplaceAll(proof, {{"index 2\n", "index 3\n"}}), Failure::kProofMismatch},
           {absl::StrReplaceAll(proof, {{"index 2\n", "index 02\n"}}), Failure::kMalformedProof},
           {proof.substr(0, hashes) + proof.substr(hashes + 45), Failure::kProofMismatch},
           {proof.substr(0, hashes) + first_hash + proof.substr(hashes), Failure::kProofMismatch},
           {proof.substr(0, hashes), Failure::kMalformedProof},
           {"", Failure::kMalformedProof},
           {proof + "\n", Failure::kProofMismatch}}) {
    files = good_;
    files[name] = changed;
    Refused(files, failure, name);
  }
  // A proof without a signed checkpoint is nothing, and one of an earlier size is another one.
  files = good_;
  files[name] =
      absl::StrCat("c2sp.org/tlog-proof@v1\nindex 2\n\n", log_.CheckpointAt(3, log_.signers()[0]));
  Refused(files, Failure::kProofMismatch, name);
  files[name] = absl::StrCat("c2sp.org/tlog-proof@v1\nindex 2\n", first_hash, "\n");
  const ExportResult unsigned_proof = VerifyFolder(files, Pinned());
  EXPECT_THAT(unsigned_proof.finding.failure,
              ::testing::AnyOf(Failure::kMalformedProof, Failure::kProofMismatch));
}

TEST_F(TamperTest, TilesAndEntriesOfSomethingElse) {
  SampleLog log(258);
  const Files good = Forge(log, log.signers()[0]);
  for (const char* name : {"tile/0/000", "tile/0/001.p/2", "tile/1/000.p/1"}) {
    for (const std::string& bytes :
         {good.at(name) + std::string(32, 'x'), good.at(name).substr(32)}) {
      Files files = good;
      files[name] = bytes;
      const ExportResult result = VerifyTar(TarOf(files));
      EXPECT_EQ(result.finding.failure, Failure::kTileMismatch);
      EXPECT_EQ(result.finding.file, name);
    }
  }
  for (const std::string& bytes : {std::string(), good_.at("tile/0/000.p/7") + std::string(32, 'x'),
                                   std::string(1000000, 'x'), std::string(7 * 32, '\0')}) {
    Files files = good_;
    files["tile/0/000.p/7"] = bytes;
    Refused(files, Failure::kTileMismatch, "tile/0/000.p/7");
  }
  const char* entries = "tile/entries/000.p/7";
  const std::string bytes = good_.at(entries);
  for (const std::string& changed :
       {std::string(), bytes.substr(1), bytes.substr(0, bytes.size() - 1),
        bytes + std::string(2, '\0'), bytes + bytes}) {
    Files files = good_;
    files[entries] = changed;
    Refused(files, Failure::kTileMismatch, entries);
  }
  Files files = good_;
  const std::string& leaf = log_.certificates()[0].leaf;
  files[entries] = absl::StrCat(bytes.substr(0, 2), std::string(leaf.size(), ' '),
                                bytes.substr(2 + leaf.size()));
  Refused(files, Failure::kMalformedLeaf, entries);
}

TEST_F(TamperTest, TextThatIsNotWhatItSeems) {
  // Signed by the owner: lone surrogates as bytes and as escapes, and text that is not canonical.
  const std::string statement = SerializeStatement(log_.certificates()[0].body).value();
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"Backups", "\xed\xa0\x80"},
           {"Backups", "\\ud800"},
           {"Backups", "\\ud800\\udc00"},
           {"Backups", "\xff"},
           {"Backups", "\\u0042ackups"},
           {"\"sequence\":0", "\"sequence\":0.0"},
           {"\"sequence\":0", "\"sequence\":0,\"sequence\":0"}}) {
    const std::string text = absl::StrReplaceAll(statement, {{from, to}});
    ASSERT_NE(text, statement);
    SignedCertificate bad = log_.certificates()[0];
    const Envelope envelope = SignEnvelope(kInTotoPayloadType, text, log_.signers()[0]).value();
    bad.envelope = SerializeEnvelope(envelope).value();
    bad.leaf = LeafBytes(text, envelope.signature, log_.signers()[0].verification_key());
    bad.leaf_hash = LeafHash(bad.leaf);
    SampleLog log(0);
    log.AppendRaw(bad);
    log.SignAgain();
    Refused(Forge(log, log.signers()[0]), Failure::kNonCanonicalPayload,
            CertificateFile(0, ".envelope.json"));
  }
  for (const char* bad : {"\xed\xa0\x80", "\\ud800", " ", "\t"}) {
    Files files = good_;
    std::string& bundle = files[CertificateFile(0, ".sigstore.json")];
    bundle.insert(bundle.find("\"mediaType\":\"") + 13, bad);
    Refused(files, Failure::kMalformedBundle, CertificateFile(0, ".sigstore.json"));
  }
}

TEST_F(TamperTest, SummariesAndReport) {
  for (const auto& [name, failure] : {std::make_pair("summary.csv", Failure::kSummaryMismatch),
                                      std::make_pair("summary.jsonl", Failure::kSummaryMismatch),
                                      std::make_pair("report.html", Failure::kReportMismatch)}) {
    const std::string& bytes = good_.at(name);
    const size_t middle = bytes.find('\n', bytes.size() / 2);
    for (const std::string& changed :
         {std::string(), bytes + "\n", bytes + " ", bytes.substr(0, bytes.size() - 1),
          bytes.substr(0, middle) + bytes.substr(middle + 1), bytes + bytes}) {
      Files files = good_;
      files[name] = changed;
      Refused(files, failure, name);
    }
  }
}

TEST_F(TamperTest, AReportOfAnotherVersionCanBeLeftAlone) {
  Files files = good_;
  files["report.html"] += "<!-- of another version -->";
  Refused(files, Failure::kReportMismatch, "report.html");
  ExportExpectations expected = Pinned();
  expected.skip_report = true;
  Accepted(files, expected);
  files.erase("report.html");
  Refused(files, Failure::kMissingFile, "report.html", expected);
}

TEST_F(TamperTest, Archives) {
  const std::string good = TarOf(good_);
  ASSERT_TRUE(VerifyTar(good).ok());
  const auto malformed = [&](const std::string& tar) {
    const ExportResult result = VerifyTar(tar);
    EXPECT_EQ(Name(result.finding.failure), Name(Failure::kMalformedArchive))
        << result.finding.message;
  };
  const std::string body = good.substr(0, good.size() - 1024);
  malformed("");
  malformed(good.substr(0, good.size() - 1));
  malformed(good.substr(0, good.size() - 512));
  malformed(good + std::string(512, '\0'));
  malformed(good + "x");
  malformed(body);
  malformed(good.substr(0, 700));
  malformed(good.substr(512));
  malformed(TarOf(TarEntry{"checkpoint", good_.at("checkpoint")}) + good);
  for (const TarEntry& entry : std::vector<TarEntry>{{"README", "", '2', "/etc/passwd"},
                                                     {"tile/0/001", "", '2', "000"},
                                                     {"tile/0/001", "", '1', "tile/0/000"},
                                                     {"tile", "", '5', ""},
                                                     {"certificates/", "", '5', ""},
                                                     {"device", "", '3', ""},
                                                     {"fifo", "", '6', ""},
                                                     {"PaxHeader", "20 path=checkpoint\n", 'x', ""},
                                                     {"././@LongLink", "checkpoint", 'L', ""},
                                                     {"../checkpoint", "x", '0', ""},
                                                     {"/checkpoint", "x", '0', ""},
                                                     {"tile/../checkpoint", "x", '0', ""},
                                                     {"./checkpoint", "x", '0', ""},
                                                     {"tile//0/000", "x", '0', ""},
                                                     {"checkpoint/", "x", '0', ""},
                                                     {"check point", "x", '0', ""},
                                                     {std::string(100, 'a'), "x", '0', ""},
                                                     {"keys.txt", good_.at("keys.txt"), '\0', ""},
                                                     {"keys.txt", good_.at("keys.txt"), '7', ""},
                                                     {"", "x", '0', ""}}) {
    SCOPED_TRACE(entry.name);
    malformed(body + TarOf(entry) + TarEnd());
    malformed(TarOf(entry) + good);
  }
  // Certificates twice, and out of order.
  std::vector<TarEntry> entries = TarEntries(good_);
  const auto at = [&](const std::string& name) {
    return static_cast<size_t>(std::find_if(entries.begin(), entries.end(),
                                            [&](const auto& entry) { return entry.name == name; }) -
                               entries.begin());
  };
  const auto join = [&] {
    std::string tar;
    for (const TarEntry& entry : entries) tar += TarOf(entry);
    return tar + TarEnd();
  };
  std::swap(entries[at(CertificateFile(2, ".tlog-proof"))],
            entries[at(CertificateFile(2, ".sigstore.json"))]);
  EXPECT_EQ(VerifyTar(join()).finding.failure, Failure::kMissingFile);
  entries = TarEntries(good_);
  entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(at(CertificateFile(3, kParts[0]))),
                 entries[at(CertificateFile(2, kParts[2]))]);
  malformed(join());
  // Bytes in the padding of a file.
  const size_t end_of_first = 512 + good_.at("checkpoint").size();
  ASSERT_NE(end_of_first % 512, 0u);
  std::string padded = good;
  padded[end_of_first] = 'x';
  malformed(padded);
}

// What is judged must be what the names say, also when nothing else notices.
TEST_F(TamperTest, NothingStandsBetweenTheFilesOfACertificate) {
  ExportExpectations expected = Pinned();
  expected.skip_report = true;
  for (size_t part = 1; part < 3; ++part) {
    // report.html, with the right proof or bundle in it, stands where the garbage should.
    std::string tar;
    for (const TarEntry& entry : TarEntries(good_)) {
      if (entry.name == "report.html") continue;
      if (entry.name == CertificateFile(2, kParts[part])) {
        tar += TarOf(TarEntry{"report.html", entry.bytes});
        tar += TarOf(TarEntry{entry.name, "garbage"});
      } else {
        tar += TarOf(entry);
      }
    }
    const ExportResult result = VerifyTar(tar + TarEnd(), expected);
    EXPECT_EQ(Name(result.finding.failure), Name(Failure::kMissingFile)) << result.finding.message;
    EXPECT_EQ(result.finding.file, CertificateFile(2, kParts[part]));
  }
}

TEST_F(TamperTest, FilesThatAreTooLong) {
  const std::pair<const char*, Failure> parts[] = {{".envelope.json", Failure::kMalformedEnvelope},
                                                   {".tlog-proof", Failure::kMalformedProof},
                                                   {".sigstore.json", Failure::kMalformedBundle}};
  for (const uint64_t sequence : {uint64_t{0}, uint64_t{1}, uint64_t{6}}) {
    for (const auto& [part, failure] : parts) {
      Files files = good_;
      files[CertificateFile(sequence, part)] = std::string(size_t{3} << 20, 'x');
      Refused(files, failure, CertificateFile(sequence, part));
    }
  }
}

// Batches that end before their tile does; the smallest is of one certificate.
TEST_F(TamperTest, LongCertificatesAreJudgedInParts) {
  SampleLog log(40, {7, 30});
  Files files = Forge(log, log.signers().back());
  ExportExpectations expected = Pinned();
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{60000}}) {
    expected.batch_bytes = bytes;
    for (expected.threads = 1; expected.threads <= 4; ++expected.threads) Accepted(files, expected);
  }
  // One leaf in the place of another: seen wherever a batch ends.
  Files swapped = files;
  std::swap(swapped[CertificateFile(33, ".envelope.json")],
            swapped[CertificateFile(34, ".envelope.json")]);
  EXPECT_FALSE(VerifyFolder(swapped, expected).ok());
  // Each of them too long to be read with the others, and wrong: the first one is told.
  for (uint64_t i = 3; i < 40; ++i) {
    files[CertificateFile(i, ".sigstore.json")] = std::string(size_t{2} << 20, ' ');
  }
  Refused(files, Failure::kMalformedBundle, CertificateFile(3, ".sigstore.json"));
}

TEST_F(TamperTest, NamesOfTilesAreBounded) {
  for (const char* name :
       {"tile/0/000.p/0", "tile/0/000.p/01", "tile/0/000.p/256", "tile/0/000.p/123456789012345678",
        "tile/0/x000/x000/x000/x000/x000/x000/x000/000"}) {
    Files files = good_;
    files[name] = std::string(1, 'x');
    Refused(files, Failure::kUnexpectedFile, name);
  }
  Files files = good_;
  for (int i = 0; i < 2000; ++i) {
    files[absl::StrFormat("tile/%d/%03d", 1 + i / 1000, i % 1000)] = std::string(1, 'x');
  }
  const ExportResult folder = VerifyFolder(files, Pinned());
  EXPECT_THAT(folder.finding.message, ::testing::HasSubstr("more files than"));
  EXPECT_THAT(VerifyTar(TarOf(files)).finding.message, ::testing::HasSubstr("more files than"));
}

TEST_F(TamperTest, FoldersWithTricks) {
  const std::string path = folder_ / "tricks";
  const auto verdict = [&](const std::function<void()>& change) {
    std::filesystem::remove_all(path);
    WriteFolder(path, good_);
    change();
    return VerifyExport(path, Pinned()).finding;
  };
  WriteAll(folder_ / "outside", good_.at("checkpoint"));
  EXPECT_TRUE(verdict([] {}).ok());
  const auto replace_by_link = [&](const std::string& name, const std::string& target) {
    std::filesystem::remove_all(path + "/" + name);
    std::filesystem::create_symlink(target, path + "/" + name);
  };
  EXPECT_EQ(verdict([&] { replace_by_link("checkpoint", folder_ / "outside"); }).failure,
            Failure::kMalformedArchive);
  WriteFolder(folder_ / "elsewhere", good_);
  EXPECT_EQ(verdict([&] { replace_by_link("tile", folder_ / "elsewhere/tile"); }).failure,
            Failure::kMalformedArchive);
  EXPECT_EQ(verdict([&] { std::filesystem::create_directory(path + "/tile/2"); }).failure,
            Failure::kUnexpectedFile);
  EXPECT_EQ(verdict([&] { std::filesystem::create_directory(path + "/more"); }).failure,
            Failure::kUnexpectedFile);
  EXPECT_EQ(verdict([&] {
              std::filesystem::remove(path + "/keys.txt");
              std::filesystem::create_directory(path + "/keys.txt");
            }).failure,
            Failure::kUnexpectedFile);
  EXPECT_EQ(verdict([&] {
              std::filesystem::remove(path + "/keys.txt");
              ASSERT_EQ(::mkfifo((path + "/keys.txt").c_str(), 0600), 0);
            }).failure,
            Failure::kMalformedArchive);
  // Nothing is said about what cannot be read.
  EXPECT_FALSE(VerifyExport(folder_ / "absent", Pinned()).finding.io.ok());
  EXPECT_FALSE(VerifyExport("/dev/null", Pinned()).finding.io.ok());
}

}  // namespace
}  // namespace lethe::audit
