#include "tests/store/vault/vault_testing.h"

#include <stdio.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace lethe::store {

SecretBytes SecretOf(absl::string_view bytes) {
  SecretBytes secret(bytes.size());
  std::copy(bytes.begin(), bytes.end(), secret.data());
  return secret;
}

std::string BytesOf(const SecretBytes& secret) {
  return std::string(reinterpret_cast<const char*>(secret.data()), secret.size());
}

std::string FromHex(absl::string_view hex) { return absl::HexStringToBytes(hex); }

std::string RunCommand(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string output;
  char block[4096];
  size_t count = 0;
  while ((count = ::fread(block, 1, sizeof block, pipe)) > 0) output.append(block, count);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return output;
}

std::vector<std::string> BodiesOf(const std::string& path) {
  std::istringstream lines(
      RunCommand(absl::StrCat("sqlite3 '", path, "' 'SELECT hex(body) FROM slots ORDER BY slot'")));
  std::vector<std::string> bodies;
  for (std::string line; std::getline(lines, line);) bodies.push_back(FromHex(line));
  return bodies;
}

size_t CountIn(const std::vector<std::string>& paths, const std::string& needle) {
  size_t count = 0;
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path)) continue;
    const std::string bytes = ReadFile(path);
    for (size_t at = bytes.find(needle); at != std::string::npos; at = bytes.find(needle, at + 1)) {
      ++count;
    }
  }
  return count;
}

std::string SealMark(KeyStore& store, uint64_t slot) {
  std::string mark;
  EXPECT_OK(store.WithKey(slot, 0, [&](SealingKey& key) -> absl::Status {
    absl::StatusOr<std::string> sealed = key.Seal("", "mark");
    if (sealed.ok()) mark = *sealed;
    return sealed.status();
  }));
  return mark;
}

bool OpensMark(KeyStore& store, uint64_t slot, const std::string& mark) {
  return store
      .WithKey(slot, 0,
               [&](SealingKey& key) -> absl::Status { return key.Open("", mark).status(); })
      .ok();
}

}  // namespace lethe::store
