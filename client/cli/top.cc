#include "client/cli/top.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/render.h"
#include "client/cli/table.h"
#include "core/base/status_macros.h"

namespace lethe::cli {
namespace {

std::string Change(const std::optional<int64_t>& change) {
  if (!change.has_value()) return "";
  if (*change < 0) return absl::StrCat("-", FormatCount(static_cast<uint64_t>(-*change)));
  return absl::StrCat("+", FormatCount(static_cast<uint64_t>(*change)));
}

}  // namespace

uint64_t TopRow::tokens() const {
  return memory.partition.margin + memory.partition.error + memory.partition.reserve;
}

absl::Status TopWatcher::LookAt(const std::string& tenant, TopLook& look) {
  for (const absl::StatusOr<client::Memory>& memory : client_.ListMemories(tenant)) {
    if (!memory.ok()) return memory.status();
    if (stopped_.load()) return absl::CancelledError("stopped");
    const absl::StatusOr<client::Description> description = client_.Describe(memory->name);
    if (absl::IsNotFound(description.status())) continue;
    LETHE_RETURN_IF_ERROR(description.status());
    TopRow row{.memory = description->memory, .verdict = description->verdict, .change = {}};
    look.tokens += row.tokens();
    look.rows.push_back(std::move(row));
  }
  return absl::OkStatus();
}

absl::StatusOr<TopLook> TopWatcher::Look() {
  TopLook look;
  std::vector<std::string> tenants;
  if (!tenant_.empty()) {
    tenants.push_back(tenant_);
    look.tenants = 1;
  } else {
    for (const absl::StatusOr<client::Tenant>& tenant : client_.ListTenants()) {
      if (!tenant.ok()) return tenant.status();
      ++look.tenants;
      if (tenants.size() < max_tenants_) tenants.push_back(tenant->name);
    }
  }
  for (const std::string& tenant : tenants) {
    if (stopped_.load()) return absl::CancelledError("stopped");
    const absl::Status status = LookAt(tenant, look);
    if (!status.ok() && (!tenant_.empty() || stopped_.load())) return status;
    if (absl::IsNotFound(status)) continue;
    if (status.ok()) {
      ++look.looked_at;
    } else {
      look.troubles.push_back({tenant, status});
    }
  }
  std::map<std::pair<std::string, std::string>, uint64_t> tokens;
  for (TopRow& row : look.rows) {
    const std::pair<std::string, std::string> name = {row.memory.name.tenant,
                                                      row.memory.name.memory};
    tokens[name] = row.tokens();
    if (const auto before = tokens_before_.find(name); before != tokens_before_.end()) {
      row.change = static_cast<int64_t>(row.tokens()) - static_cast<int64_t>(before->second);
    }
  }
  tokens_before_ = std::move(tokens);
  return look;
}

std::vector<std::string> TopLines(const TopLook& look,
                                  const std::string& address,
                                  absl::Duration interval,
                                  const std::string& trouble,
                                  size_t columns,
                                  size_t rows) {
  std::vector<std::string> lines = {
      absl::StrCat("lethe top  ", address, "  every ", absl::FormatDuration(interval), "  q ends"),
      !trouble.empty()
          ? trouble
          : absl::StrCat(FormatCount(look.looked_at), " of ", FormatCount(look.tenants),
                         " tenants, ", FormatCount(look.rows.size()), " memories, ",
                         FormatCount(look.tokens), " tokens"),
      ""};
  Table table({{.title = "TENANT", .flexible = true},
               {.title = "MEMORY", .flexible = true},
               {.title = "TOKENS", .right = true},
               {.title = "+/-", .right = true},
               {.title = "MARGIN", .right = true},
               {.title = "ERROR", .right = true},
               {.title = "RESERVE", .right = true},
               {.title = "PHASE"},
               {.title = "VERDICT"}});
  for (const TopRow& row : look.rows) {
    table.AddRow({row.memory.name.tenant, row.memory.name.memory, FormatCount(row.tokens()),
                  Change(row.change), FormatCount(row.memory.partition.margin),
                  FormatCount(row.memory.partition.error),
                  FormatCount(row.memory.partition.reserve),
                  absl::AsciiStrToLower(client::ToString(row.memory.phase)), Text(row.verdict)});
  }
  for (const TopTrouble& bad : look.troubles) {
    lines.push_back(absl::StrCat(bad.tenant, ": ", std::string(bad.status.message())));
  }
  const std::string text = table.Render(columns);
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    lines.emplace_back(line);
  }
  if (lines.size() > rows) {
    const size_t kept = rows < 5 ? rows : rows - 1;
    const size_t left_out = lines.size() - kept;
    lines.resize(kept);
    if (kept < rows)
      lines.push_back(absl::StrCat("and ", left_out, " more; a taller window shows them"));
  }
  for (std::string& line : lines) line = Shorten(line, columns);
  return lines;
}

std::string TopFrame(const std::vector<std::string>& lines) {
  std::string frame = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    // To the end of the line cleared after it is written, not before: what stays the same is never
    // blank. No newline after the last, which would scroll a full screen.
    absl::StrAppend(&frame, i == 0 ? "" : "\r\n", lines[i], "\x1b[K");
  }
  absl::StrAppend(&frame, "\x1b[J");
  return frame;
}

}  // namespace lethe::cli
