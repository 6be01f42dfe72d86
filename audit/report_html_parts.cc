#include "audit/report_html_parts.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "audit/report_html_charts.h"
#include "audit/report_html_sections.h"

namespace lethe::audit {

void OpenSection(std::string& out, absl::string_view id, absl::string_view heading) {
  absl::StrAppend(&out, "<section id=\"", id, "\" aria-labelledby=\"", id, "-h\">\n<h2 id=\"", id,
                  "-h\">", heading, "</h2>\n");
}

std::string CertificatesText(uint64_t count) {
  return absl::StrCat(Grouped(count), count == 1 ? " certificate" : " certificates");
}

std::string Link(uint64_t sequence) {
  return absl::StrCat("<a href=\"", CertificateStem(sequence), ".envelope.json\">#", sequence,
                      "</a>");
}

std::string ShortTime(absl::string_view time) {
  return absl::StrCat(time.substr(0, 10), " ", time.substr(11, 5), "<span class=\"sec\">",
                      time.substr(16, 3), "</span>");
}

std::string Tags(const std::vector<Concern>& concerns) {
  return absl::StrJoin(concerns, ", ", [](std::string* out, Concern concern) {
    absl::StrAppend(out, "<span class=\"tag", concern == Concern::kExcepted ? "" : " bad", "\">",
                    Name(concern), "</span>");
  });
}

}  // namespace lethe::audit
