// Looks for traces of what must be gone, and says where they stand.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "audit/cli/output.h"
#include "audit/cli/residue.h"
#include "audit/trace_files.h"
#include "core/base/status_macros.h"

namespace lethe::audit::cli {
namespace {

constexpr size_t kMaxList = 1'000'000;

constexpr char kFooter[] =
    R"(PATH is a file or a folder; every regular file under it is read, names and the
targets of symbolic links are searched as well. Nothing is sent anywhere, and
nothing that is searched for is ever printed: the third text is "text 3".

Texts are looked for as they are (UTF-8), in UTF-16, hex, base64, percent
encoding and with the escapes of JSON and C; vectors as 64 and 32 bit numbers of
both byte orders, also in hex and base64, and as decimal text. What is packed
(zip, gzip), encrypted or hashed is not found: unpack it first.

It is for logs, exports, temporary files and the files of applications, and
shows that nothing stands in clear in the server's data. There rows are sealed:
nothing is found before an erasure either, so it does not show that one
happened. The certificates do.

Beforehand every form of everything is put into a stream of random bytes and
must be found there. With --control also in a file of which you know that it
holds everything in clear: the file of the tokens, or one of an application's
from before the erasure. The server's data, old or new, is none. Without that
"nothing found" proves little about what you typed.

Of a token id, subject, payload, key and value are looked for, not the labels.
Other people on a machine see its command lines: prefer files for secrets.

Exit status
  0 nothing found        8 found (with --expect-found and --control: not found)
  1 wrong usage          9 nothing found, but not everything could be read, or
  2 unreadable input       files changed meanwhile (--live allows that)
  3 malformed input

Examples
  lethe-verify residue /var/log/lethe /tmp --texts-file erased.txt
  lethe-verify residue /srv/exports /var/lib/lethe --tokens erased.ndjson \
      --control erased.ndjson
  lethe-verify residue application-before.db --tokens erased.ndjson \
      --expect-found)";

std::string Grouped(uint64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string Of(uint64_t count, absl::string_view one, absl::string_view many) {
  return absl::StrCat(Grouped(count), " ", count == 1 ? one : many);
}

struct Outcome {
  TraceReport report;
  uint64_t self_test_bytes = 0;
  uint64_t control_missing = 0;
  std::string missing;  // the first things that the control or --expect-found did not show
  int code = kVerified;
};

std::string Missing(const TraceSearch& search, const TraceReport& report) {
  constexpr size_t kNamed = 5;
  std::vector<std::string> names;
  for (size_t i = 0; i < search.things().size() && names.size() < kNamed; ++i) {
    if (report.places_of_thing[i] == 0) names.push_back(search.things()[i].name);
  }
  const uint64_t more = report.missing() - names.size();
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more > 0 ? absl::StrCat(" and ", Grouped(more), " more") : "");
}

absl::StatusOr<Outcome> Search(TraceSearch& search, const ResidueOptions& options) {
  Outcome outcome;
  LETHE_ASSIGN_OR_RETURN(outcome.self_test_bytes, search.SelfTest());
  if (!options.control.empty()) {
    LETHE_ASSIGN_OR_RETURN(const TraceReport control,
                           SearchFiles(search, {&options.control, 1}, 0));
    outcome.control_missing = control.missing();
    outcome.missing = Missing(search, control);
  }
  LETHE_ASSIGN_OR_RETURN(outcome.report, SearchFiles(search, options.paths, options.list));
  const TraceReport& report = outcome.report;
  const bool incomplete = report.files == 0 || report.of(TraceNote::kUnreadable).count > 0 ||
                          (report.of(TraceNote::kChanged).count > 0 && !options.live);
  if (options.expect_found && outcome.control_missing == 0) {
    outcome.missing = Missing(search, report);
  }
  const bool otherwise = options.expect_found ? report.missing() > 0 : report.places > 0;
  outcome.code = otherwise || outcome.control_missing > 0 ? kResidue
                 : incomplete                             ? kIncomplete
                                                          : kVerified;
  return outcome;
}

std::string Where(const TraceReport& report) {
  return absl::StrCat(Of(report.files, "file", "files"), ", ", Grouped(report.bytes), " bytes");
}

std::string Verdict(const TraceSearch& search, const ResidueOptions& options, const Outcome& got) {
  const TraceReport& report = got.report;
  const uint64_t all = search.things().size();
  const uint64_t found = all - report.missing();
  if (got.control_missing > 0 && (options.expect_found || report.places == 0)) {
    return absl::StrCat("WORTHLESS  the control does not hold ", got.missing);
  }
  if (options.expect_found && found < all) {
    return absl::StrCat("NOT FOUND  ", got.missing);
  }
  if (report.places > 0 && (!options.expect_found || got.code == kVerified)) {
    return absl::StrCat("FOUND     ", Of(report.places, "place", "places"), ", ", Grouped(found),
                        " of ", Of(all, "thing", "things"), ", in ", Where(report));
  }
  if (got.code == kIncomplete) {
    return report.files == 0
               ? std::string("INCOMPLETE  there was no file to read")
               : absl::StrCat(
                     "INCOMPLETE  ", report.places > 0 ? "found" : "nothing found", ", but ",
                     Of(report.of(TraceNote::kUnreadable).count, "file", "files"), " not read, ",
                     Of(report.of(TraceNote::kChanged).count, "change", "changes"));
  }
  return absl::StrCat("NOTHING FOUND  ", Of(all, "thing", "things"), " in ", Where(report));
}

struct NoteWords {
  TraceNote note;
  const char* json;
  const char* label;
};
constexpr NoteWords kNotes[] = {{TraceNote::kUnreadable, "unreadable", "not read"},
                                {TraceNote::kChanged, "changed", "changed"},
                                {TraceNote::kSymbolicLink, "symbolicLinks", "symlink"},
                                {TraceNote::kSpecial, "special", "special"}};

void PrintFindings(const TraceSearch& search, const TraceReport& report) {
  std::string path;
  for (const TraceFinding& finding : report.findings) {
    if (finding.path != path) {
      path = finding.path;
      Print(absl::StrCat("\n", path, "\n"));
    }
    const TraceThing& thing = search.things()[finding.place.thing];
    const TraceForm& form = thing.forms[finding.place.form];
    const std::string part =
        finding.place.units < form.units()
            ? absl::StrCat(", ", Grouped(finding.place.units), " of ", Grouped(form.units()))
            : "";
    Print(absl::StrFormat("  %17s  %-20s %s%s\n",
                          finding.in_name ? "in the name" : Grouped(finding.place.offset),
                          thing.name, form.name(), part));
  }
  if (report.places > report.findings.size()) {
    Print(absl::StrCat("\n  listed: ", Grouped(report.findings.size()), " of ",
                       Grouped(report.places), " places (--list)\n"));
  }
}

void PrintText(const TraceSearch& search,
               const ResidueOptions& options,
               const ResidueThings& things,
               const Outcome& got) {
  Print(Verdict(search, options, got) + "\n");
  if (options.quiet) return;
  Print(Field("looked for", absl::StrCat(Of(search.things().size(), "thing", "things"), " in ",
                                         Of(search.forms(), "form", "forms"))));
  Print(Field("self-test", absl::StrCat("all of them found in ", Grouped(got.self_test_bytes),
                                        " composed bytes")));
  if (!options.control.empty()) {
    Print(Field("control", got.control_missing == 0 ? std::string("holds all of them")
                                                    : absl::StrCat("does not hold ", got.missing)));
  }
  if (!things.left_out.empty()) {
    Print(Field("left out", absl::StrCat(Of(things.left_out.size(), "part", "parts"),
                                         " of tokens, too short or too common:")));
    constexpr size_t kShown = 5;
    for (size_t i = 0; i < std::min(kShown, things.left_out.size()); ++i) {
      Print(Field("", things.left_out[i].first));
    }
    if (things.left_out.size() > kShown) Print(Field("", "..."));
  }
  for (const NoteWords& words : kNotes) {
    const TraceNotes& notes = got.report.of(words.note);
    for (const std::string& line : notes.first) Print(Field(words.label, line));
    if (notes.count > notes.first.size()) {
      Print(Field(words.label,
                  absl::StrCat("and ", Grouped(notes.count - notes.first.size()), " more")));
    }
  }
  PrintFindings(search, got.report);
}

const char* VerdictName(const ResidueOptions& options, const Outcome& got) {
  if (got.code == kIncomplete) return "incomplete";
  const bool found = got.report.places > 0;
  if (got.control_missing > 0 && (options.expect_found || !found)) return "control-failed";
  if (options.expect_found) return got.code == kVerified ? "found" : "not-found";
  return found ? "found" : "nothing-found";
}

void PrintReport(const TraceSearch& search,
                 const ResidueOptions& options,
                 const ResidueThings& things,
                 const Outcome& got) {
  const TraceReport& report = got.report;
  Json json = Json::MakeObject();
  json.Set("bytes", Json::Integer(report.bytes));
  json.Set("files", Json::Integer(report.files));
  json.Set("folders", Json::Integer(report.folders));
  json.Set("forms", Json::Integer(search.forms()));
  json.Set("selfTestBytes", Json::Integer(got.self_test_bytes));
  json.Set("verdict", Json::String(VerdictName(options, got)));
  if (!options.control.empty()) json.Set("controlMissing", Json::Integer(got.control_missing));
  for (const NoteWords& words : kNotes) {
    Json paths = Json::MakeArray();
    for (const std::string& line : report.of(words.note).first) paths.Append(Json::String(line));
    Json notes = Json::MakeObject();
    notes.Set("count", Json::Integer(report.of(words.note).count));
    notes.Set("first", std::move(paths));
    json.Set(words.json, std::move(notes));
  }
  Json left_out = Json::MakeArray();
  for (const auto& [name, why] : things.left_out) {
    Json one = Json::MakeObject();
    one.Set("thing", Json::String(name));
    one.Set("why", Json::String(why));
    left_out.Append(std::move(one));
  }
  json.Set("leftOut", std::move(left_out));
  Json counts = Json::MakeArray();
  for (size_t i = 0; i < search.things().size(); ++i) {
    Json one = Json::MakeObject();
    one.Set("places", Json::Integer(report.places_of_thing[i]));
    one.Set("thing", Json::String(search.things()[i].name));
    counts.Append(std::move(one));
  }
  json.Set("things", std::move(counts));
  Json findings = Json::MakeArray();
  for (const TraceFinding& finding : report.findings) {
    const TraceThing& thing = search.things()[finding.place.thing];
    const TraceForm& form = thing.forms[finding.place.form];
    Json one = Json::MakeObject();
    one.Set("bytes", Json::Integer(finding.place.bytes));
    one.Set("file", Json::String(finding.path));
    one.Set("form", Json::String(form.name()));
    one.Set("inName", Json::Bool(finding.in_name));
    one.Set("of", Json::Integer(form.units()));
    one.Set("offset", Json::Integer(finding.place.offset));
    one.Set("thing", Json::String(thing.name));
    one.Set("units", Json::Integer(finding.place.units));
    findings.Append(std::move(one));
  }
  json.Set("listed", std::move(findings));
  json.Set("places", Json::Integer(report.places));
  PrintJson(json);
}

}  // namespace

