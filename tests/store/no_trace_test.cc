// What is secret in a token never stands in any file of data or vault, in clear or in a usual
// coding, while the store is open (with its write-ahead logs), after erasures, after the close. The
// scanner must find every needle in a file in clear first.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "store/data_directory.h"
#include "store/tenant_restore.h"
#include "store/token_codec.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

namespace fs = std::filesystem;

struct Needle {
  std::string what;
  std::string bytes;
};

std::string BytesOf(uint64_t bits, size_t size, bool little_endian) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) {
    const size_t shift = 8 * (little_endian ? i : size - 1 - i);
    bytes.push_back(static_cast<char>(static_cast<uint8_t>(bits >> shift)));
  }
  return bytes;
}

void AddText(std::vector<Needle>& needles, const std::string& what, const std::string& text) {
  needles.push_back({what, text});
  needles.push_back({what + " in hex", absl::BytesToHexString(text)});
  needles.push_back({what + " in HEX", absl::AsciiStrToUpper(absl::BytesToHexString(text))});
  for (size_t offset = 0; offset < 3; ++offset) {
    // The part of the base64 text that does not depend on the neighbours.
    const std::string code = absl::Base64Escape(std::string(offset, 'x') + text);
    const size_t first = offset == 0 ? 0 : 4;
    const size_t whole = (offset + text.size()) / 3 * 4;
    needles.push_back(
        {absl::StrCat(what, " in base64 at ", offset), code.substr(first, whole - first)});
  }
}

void AddDouble(std::vector<Needle>& needles, const std::string& what, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  for (bool little_endian : {true, false}) {
    const std::string bytes = BytesOf(bits, 8, little_endian);
    needles.push_back({what, bytes});
    needles.push_back({what + " in hex", absl::BytesToHexString(bytes)});
  }
}

std::vector<std::string> Scan(const std::string& root, const std::vector<Needle>& needles) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const std::string bytes = ReadFile(entry.path().string());
    for (const Needle& needle : needles) {
      if (bytes.find(needle.bytes) != std::string::npos) {
        found.push_back(absl::StrCat(needle.what, " in ", entry.path().string()));
      }
    }
  }
  return found;
}

TEST(NoTrace, OfTokensInAnyFile) {
  std::random_device entropy;
  const uint64_t seed = (uint64_t{entropy()} << 32) | entropy();
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  TempFolder folder;
  auto data = DataDirectory::Open(folder.path() + "/data", folder.path() + "/vault");
  ASSERT_OK(data);
  SqliteTenantOptions options;
  options.vault = (*data)->vault_path();
  ASSERT_OK((*data)->CreateTenant("acme", [&](const std::string& dir) {
    return CreateTenantStore(dir, TestTenant(), options).status();
  }));
  auto opened = OpenTenantStore((*data)->tenant_path("acme"), options);
  ASSERT_OK(opened);
  std::unique_ptr<TenantStore> store = std::move(*opened);
  ASSERT_OK(store->StartLog(TestStart()));
  const MemoryRecord memory = TestMemory(1);
  ASSERT_OK(store->CreateMemory(memory));

  std::vector<Needle> needles;
  std::vector<TokenRow> rows;
  const auto canary = [&](const char* what) {
    return absl::StrCat(what, "-", absl::Hex(random(), absl::kZeroPad16));
  };
  const auto number = [&] {
    // Random in every bit of the mantissa, of no special size.
    return std::ldexp(static_cast<double>(random() | 1), -static_cast<int>(random() % 80));
  };
  for (uint64_t handle = 1; handle <= 12; ++handle) {
    TokenRow row = TestRow(handle, canary("id"), handle % 3 == 0 ? "" : canary("subject"));
    row.payload = canary("payload");
    AddText(needles, "payload", row.payload);
    // Rows of all sizes: within a page, and with overflow pages.
    if (handle % 4 == 0) row.payload += std::string(random() % 20'000, 'p');
    row.labels = canary("labels");
    row.key = {number(), number()};
    row.value = {number()};
    AddText(needles, "id", row.id);
    if (!row.subject.empty()) AddText(needles, "subject", row.subject);
    AddText(needles, "labels", row.labels);
    for (double value : row.key) AddDouble(needles, "key", value);
    AddDouble(needles, "value", row.value[0]);
    for (uint8_t& byte : row.salt) byte = static_cast<uint8_t>(random());
    needles.push_back(
        {"salt", std::string(reinterpret_cast<const char*>(row.salt.data()), row.salt.size())});
    rows.push_back(row);
  }

  // The control: the scanner finds each of them when it is there.
  {
    const std::string clear = (*data)->tenant_path("acme") + "/clear";
    std::string bytes;
    for (const Needle& needle : needles) absl::StrAppend(&bytes, needle.bytes, "\n");
    WriteFile(clear, bytes);
    EXPECT_EQ(Scan(folder.path(), needles).size(), needles.size());
    // And in rows as they were before they were sealed.
    bytes.clear();
    for (const TokenRow& row : rows) bytes += EncodeToken(row);
    WriteFile(clear, bytes);
    EXPECT_GE(Scan(folder.path(), needles).size(), rows.size() * 7);
    fs::remove(clear);
  }

  const auto expect_clean = [&](const char* when) {
    for (const std::string& hit : Scan(folder.path(), needles))
      ADD_FAILURE() << when << ": " << hit;
  };
  ASSERT_OK(store->InsertTokens(memory.uid, rows));
  expect_clean("after the insert");
  ASSERT_OK(store->Checkpoint());
  expect_clean("after the checkpoint");
  EXPECT_EQ(LoadAll(*store, memory.uid), rows);
  const std::string copy = (*data)->NewTemporaryPath();
  ASSERT_OK(store->CopyTo(copy));
  expect_clean("with a copy");
  EraseRequest request{memory.uid, {1, 2, 3, 4}, NextCertificate(*store, memory), std::nullopt};
  TokenRow edited = rows[1];
  edited.handle = 20;
  request.replacements = {edited};
  ASSERT_OK(store->EraseTokens(request));
  expect_clean("after the erasure");
  ASSERT_TRUE(FinishErasures(*store));
  expect_clean("after the keys are gone");
  store.reset();
  expect_clean("after the store is closed");
  ASSERT_OK((*data)->ReplaceTenant("acme", [&](const std::string& dir) {
    fs::rename(copy, dir + "/tenant.db");
    return RestoreTenantStore(
               dir, options,
               [](const RestoreReport&, const LogHead& head, std::span<const LogKey>)
                   -> absl::StatusOr<CertificateAppend> { return NextCertificate(head); },
               0)
        .status();
  }));
  expect_clean("after a restore");
  opened = OpenTenantStore((*data)->tenant_path("acme"), options);
  ASSERT_OK(opened);
  store = std::move(*opened);
  ASSERT_OK(CloseWith(*store, NextCertificate(*store->GetLogHead())));
  expect_clean("after the tenant is closed");
  store.reset();
  ASSERT_OK((*data)->CloseTenant("acme", TestTenant().uid));
  expect_clean("at the end");
}

}  // namespace
}  // namespace lethe::store
