// LoadAccess: the access file. docs/access.md describes it.
#include <toml++/toml.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/program/toml_file.h"
#include "server/access/access.h"
#include "server/access/file_policy.h"
#include "server/access/guarded_file.h"

namespace lethe::access {
namespace {

using program::TomlFile;

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxKeyFileBytes = size_t{256} << 10;
constexpr size_t kMaxNameBytes = 100;
constexpr size_t kMaxGrants = 1000;
constexpr absl::Duration kLongestLifetime = absl::Hours(24 * 7);
constexpr absl::Duration kLargestSkew = absl::Minutes(5);

// One table of the file.
class Entry {
 public:
  Entry(const TomlFile& file, const toml::table& table) : file_(file), table_(table) {}

  absl::Status Error(absl::string_view key, absl::string_view what) const {
    const toml::node* node = table_.get(std::string_view(key.data(), key.size()));
    return file_.Error(node != nullptr ? *node : static_cast<const toml::node&>(table_),
                       absl::StrCat(key, ": ", what));
  }
  absl::Status Error(absl::string_view key, const absl::Status& status) const {
    return Error(key, status.message());
  }

  absl::Status OnlyKeys(std::initializer_list<std::string> known) const {
    const std::vector<std::string> keys(known);
    return file_.OnlyKeys(table_, keys);
  }

  bool Has(const char* key) const { return table_.contains(key); }

  // A text of at least one byte.
  absl::StatusOr<std::string> Text(const char* key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return Error(key, "is missing");
    const std::optional<std::string> text = node->value_exact<std::string>();
    if (!text.has_value() || text->empty()) return Error(key, "must be a text, not empty");
    return *text;
  }

  absl::StatusOr<std::vector<std::string>> Texts(const char* key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return Error(key, "is missing");
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty()) return Error(key, "must be a list, not empty");
    std::vector<std::string> texts;
    for (const toml::node& one : *array) {
      const std::optional<std::string> text = one.value_exact<std::string>();
      if (!text.has_value()) return file_.Error(one, absl::StrCat(key, ": must be a text"));
      texts.push_back(*text);
    }
    return texts;
  }

  // Letters, digits and some signs: it goes into log lines.
  absl::StatusOr<std::string> Name() const {
    LETHE_ASSIGN_OR_RETURN(std::string name, Text("name"));
    const bool good = std::all_of(name.begin(), name.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("._/@-", c);
    });
    if (!good || name.size() > kMaxNameBytes) {
      return Error("name", absl::StrCat("must be 1 to ", kMaxNameBytes,
                                        " characters of A-Z, a-z, 0-9, '.', '_', '/', '@', '-'"));
    }
    return name;
  }

  absl::StatusOr<std::vector<Grant>> Grants() const {
    LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> texts, Texts("grants"));
    if (texts.size() > kMaxGrants) {
      return Error("grants", absl::StrCat("more than ", kMaxGrants));
    }
    std::vector<Grant> grants;
    for (size_t i = 0; i < texts.size(); ++i) {
      absl::StatusOr<Grant> grant = ParseGrant(texts[i]);
      if (!grant.ok())
        return Error("grants", absl::StrCat("[", i, "]: ", grant.status().message()));
      if (std::count(grants.begin(), grants.end(), *grant) == 0) {
        grants.push_back(*std::move(grant));
      }
    }
    return grants;
  }

  // When a token ends: a date and time with an offset, or a date, whose first moment in UTC counts.
  absl::StatusOr<absl::Time> Expires() const {
    const toml::node* node = table_.get("expires");
    if (node == nullptr) return absl::InfiniteFuture();
    toml::date date;
    absl::Duration rest;
    if (const auto day = node->value_exact<toml::date>()) {
      date = *day;
    } else if (const auto moment = node->value_exact<toml::date_time>();
               moment.has_value() && moment->offset.has_value()) {
      date = moment->date;
      rest = absl::Hours(moment->time.hour) + absl::Minutes(moment->time.minute) +
             absl::Seconds(moment->time.second) + absl::Nanoseconds(moment->time.nanosecond) -
             absl::Minutes(moment->offset->minutes);
    } else {
      return Error("expires", "must be a date, or a date and time with its offset, without quotes");
    }
    return absl::FromCivil(absl::CivilDay(date.year, date.month, date.day), absl::UTCTimeZone()) +
           rest;
  }

  absl::Status Duration(const char* key,
                        absl::Duration least,
                        absl::Duration most,
                        absl::Duration& duration) const {
    if (!Has(key)) return absl::OkStatus();
    LETHE_ASSIGN_OR_RETURN(const std::string text, Text(key));
    if (!absl::ParseDuration(text, &duration) || duration < least || duration > most) {
      return Error(key, absl::StrCat("must be a time from ", absl::FormatDuration(least), " to ",
                                     absl::FormatDuration(most), ", for example \"1h\""));
    }
    return absl::OkStatus();
  }

 private:
  const TomlFile& file_;
  const toml::table& table_;
};

