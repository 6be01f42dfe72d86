#include "server/quota_text.h"

#include <limits>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "server/limits.h"
#include "server/service/names.h"

namespace lethe::server {
namespace {

constexpr absl::string_view kEverybody = "*";
constexpr size_t kMaxEntries = 10000;
constexpr uint64_t kMostOfAny = std::numeric_limits<int64_t>::max();

absl::Status Bad(absl::string_view where, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(
      where, ": ", what, "; write it as *:tokens=1000000,inserts=2000 or TENANT:bytes=20GiB"));
}

std::string Names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < service::kQuotas; ++i) {
    names.emplace_back(service::QuotaName(static_cast<service::Quota>(i)));
  }
  return absl::StrJoin(names, ", ");
}

// Sets what `text` ("tokens=5,bytes=1GiB") names.
absl::Status ParseLimits(absl::string_view where,
                         absl::string_view text,
                         service::TenantQuotas& quotas) {
  std::set<service::Quota> seen;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> setting =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    size_t index = 0;
    while (index < service::kQuotas &&
           service::QuotaName(static_cast<service::Quota>(index)) != setting.first) {
      ++index;
    }
    if (index == service::kQuotas) {
      return Bad(where, absl::StrCat("names must be of ", Names()));
    }
    const auto quota = static_cast<service::Quota>(index);
    if (!seen.insert(quota).second) return Bad(where, "has a name twice");
    uint64_t value = 0;
    if (quota == service::Quota::kBytes) {
      LETHE_ASSIGN_OR_RETURN(value, ParseBytes(where, setting.second));
    } else if (setting.second.empty() ||
               setting.second.find_first_not_of("0123456789") != absl::string_view::npos ||
               !absl::SimpleAtoi(setting.second, &value)) {
      return Bad(where, "values must be whole numbers");
    }
    if (value > kMostOfAny) return Bad(where, "has a value that is too large");
    quotas[quota] = value;
  }
  return absl::OkStatus();
}

std::string Format(absl::string_view tenant, const service::TenantQuotas& quotas, bool zeros) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < service::kQuotas; ++i) {
    if (quotas.limits[i] == 0 && !zeros) continue;
    parts.push_back(
        absl::StrCat(service::QuotaName(static_cast<service::Quota>(i)), "=", quotas.limits[i]));
  }
  return parts.empty() ? "" : absl::StrCat(tenant, ":", absl::StrJoin(parts, ","));
}

}  // namespace

absl::StatusOr<service::QuotaSettings> ParseQuotas(absl::string_view where,
                                                   const std::vector<std::string>& texts) {
  if (texts.size() > kMaxEntries) {
    return Bad(where, absl::StrCat("has more than ", kMaxEntries, " entries"));
  }
  service::QuotaSettings settings;
  std::set<absl::string_view> seen;
  // What holds for everybody first: the others inherit from it, wherever it stands.
  for (const bool everybody : {true, false}) {
    for (const std::string& text : texts) {
      const size_t colon = text.find(':');
      if (colon == std::string::npos) return Bad(where, "has no ':'");
      const absl::string_view tenant = absl::string_view(text).substr(0, colon);
      const absl::string_view limits = absl::string_view(text).substr(colon + 1);
      if ((tenant == kEverybody) != everybody) continue;
      if (!seen.insert(tenant).second) return Bad(where, "has a tenant twice");
      if (everybody) {
        LETHE_RETURN_IF_ERROR(ParseLimits(where, limits, settings.defaults));
        continue;
      }
      if (!service::CheckName("tenant", tenant).ok()) {
        return Bad(where, "has a name that no tenant can have");
      }
      service::TenantQuotas quotas = settings.defaults;
      LETHE_RETURN_IF_ERROR(ParseLimits(where, limits, quotas));
      settings.tenants.emplace(tenant, quotas);
    }
  }
  return settings;
}

std::vector<std::string> FormatQuotas(const service::QuotaSettings& settings) {
  std::vector<std::string> texts;
  std::string everybody = Format(kEverybody, settings.defaults, /*zeros=*/false);
  if (!everybody.empty()) texts.push_back(std::move(everybody));
  for (const auto& [tenant, quotas] : settings.tenants) {
    texts.push_back(Format(tenant, quotas, /*zeros=*/true));
  }
  return texts;
}

}  // namespace lethe::server
