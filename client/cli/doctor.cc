#include "client/cli/doctor.h"

#include <fcntl.h>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/backup_folder.h"
#include "client/cli/small_file.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/program/toml_file.h"

namespace lethe::cli {
namespace {

namespace fs = std::filesystem;

// A certificate is renewed weeks before its end; who reads this may be away.
constexpr absl::Duration kCertificateWarning = absl::Hours(21 * 24);
constexpr absl::Duration kCertificateFailure = absl::Hours(3 * 24);
// Of a disk: below this share people look; below the second, or twice the ballast, inserts are
// refused soon, if not already.
constexpr double kFreeWarning = 0.1;
constexpr double kFreeFailure = 256.0 * (1 << 20);
// Of tenant.db (store/schema.h).
constexpr uint32_t kTenantFile = 0x4c745431;
constexpr uint32_t kOldestFormat = 4;
constexpr uint32_t kNewestFormat = 5;
// What clocks that are kept by NTP may differ by, generously.
constexpr absl::Duration kFuture = absl::Seconds(10);

Finding Ok(absl::string_view check, std::string found) {
  return {.verdict = Verdict::kOk, .check = std::string(check), .found = std::move(found)};
}
Finding Warn(absl::string_view check, std::string found, std::string advice) {
  return {Verdict::kWarn, std::string(check), std::move(found), std::move(advice)};
}
Finding Fail(absl::string_view check, std::string found, std::string advice) {
  return {Verdict::kFail, std::string(check), std::move(found), std::move(advice)};
}

std::string Reason(int error) { return std::strerror(error); }
std::string Mode(const struct stat& info) { return absl::StrFormat("%04o", info.st_mode & 07777); }
std::string Gib(double bytes) { return absl::StrFormat("%.1f GiB", bytes / (1 << 30)); }

// The folders in one, in the order of names; nothing where it cannot be read.
std::vector<std::string> Folders(const std::string& path, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator next(path, error), end; !error && next != end;
       next.increment(error)) {
    std::error_code ignored;
    const std::string name = next->path().filename().string();
    if (next->is_directory(ignored) && !absl::StartsWith(name, ".")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The user whose server it is.
std::optional<uid_t> Owner(const Installation& installation) {
  struct stat info = {};
  if (::stat(installation.data.c_str(), &info) != 0) return std::nullopt;
  return info.st_uid;
}

// A file or folder that the server's user alone may use. `looked_at` counts.
void CheckOwn(const std::string& path, uid_t owner, size_t& looked_at, std::vector<Finding>& out) {
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) {
    out.push_back(Fail("keys", absl::StrCat(path, ": ", Reason(errno)),
                       "run as the server's user, or put the file back from its copy"));
    return;
  }
  ++looked_at;
  if (S_ISLNK(info.st_mode) && ::stat(path.c_str(), &info) != 0) return;
  if ((info.st_mode & 077) != 0) {
    out.push_back(Fail("keys", absl::StrCat(path, ": mode ", Mode(info), ", others can use it"),
                       S_ISDIR(info.st_mode) ? "chmod 0700 it; if others could read it, replace "
                                               "the keys: lethe key rotate, lethe key rewrap"
                                             : "chmod 0400 it; if others could read it, replace "
                                               "the key: lethe key rotate, lethe key rewrap"));
  }
  if (info.st_uid != owner) {
    out.push_back(Fail("keys", absl::StrCat(path, ": belongs to another user than the data folder"),
                       "chown it to the server's user"));
  }
}

// A file that the server takes from the administrator: its own or root's, which its group may read.
void CheckGiven(const std::string& path,
                uid_t owner,
                size_t& looked_at,
                std::vector<Finding>& out) {
  if (path.empty()) return;
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    out.push_back(Fail("keys", absl::StrCat(path, ": ", Reason(errno)),
                       "put the file where the settings say it is, or mend the settings"));
    return;
  }
  ++looked_at;
  if ((info.st_mode & 027) != 0) {
    out.push_back(Fail("keys", absl::StrCat(path, ": mode ", Mode(info)),
                       "chmod 0600 or 0640 it; the server refuses it, or will at the next start"));
  }
  if (info.st_uid != owner && info.st_uid != 0) {
    out.push_back(Fail("keys",
                       absl::StrCat(path, ": belongs neither to the server's user nor to root"),
                       "chown it; its owner can change who may do what"));
  }
}

void CheckKeyFiles(const std::string& folder,
                   uid_t owner,
                   size_t& looked_at,
                   std::vector<Finding>& out) {
  CheckOwn(folder, owner, looked_at, out);
  std::error_code error;
  for (fs::directory_iterator next(folder, error), end; !error && next != end;
       next.increment(error)) {
    CheckOwn(next->path().string(), owner, looked_at, out);
  }
}

// Big-endian, as SQLite writes its header.
uint32_t Number(const std::array<uint8_t, 100>& header, size_t at) {
  return uint32_t{header[at]} << 24 | uint32_t{header[at + 1]} << 16 |
         uint32_t{header[at + 2]} << 8 | uint32_t{header[at + 3]};
}

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(BIO* bio) const { BIO_free(bio); }
};

void CheckCertificate(absl::string_view option,
                      const std::string& path,
                      absl::Time now,
                      std::vector<Finding>& out) {
  if (path.empty()) return;
  const absl::StatusOr<std::string> pem = ReadSmallFile(path);
  if (!pem.ok()) {
    out.push_back(Fail("certificate", absl::StrCat(option, ": ", pem.status().message()),
                       "put the certificate where the settings say it is"));
    return;
  }
  const std::unique_ptr<BIO, FreeCertificate> bio(
      BIO_new_mem_buf(pem->data(), static_cast<int>(pem->size())));
  const std::unique_ptr<X509, FreeCertificate> certificate(
      bio == nullptr ? nullptr : PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  tm ends = {};
  tm begins = {};
  if (certificate == nullptr ||
      ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &ends) != 1 ||
      ASN1_TIME_to_tm(X509_get0_notBefore(certificate.get()), &begins) != 1) {
    out.push_back(Fail("certificate",
                       absl::StrCat(option, ": ", path, ": holds no certificate in PEM"),
                       "write a certificate with its chain there"));
    return;
  }
  const absl::Time end = absl::FromTM(ends, absl::UTCTimeZone());
  const absl::Time begin = absl::FromTM(begins, absl::UTCTimeZone());
  const std::string what = absl::StrCat(option, ": valid until ",
                                        absl::FormatTime("%Y-%m-%d", end, absl::UTCTimeZone()));
  const std::string advice =
      "renew it and write certificate and key anew by renaming; the server takes them by itself";
  if (now < begin) {
    out.push_back(
        Fail("certificate", absl::StrCat(option, ": not valid yet"), "look at the clock"));
  } else if (end < now) {
    out.push_back(Fail("certificate", absl::StrCat(what, ", which is over"), advice));
  } else if (end - now < kCertificateFailure) {
    out.push_back(Fail("certificate", what, advice));
  } else if (end - now < kCertificateWarning) {
    out.push_back(Warn("certificate", what, advice));
  } else {
    out.push_back(Ok("certificate", what));
  }
}

void CheckFree(absl::string_view name,
               const std::string& path,
               off_t ballast,
               std::vector<Finding>& out) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0) {
    out.push_back(Fail("disk", absl::StrCat(path, ": ", Reason(errno)),
                       "mount it, or name the folder that the server uses"));
    return;
  }
  const double free = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize);
  const double all = static_cast<double>(info.f_blocks) * static_cast<double>(info.f_frsize);
  const std::string found = absl::StrCat(name, ": ", Gib(free), " of ", Gib(all), " free");
  if ((info.f_flag & ST_RDONLY) != 0) {
    out.push_back(Fail("disk", absl::StrCat(name, ": mounted read-only"),
                       "look into the kernel's log; the file system may be damaged"));
  } else if (free < std::max(kFreeFailure, 2.0 * static_cast<double>(ballast))) {
    out.push_back(Fail("disk", found, "make room: inserts are refused soon, or already"));
  } else if (free < all * kFreeWarning) {
    out.push_back(Warn("disk", found, "make room, or extend the volume"));
  } else {
    out.push_back(Ok("disk", found));
  }
}

