// The fixture of the tamper tests: a good export, and what must happen to bad ones.
#ifndef LETHE_TESTS_AUDIT_TAMPER_TESTING_H_
#define LETHE_TESTS_AUDIT_TAMPER_TESTING_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/verify_export.h"
#include "gtest/gtest.h"
#include "tests/audit/forge.h"

namespace lethe::audit::testing {

inline constexpr const char* kParts[] = {".envelope.json", ".tlog-proof", ".sigstore.json"};

class TamperTest : public ::testing::Test {
 protected:
  static ExportExpectations Pinned(const std::vector<VerificationKey>& keys = {
                                       VectorSigner().verification_key()}) {
    ExportExpectations expected;
    expected.keys = keys;
    expected.threads = 2;
    return expected;
  }

  ExportResult VerifyFolder(const Files& files, const ExportExpectations& expected) {
    const std::string path = folder_ / absl::StrCat("export", ++count_);
    WriteFolder(path, files);
    ExportResult result = VerifyExport(path, expected);
    std::filesystem::remove_all(path);
    return result;
  }
  ExportResult VerifyTar(const std::string& tar, const ExportExpectations& expected = Pinned()) {
    const std::string path = folder_ / "export.tar";
    WriteAll(path, tar);
    return VerifyExport(path, expected);
  }

  // Refused as a folder and as a .tar, for the same reason at the same place.
  void Refused(const Files& files,
               Failure failure,
               const std::string& file = "",
               const ExportExpectations& expected = Pinned()) {
    const ExportResult folder = VerifyFolder(files, expected);
    EXPECT_TRUE(folder.finding.io.ok()) << folder.finding.io;
    EXPECT_EQ(Name(folder.finding.failure), Name(failure)) << folder.finding.message;
    EXPECT_FALSE(folder.finding.message.empty());
    if (!file.empty()) {
      EXPECT_EQ(folder.finding.file, file);
    }
    const ExportResult tar = VerifyTar(TarOf(files), expected);
    EXPECT_EQ(Name(tar.finding.failure), Name(folder.finding.failure)) << tar.finding.message;
    EXPECT_EQ(tar.finding.file, folder.finding.file);
    EXPECT_EQ(tar.finding.message, folder.finding.message);
    EXPECT_EQ(tar.finding.sequence, folder.finding.sequence);
  }
  void Accepted(const Files& files, const ExportExpectations& expected = Pinned()) {
    const ExportResult folder = VerifyFolder(files, expected);
    EXPECT_TRUE(folder.ok()) << Name(folder.finding.failure) << " " << folder.finding.message
                             << folder.finding.file << folder.finding.io;
    const ExportResult tar = VerifyTar(TarOf(files), expected);
    EXPECT_TRUE(tar.ok()) << Name(tar.finding.failure) << " " << tar.finding.message;
  }

  static void RemoveCertificate(Files& files, uint64_t sequence) {
    for (const char* part : kParts) ASSERT_EQ(files.erase(CertificateFile(sequence, part)), 1u);
  }
  static void RemoveTiles(Files& files) {
    std::erase_if(files, [](const auto& file) { return file.first.rfind("tile/", 0) == 0; });
  }
  static void CopyCertificate(const Files& from, uint64_t source, Files& to, uint64_t target) {
    for (const char* part : kParts) {
      to[CertificateFile(target, part)] = from.at(CertificateFile(source, part));
    }
  }

  const TempFolder folder_;
  int count_ = 0;
  SampleLog log_{7};
  const Files good_ = Forge(log_, log_.signers().back());
};

}  // namespace lethe::audit::testing

#endif  // LETHE_TESTS_AUDIT_TAMPER_TESTING_H_