void AddResidueOptions(CLI::App& command, ResidueOptions& options) {
  command.add_option("PATH", options.paths, "Files and folders to search")->required();
  command.add_option("--text", options.texts, "A text to look for; may be repeated")
      ->allow_extra_args(false)
      ->type_name("TEXT");
  command.add_option("--texts-file", options.texts_file, "One a line; - for standard input")
      ->type_name("FILE");
  command.add_option("--vector", options.vectors, "Numbers, \"1.5,2.25\"; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NUMBERS");
  command
      .add_option("--vectors-file", options.vectors_file,
                  "One a line: 1.5,2 or [1.5,2]; - for stdin")
      ->type_name("FILE");
  AddTokenFileOptions(command, options.tokens, "Tokens to look for, a file for `lethe insert`");
  command.add_option("--run", options.rules.vector_run, "Numbers in a row that count (default 4)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command
      .add_option("--text-run", options.rules.text_run,
                  "Bytes in a row that count, of longer texts (256)")
      ->check(CLI::Range(6, 1 << 20).description(""))
      ->type_name("N");
  command.add_flag("--allow-short", options.rules.allow_short,
                   "Texts below 6 bytes too: met by chance");
  command.add_option("--control", options.control, "A file or folder that holds everything")
      ->type_name("PATH");
  command.add_flag("--expect-found", options.expect_found,
                   "Succeed when everything is found instead");
  command.add_flag("--live", options.live, "Files may change meanwhile: tell, do not fail");
  command.add_option("--list", options.list, "Places to list at most (default 100)")
      ->check(CLI::Range(size_t{0}, kMaxList).description(""))
      ->type_name("N");
  command.add_option("-o,--output", options.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}).description(""))
      ->type_name("text|json");
  command.add_flag_callback(
      "--json", [&options] { options.output = "json"; }, "Same as -o json");
  command.add_flag("-q,--quiet", options.quiet, "Print the verdict alone");
  command.footer(kFooter);
}

int RunResidue(const ResidueOptions& options) {
  if (options.texts.empty() && options.texts_file.empty() && options.vectors.empty() &&
      options.vectors_file.empty() && options.tokens.path.empty()) {
    return Complain(absl::InvalidArgumentError("nothing to look for: --text, --texts-file, "
                                               "--vector, --vectors-file or --tokens"),
                    kUsage);
  }
  absl::StatusOr<ResidueThings> things = ReadResidueThings(options);
  if (!things.ok()) return ReadFailure(things.status());
  const absl::StatusOr<std::unique_ptr<TraceSearch>> search =
      TraceSearch::Create(std::exchange(things->things, {}));
  if (!search.ok()) return ReadFailure(search.status());
  const absl::StatusOr<Outcome> outcome = Search(**search, options);
  if (!outcome.ok()) return ReadFailure(outcome.status());
  if (options.json()) {
    PrintReport(**search, options, *things, *outcome);
  } else {
    PrintText(**search, options, *things, *outcome);
  }
  return outcome->code;
}

}  // namespace lethe::audit::cli