// The time of a folder of deploy/backup.sh, 20260131T020000Z.
std::optional<absl::Time> BackupTime(absl::string_view name) {
  if (name.size() != 16 || name[8] != 'T' || name[15] != 'Z') return std::nullopt;
  std::array<int, 6> part = {};  // year, month, day, hour, minute, second
  constexpr std::array<std::pair<size_t, size_t>, 6> kPlaces = {
      {{0, 4}, {4, 2}, {6, 2}, {9, 2}, {11, 2}, {13, 2}}};
  for (size_t i = 0; i < part.size(); ++i) {
    if (!absl::SimpleAtoi(name.substr(kPlaces[i].first, kPlaces[i].second), &part[i])) {
      return std::nullopt;
    }
  }
  return absl::FromCivil(absl::CivilSecond(part[0], part[1], part[2], part[3], part[4], part[5]),
                         absl::UTCTimeZone());
}

// Whether a folder of deploy/backup.sh has a backup in it.
bool HoldsBackup(const std::string& folder) {
  std::error_code error;
  return std::ranges::any_of(Folders(folder, error), [&](const std::string& tenant) {
    std::error_code none;
    return fs::exists(absl::StrCat(folder, "/", tenant, "/", kBackupManifest), none);
  });
}

// A file with bytes in it, or a folder with something.
bool IsFilled(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_empty(path, error) && !error;
}

