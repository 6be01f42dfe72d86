// What the tests of store/vault/ share.
#ifndef LETHE_TESTS_STORE_VAULT_VAULT_TESTING_H_
#define LETHE_TESTS_STORE_VAULT_VAULT_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "store/vault/key_store.h"
#include "store/vault/kms.h"
#include "store/vault/secret_bytes.h"
#include "tests/store/store_testing.h"

namespace lethe::store {

SecretBytes SecretOf(absl::string_view bytes);
std::string BytesOf(const SecretBytes& secret);
std::string FromHex(absl::string_view hex);

// The standard output of a shell command; fails the test when the command fails.
std::string RunCommand(const std::string& command);

// Bodies of the slots, read by the sqlite3 program from a file that nothing has open: index 0 is
// slot 1.
std::vector<std::string> BodiesOf(const std::string& path);

// How often `needle` stands in the files of these names, by std::string::find. A file that is not
// there holds nothing.
size_t CountIn(const std::vector<std::string>& paths, const std::string& needle);

// Something sealed under the data key of a slot, which tells the key from every other; empty, and
// the test fails, when there is no key.
std::string SealMark(KeyStore& store, uint64_t slot);
bool OpensMark(KeyStore& store, uint64_t slot, const std::string& mark);

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_VAULT_VAULT_TESTING_H_
