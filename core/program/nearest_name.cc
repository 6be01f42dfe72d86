#include "core/program/nearest_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lethe::program {
namespace {

constexpr size_t kMaxName = 100;

// Damerau's distance, where no stretch is edited twice ("optimal string alignment").
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

}  // namespace

std::string NearestName(absl::string_view word, absl::Span<const std::string> names) {
  std::string nearest;
  if (word.size() > kMaxName) return nearest;
  size_t least = kMaxName;
  for (const std::string& name : names) {
    const size_t distance = Distance(word, name);
    if (distance < least && distance < name.size() && distance <= (name.size() + 2) / 3) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string UnknownName(absl::string_view name, absl::Span<const std::string> names) {
  const bool shown = name.size() <= kMaxName && std::all_of(name.begin(), name.end(), [](char c) {
                       return absl::ascii_isprint(static_cast<unsigned char>(c));
                     });
  std::string text = absl::StrCat(shown ? name : "a name", ": unknown");
  const std::string nearest = NearestName(name, names);
  if (!nearest.empty()) absl::StrAppend(&text, "; did you mean ", nearest, "?");
  return text;
}

}  // namespace lethe::program