std::string Age(absl::Duration age) {
  return age < absl::Hours(48) ? absl::StrCat(absl::ToInt64Hours(age), " h")
                               : absl::StrCat(absl::ToInt64Hours(age) / 24, " days");
}

}  // namespace

absl::Status ReadSettings(const std::string& path, Installation& installation) {
  LETHE_ASSIGN_OR_RETURN(const program::TomlFile file, program::TomlFile::Read(path));
  for (const auto& [key, place] :
       {std::pair("data", &installation.data), std::pair("vault", &installation.vault),
        std::pair("tls-certificate", &installation.tls_certificate),
        std::pair("tls-key", &installation.tls_key), std::pair("access", &installation.access),
        std::pair("dsr-certificate", &installation.dsr_certificate),
        std::pair("dsr-key", &installation.dsr_key)}) {
    const toml::node* node = file.root().get(key);
    if (node == nullptr || !place->empty()) continue;
    const auto text = node->value<std::string>();
    if (!node->is_string()) return file.Error(*node, absl::StrCat(key, ": must be a string"));
    *place = *text;
  }
  if (const toml::node* witness = file.root().get("witness"); witness != nullptr) {
    installation.witnesses = witness->is_array() ? witness->as_array()->size() : 1;
  }
  // "0" and 0 say that none is kept; another size is the server's to judge.
  if (const toml::node* ballast = file.root().get("ballast"); ballast != nullptr) {
    if (ballast->value_or<int64_t>(-1) == 0 || ballast->value_or<std::string>("") == "0") {
      installation.ballast = false;
    }
  }
  return absl::OkStatus();
}

std::vector<Finding> CheckKeys(const Installation& installation) {
  std::vector<Finding> out;
  const std::optional<uid_t> owner = Owner(installation);
  if (!owner.has_value()) {
    out.push_back(Fail("keys", absl::StrCat(installation.data, ": ", Reason(errno)),
                       "name the server's data folder: --data or --config"));
    return out;
  }
  size_t looked_at = 0;
  const std::string keys = installation.data + "/keys";
  CheckKeyFiles(keys, *owner, looked_at, out);
  if (!IsFilled(keys + "/signing.pem")) {
    out.push_back(Fail("keys", absl::StrCat(keys, "/signing.pem: there is none"),
                       "put it back from its copy; without it the next start is refused, or makes"
                       " another key"));
  }
  struct stat info = {};
  if (::stat((keys + "/signing.next.pem").c_str(), &info) == 0) {
    out.push_back(Warn("keys", "a rotation of the signing key is not finished",
                       "lethe key rotate; its answer says which tenants are pending"));
  }
  CheckOwn(installation.vault, *owner, looked_at, out);
  std::error_code error;
  for (const std::string& uid : Folders(installation.vault, error)) {
    const std::string folder = absl::StrCat(installation.vault, "/", uid);
    CheckKeyFiles(folder, *owner, looked_at, out);
    std::error_code none;
    if (fs::exists(folder + "/kek", none)) CheckKeyFiles(folder + "/kek", *owner, looked_at, out);
  }
  if (error) {
    out.push_back(Fail("keys", absl::StrCat(installation.vault, ": ", error.message()),
                       "run as the server's user, or name its vault: --vault"));
  }
  for (const std::string* path :
       {&installation.tls_key, &installation.access, &installation.dsr_key}) {
    CheckGiven(*path, *owner, looked_at, out);
  }
  if (out.empty()) {
    out.push_back(Ok("keys", absl::StrCat(looked_at, " files and folders are the server's alone")));
  }
  return out;
}

