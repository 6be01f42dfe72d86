#include "server/http/erasure_channel.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "server/access/guarded_file.h"
#include "server/http/pem.h"

namespace lethe::http {
namespace {

// A bundle of all authorities of the world is about 220 KiB.
constexpr size_t kMaxAuthoritiesBytes = size_t{1} << 20;

absl::Status CheckSettings(const ErasureSettings& settings) {
  const int dsr = (settings.dsr_key.empty() ? 0 : 1) + (settings.dsr_certificate.empty() ? 0 : 1) +
                  (settings.dsr_domain.empty() ? 0 : 1);
  if (dsr != 0 && dsr != 3) {
    return absl::InvalidArgumentError(
        "--dsr-key: --dsr-domain, --dsr-key and --dsr-certificate go together");
  }
  const std::string& url = settings.public_url;
  if (!url.empty() &&
      ((!absl::StartsWith(url, "https://") && !absl::StartsWith(url, "http://")) ||
       absl::EndsWith(url, "/") || url.find_first_of(" \t\"<>#?") != std::string::npos)) {
    return absl::InvalidArgumentError(
        "--public-url: must be like https://lethe.example, without a slash at the end");
  }
  if (absl::Status hosts = settings.callbacks.CheckHosts(); !hosts.ok()) {
    return Prefixed(hosts, "--callback-host");
  }
  if (!settings.callbacks.hosts.empty() && url.empty()) {
    return absl::InvalidArgumentError(
        "--callback-host: wants --public-url, since callbacks hold links");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAuthorities(const std::string& path) {
  LETHE_ASSIGN_OR_RETURN(std::string pem, access::ReadGuardedFile(path, kMaxAuthoritiesBytes,
                                                                  access::Secrecy::kPublic));
  LETHE_RETURN_IF_ERROR(ParseCertificates(path, pem).status());
  return pem;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ErasureChannel>> ErasureChannel::Open(
    const ErasureSettings& settings) {
  LETHE_RETURN_IF_ERROR(CheckSettings(settings));
  std::unique_ptr<ErasureChannel> channel(new ErasureChannel(settings));
  if (!settings.dsr_key.empty()) {
    auto key = DsrKey::Load(settings.dsr_domain, settings.dsr_key, settings.dsr_certificate);
    if (!key.ok()) return Prefixed(key.status(), "--dsr-key");
    channel->dsr_ = *std::move(key);
  }
  if (!settings.transcend_key.empty()) {
    auto key = SombraKey::Load(settings.transcend_key);
    if (!key.ok()) return Prefixed(key.status(), "--transcend-key");
    channel->transcend_ = *std::move(key);
  }
  if (!settings.callback_ca.empty()) {
    absl::StatusOr<std::string> pem = ReadAuthorities(settings.callback_ca);
    if (!pem.ok()) return Prefixed(pem.status(), "--callback-ca");
    channel->callback_authorities_ = *std::move(pem);
  }
  return channel;
}

ErasureChannel::~ErasureChannel() { Stop(); }

std::string ErasureChannel::Problem() const {
  if (dsr_ == nullptr || dsr_->current() != nullptr) return "";
  return "--dsr-certificate: is not valid now; nothing is signed, and OpenDSR is not answered";
}

ErasureHttp ErasureChannel::HttpOf(service::Service* service) const {
  return {.service = service,
          .dsr = dsr_.get(),
          .transcend = transcend_.get(),
          .public_url = settings_.public_url};
}

void ErasureChannel::Start(service::Service* service, program::EventLog* log) {
  LETHE_CHECK(sender_ == nullptr);
  if (log != nullptr) Follow(*log);
  sender_ = std::make_unique<CallbackSender>(service,
                                             CallbackOptions{.policy = &settings_.callbacks,
                                                             .dsr = dsr_.get(),
                                                             .public_url = settings_.public_url,
                                                             .authorities = callback_authorities_,
                                                             .log = log});
  sender_->Start();
}

void ErasureChannel::Follow(program::EventLog& log) {
  if (dsr_ == nullptr) return;
  const absl::StatusOr<bool> changed = dsr_->ReloadIfChanged();
  // Said once, and not every time that it is still so.
  const std::string refused = changed.ok() ? "" : std::string(changed.status().message());
  const std::string problem = Problem();
  if (changed.ok() && *changed) log.Write(program::LogLevel::kInfo, "dsr_key_reloaded", {});
  if (const std::string now = absl::StrCat(refused, "\n", problem); now != told_) {
    told_ = now;
    if (!refused.empty()) {
      log.Write(program::LogLevel::kError, "dsr_key_refused", {{"message", refused}});
    }
    if (!problem.empty()) {
      log.Write(program::LogLevel::kError, "dsr_key_unusable", {{"message", problem}});
    }
  }
}

void ErasureChannel::Stop() {
  if (sender_ != nullptr) sender_->Stop();
}

}  // namespace lethe::http