absl::StatusOr<Identity> ReadIdentity(const Entry& entry) {
  Identity identity;
  LETHE_ASSIGN_OR_RETURN(identity.name, entry.Name());
  LETHE_ASSIGN_OR_RETURN(identity.grants, entry.Grants());
  return identity;
}

absl::Status ReadToken(const Entry& entry, FilePolicy& policy) {
  LETHE_RETURN_IF_ERROR(entry.OnlyKeys({"name", "sha256", "grants", "expires"}));
  LETHE_ASSIGN_OR_RETURN(Identity identity, ReadIdentity(entry));
  LETHE_ASSIGN_OR_RETURN(identity.expires, entry.Expires());
  LETHE_ASSIGN_OR_RETURN(const std::string hex, entry.Text("sha256"));
  const absl::StatusOr<std::string> bytes = audit::DecodeHex(hex);
  audit::Digest digest;
  if (!bytes.ok() || bytes->size() != digest.size()) {
    return entry.Error("sha256",
                       "must be the 64 hex digits that lethe access new-token prints; a token "
                       "itself does not belong here");
  }
  std::copy(bytes->begin(), bytes->end(), digest.begin());
  if (const absl::Status added = policy.AddToken(digest, std::move(identity)); !added.ok()) {
    return entry.Error("sha256", "there is another token with it");
  }
  return absl::OkStatus();
}

absl::Status ReadCertificate(const Entry& entry, FilePolicy& policy) {
  LETHE_RETURN_IF_ERROR(entry.OnlyKeys({"name", "uri", "dns", "grants"}));
  LETHE_ASSIGN_OR_RETURN(Identity identity, ReadIdentity(entry));
  if (entry.Has("uri") == entry.Has("dns")) {
    return entry.Error("uri", "either it or dns must be there");
  }
  const char* key = entry.Has("uri") ? "uri" : "dns";
  LETHE_ASSIGN_OR_RETURN(const std::string name, entry.Text(key));
  const absl::Status added = entry.Has("uri") ? policy.AddUri(name, std::move(identity))
                                              : policy.AddDns(name, std::move(identity));
  return added.ok() ? added : entry.Error(key, "there is another certificate with it");
}

absl::Status ReadKeys(const Entry& entry, const std::string& folder, IssuerKeys& keys) {
  const auto path_of = [&folder](const std::string& path) {
    return path.front() == '/' ? path : absl::StrCat(folder, "/", path);
  };
  if (entry.Has("keys")) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, entry.Texts("keys"));
    for (const std::string& path : paths) {
      const auto bytes = ReadGuardedFile(path_of(path), kMaxKeyFileBytes, Secrecy::kPublic);
      if (!bytes.ok()) return entry.Error("keys", bytes.status());
      if (const absl::Status added = keys.AddPem(*bytes); !added.ok()) {
        return entry.Error("keys", absl::StrCat(path, ": ", added.message()));
      }
    }
  }
  if (entry.Has("jwks")) {
    const absl::StatusOr<std::string> path = entry.Text("jwks");
    if (!path.ok()) return path.status();
    const auto bytes = ReadGuardedFile(path_of(*path), kMaxKeyFileBytes, Secrecy::kPublic);
    if (!bytes.ok()) return entry.Error("jwks", bytes.status());
    if (const absl::Status added = keys.AddJwks(*bytes); !added.ok()) {
      return entry.Error("jwks", absl::StrCat(*path, ": ", added.message()));
    }
  }
  if (keys.size() == 0) return entry.Error("keys", "there is no key, neither here nor in jwks");
  return absl::OkStatus();
}