std::vector<Finding> CheckDisk(const Installation& installation) {
  std::vector<Finding> out;
  struct stat ballast = {};
  const bool kept =
      ::stat((installation.data + "/ballast").c_str(), &ballast) == 0 && ballast.st_blocks != 0;
  CheckFree("data", installation.data, kept ? ballast.st_size : 0, out);
  struct stat data = {};
  struct stat vault = {};
  const bool apart = ::stat(installation.data.c_str(), &data) == 0 &&
                     ::stat(installation.vault.c_str(), &vault) == 0 && data.st_dev != vault.st_dev;
  if (apart) CheckFree("vault", installation.vault, 0, out);
  if (installation.ballast && !kept) {
    out.push_back(Warn("disk", "the ballast is gone: erasures have no room of their own",
                       "make room; the next write makes it again"));
  }
  return out;
}

std::vector<Finding> CheckAnchors(const Installation& installation) {
  std::vector<Finding> out;
  std::error_code error;
  const std::vector<std::string> tenants = Folders(installation.data + "/tenants", error);
  if (error) {
    out.push_back(Fail("anchor", absl::StrCat(installation.data, "/tenants: ", error.message()),
                       "run as the server's user"));
    return out;
  }
  size_t whole = 0;
  const std::vector<std::string> folders = Folders(installation.vault, error);
  if (error) {
    out.push_back(Fail("anchor", absl::StrCat(installation.vault, ": ", error.message()),
                       "run as the server's user, or name its vault: --vault"));
    return out;
  }
  for (const std::string& uid : folders) {
    // The vault has other folders too, such as that of jobs.
    if (uid.size() != 32 || !std::all_of(uid.begin(), uid.end(), absl::ascii_isxdigit)) continue;
    const std::string folder = absl::StrCat(installation.vault, "/", uid);
    std::vector<std::string> lacks;
    for (const char* part : {"keys.db", "anchor.db", "kek"}) {
      if (!IsFilled(folder + "/" + part)) lacks.push_back(part);
    }
    if (lacks.empty()) {
      ++whole;
    } else {
      out.push_back(Fail("anchor", absl::StrCat(folder, ": lacks ", absl::StrJoin(lacks, ", ")),
                         "put it back from the copy of the vault (docs/backups.md)"));
    }
  }
  if (whole < tenants.size()) {
    out.push_back(Fail("anchor",
                       absl::StrCat(tenants.size(), " tenants, and ", whole, " whole in the vault"),
                       "give the server its vault, or put it back; no row can be read without it"));
  } else if (whole > tenants.size()) {
    out.push_back(
        Warn("anchor",
             absl::StrCat(whole, " tenants in the vault, and ", tenants.size(), " in the data"),
             "restore the missing ones, or remove what the log calls vault_of_no_tenant"));
  } else if (out.empty()) {
    out.push_back(Ok("anchor", absl::StrCat("keys and anchors of ", whole, " tenants")));
  }
  return out;
}

std::vector<Finding> CheckFormats(const Installation& installation) {
  std::vector<Finding> out;
  std::error_code error;
  std::map<uint32_t, size_t> formats;
  for (const std::string& tenant : Folders(installation.data + "/tenants", error)) {
    const std::string path = absl::StrCat(installation.data, "/tenants/", tenant, "/tenant.db");
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    std::array<uint8_t, 100> header = {};
    if (!file.valid() || ::pread(file.get(), header.data(), header.size(), 0) !=
                             static_cast<ssize_t>(header.size())) {
      out.push_back(Fail("versions", absl::StrCat("tenant ", tenant, ": its file cannot be read"),
                         "lethe backup restore its newest backup"));
      continue;
    }
    constexpr absl::string_view kMagic("SQLite format 3\0", 16);
    if (std::memcmp(header.data(), kMagic.data(), kMagic.size()) != 0 ||
        Number(header, 68) != kTenantFile) {
      out.push_back(Fail("versions", absl::StrCat("tenant ", tenant, ": its file is no tenant's"),
                         "lethe backup restore its newest backup"));
      continue;
    }
    ++formats[Number(header, 60)];  // user_version
  }
  std::vector<std::string> texts;
  for (const auto& [format, count] : formats) {
    texts.push_back(absl::StrCat(count, " of format ", format));
  }
  const std::string found = absl::StrCat(
      "lethe ", LETHE_VERSION, "; tenants: ", texts.empty() ? "none" : absl::StrJoin(texts, ", "));
  const bool known = std::ranges::all_of(formats, [](const auto& entry) {
    return entry.first >= kOldestFormat && entry.first <= kNewestFormat;
  });
  if (!known) {
    out.push_back(
        Fail("versions", found,
             absl::StrCat("this release reads formats ", kOldestFormat, " to ", kNewestFormat,
                          "; the others are refused: see docs/upgrading.md"
                          " and tenant_quarantined in the log")));
  } else if (out.empty()) {
    out.push_back(Ok("versions", found));
  }
  return out;
}

