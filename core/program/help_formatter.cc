#include "core/program/help_formatter.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace lethe::program {
namespace {

constexpr size_t kColumns = 80;

}  // namespace

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  std::string out = absl::StrCat("  ", make_option_name(option, is_positional));
  if (option->get_items_expected_max() > 0) absl::StrAppend(&out, " ", option->get_type_name());
  absl::StrAppend(&out, "\n");
  constexpr absl::string_view kIndent = "        ";
  std::string line(kIndent);
  for (const absl::string_view word : absl::StrSplit(option->get_description(), ' ')) {
    if (line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&out, line, "\n");
      line = std::string(kIndent);
    }
    absl::StrAppend(&line, line.size() == kIndent.size() ? "" : " ", word);
  }
  absl::StrAppend(&out, line, "\n");
  return out;
}

}  // namespace lethe::program