absl::Status ReadIssuer(const Entry& entry, const std::string& folder, FilePolicy& policy) {
  LETHE_RETURN_IF_ERROR(entry.OnlyKeys({"name", "issuer", "audience", "algorithms", "keys", "jwks",
                                        "claim", "grants", "max-lifetime", "clock-skew"}));
  Issuer issuer;
  LETHE_ASSIGN_OR_RETURN(issuer.name, entry.Name());
  LETHE_ASSIGN_OR_RETURN(issuer.grants, entry.Grants());
  LETHE_ASSIGN_OR_RETURN(issuer.issuer, entry.Text("issuer"));
  LETHE_ASSIGN_OR_RETURN(issuer.audience, entry.Text("audience"));
  LETHE_ASSIGN_OR_RETURN(const std::vector<std::string> algorithms, entry.Texts("algorithms"));
  for (const std::string& name : algorithms) {
    const std::optional<Algorithm> algorithm = ParseAlgorithm(name);
    if (!algorithm.has_value()) {
      return entry.Error("algorithms", "must be of ES256, RS256 and PS256");
    }
    issuer.algorithms.push_back(*algorithm);
  }
  if (entry.Has("claim")) {
    LETHE_ASSIGN_OR_RETURN(issuer.claim, entry.Text("claim"));
  }
  LETHE_RETURN_IF_ERROR(
      entry.Duration("max-lifetime", absl::Seconds(1), kLongestLifetime, issuer.max_lifetime));
  LETHE_RETURN_IF_ERROR(
      entry.Duration("clock-skew", absl::ZeroDuration(), kLargestSkew, issuer.clock_skew));
  LETHE_RETURN_IF_ERROR(ReadKeys(entry, folder, issuer.keys));
  const absl::Status added = policy.AddIssuer(std::move(issuer));
  return added.ok() ? added : entry.Error("issuer", "there is another with it");
}

// Calls `read` for each table of a list like [[token]].
absl::Status ForEach(const TomlFile& file,
                     const char* key,
                     const std::function<absl::Status(const Entry&)>& read) {
  const toml::node* node = file.root().get(key);
  if (node == nullptr) return absl::OkStatus();
  const toml::array* array = node->as_array();
  if (array == nullptr) return file.Error(*node, absl::StrCat(key, ": write it as [[", key, "]]"));
  for (const toml::node& one : *array) {
    const toml::table* table = one.as_table();
    if (table == nullptr) return file.Error(one, absl::StrCat(key, ": write it as [[", key, "]]"));
    LETHE_RETURN_IF_ERROR(read(Entry(file, *table)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Policy>> LoadAccess(const std::string& path) {
  LETHE_ASSIGN_OR_RETURN(const std::string text,
                         ReadGuardedFile(path, kMaxFileBytes, Secrecy::kPrivate));
  LETHE_ASSIGN_OR_RETURN(const TomlFile file, TomlFile::Parse(path, text));
  const std::vector<std::string> known = {"token", "certificate", "issuer"};
  LETHE_RETURN_IF_ERROR(file.OnlyKeys(file.root(), known));
  const std::string folder = FolderOf(path);
  auto policy = std::make_shared<FilePolicy>();
  LETHE_RETURN_IF_ERROR(
      ForEach(file, "token", [&](const Entry& entry) { return ReadToken(entry, *policy); }));
  LETHE_RETURN_IF_ERROR(ForEach(
      file, "certificate", [&](const Entry& entry) { return ReadCertificate(entry, *policy); }));
  LETHE_RETURN_IF_ERROR(ForEach(
      file, "issuer", [&](const Entry& entry) { return ReadIssuer(entry, folder, *policy); }));
  return policy;
}

}  // namespace lethe::access