std::vector<Finding> CheckClock(const Installation& installation, absl::Time now) {
  std::vector<Finding> out;
  timex state = {};
  const int got = ::adjtimex(&state);
  const bool synchronised = got >= 0 && got != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  std::error_code error;
  for (const std::string& tenant : Folders(installation.data + "/tenants", error)) {
    struct stat info = {};
    const std::string path = absl::StrCat(installation.data, "/tenants/", tenant, "/tenant.db");
    if (::stat(path.c_str(), &info) != 0) continue;
    if (absl::TimeFromTimespec(info.st_mtim) > now + kFuture) {
      out.push_back(Fail("clock", absl::StrCat("tenant ", tenant, " was written in the future"),
                         "set the clock: times in certificates and due times hang on it"));
      break;
    }
  }
  if (!synchronised) {
    out.push_back(Warn("clock", "the kernel does not know it synchronised",
                       "run chrony or systemd-timesyncd; in a container the host's does"));
  } else if (out.empty()) {
    out.push_back(Ok("clock", "synchronised"));
  }
  return out;
}

std::vector<Finding> CheckBackups(const Installation& installation, absl::Time now) {
  if (installation.backups.empty()) {
    return {Warn("backup", "not looked at", "name the folder of deploy/backup.sh: --backups")};
  }
  std::error_code error;
  const bool tenants = !Folders(installation.data + "/tenants", error).empty();
  std::optional<absl::Time> newest;
  std::optional<absl::Time> partial;
  for (const std::string& name : Folders(installation.backups, error)) {
    const std::string folder = absl::StrCat(installation.backups, "/", name);
    absl::string_view when = name;
    std::optional<absl::Time>& last = absl::ConsumeSuffix(&when, ".partial") ? partial : newest;
    const std::optional<absl::Time> time = BackupTime(when);
    if (!time.has_value() || (tenants && !HoldsBackup(folder))) continue;
    if (!last.has_value() || *last < *time) last = time;
  }
  const std::string advice = "run deploy/backup.sh, and see why its job does not";
  if (error) {
    return {Fail("backup", absl::StrCat(installation.backups, ": ", error.message()), advice)};
  }
  if (!newest.has_value()) {
    return {Fail("backup", absl::StrCat(installation.backups, ": holds no backup"), advice)};
  }
  const absl::Duration age = now - *newest;
  const std::string found = absl::StrCat("the newest is ", Age(age), " old");
  if (age < -kFuture) return {Fail("backup", "the newest is from the future", "set the clock")};
  if (age > 3 * installation.backup_age) return {Fail("backup", found, advice)};
  if (age > installation.backup_age) return {Warn("backup", found, advice)};
  if (partial.has_value() && *newest < *partial) {
    return {Warn("backup", absl::StrCat(found, "; a newer one lacks tenants"),
                 "see what deploy/backup.sh said of them")};
  }
  return {Ok("backup", found)};
}

std::vector<Finding> CheckCertificates(const Installation& installation, absl::Time now) {
  std::vector<Finding> out;
  CheckCertificate("tls-certificate", installation.tls_certificate, now, out);
  CheckCertificate("dsr-certificate", installation.dsr_certificate, now, out);
  if (out.empty()) {
    out.push_back(Warn("certificate", "none named: TLS is off, or the settings were not given",
                       "--config FILE, or --certificate FILE"));
  }
  return out;
}

}  // namespace lethe::cli
