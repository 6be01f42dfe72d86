#include "client/cli/certificate_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/encoding.h"
#include "client/cli/render.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

constexpr size_t kMaxSmallFile = size_t{16} << 20;

absl::Status BadLine(const std::string& path, uint64_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": line ", line, ": ", what));
}

absl::StatusOr<std::string> Bytes(const Json& object, const char* name) {
  if (!object.contains(name) || !object[name].is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": must be a string"));
  }
  absl::StatusOr<std::string> bytes = audit::DecodeBase64(object[name].get<std::string>());
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat(name, ": must be base64"));
  return bytes;
}

}  // namespace

std::string ChainLine(const client::Certificate& certificate) {
  return Dump({{"sequence", certificate.sequence},
               {"envelope", audit::Base64(certificate.envelope)},
               {"leaf", audit::Base64(certificate.leaf)}}) +
         "\n";
}

absl::StatusOr<std::string> EnvelopeFileName(const client::Certificate& certificate) {
  LETHE_RETURN_IF_ERROR(audit::DecodeDigest(certificate.id).status());
  return absl::StrCat(certificate.sequence, "-", certificate.id.substr(0, 8), ".json");
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": is a directory"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string content(kMaxSmallFile + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) return absl::NotFoundError(absl::StrCat(path, ": reading failed"));
  if (content.size() > kMaxSmallFile) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": is larger than 16 MiB"));
  }
  return content;
}

absl::Status WriteFile(const std::string& path, absl::string_view content) {
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    file.close();
    if (!file) {
      const std::string why = std::strerror(errno);
      std::remove(part.c_str());
      return absl::UnknownError(absl::StrCat(path, ": ", why));
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    return absl::UnknownError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<audit::ChainResult> VerifyChainFile(const std::string& path,
                                                   const audit::VerificationKey& key,
                                                   audit::ChainExpectations expectations) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  audit::ChainVerifier verifier(key, std::move(expectations));
  std::string text;
  for (uint64_t line = 1; std::getline(file, text); ++line) {
    if (text.empty()) continue;
    const Json entry = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object()) return BadLine(path, line, "must be a JSON object");
    if (!entry.contains("sequence") || !entry["sequence"].is_number_unsigned()) {
      return BadLine(path, line, "sequence: must be a whole number");
    }
    const absl::StatusOr<std::string> envelope = Bytes(entry, "envelope");
    if (!envelope.ok()) return BadLine(path, line, envelope.status().message());
    const absl::StatusOr<std::string> leaf = Bytes(entry, "leaf");
    if (!leaf.ok()) return BadLine(path, line, leaf.status().message());
    const audit::CertificateResult result =
        verifier.Add({*envelope, *leaf, entry["sequence"].get<uint64_t>()});
    if (!result.ok()) break;
  }
  if (file.bad()) return absl::NotFoundError(absl::StrCat(path, ": reading failed"));
  return verifier.Finish();
}

}  // namespace lethe::cli
