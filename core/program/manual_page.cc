#include "core/program/manual_page.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace lethe::program {
namespace {

// A text line: what roff would read as an escape or a request is taken from it.
std::string Roff(const std::string& text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"},
                                               {"-", "\\-"},
                                               {"~", "\\(ti"},
                                               {"^", "\\(ha"},
                                               {"`", "\\(ga"},
                                               {"\"", "\\(dq"}});
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return absl::StrReplaceAll(out, {{"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
}

std::string Bold(const std::string& text) { return absl::StrCat("\\fB", Roff(text), "\\fR"); }
std::string Italic(const std::string& text) { return absl::StrCat("\\fI", Roff(text), "\\fR"); }

void AddOptions(const std::vector<OptionView>& options, std::string& out) {
  for (const OptionView& option : options) {
    std::vector<std::string> names;
    for (const std::string& name : option.names) names.push_back(Bold(name));
    absl::StrAppend(&out, ".TP\n", absl::StrJoin(names, ", "),
                    option.placeholder.empty() ? "" : " ",
                    option.placeholder.empty() ? "" : Italic(option.placeholder), "\n",
                    Roff(option.description), "\n");
  }
}

std::string Arguments(const CommandView& command) {
  std::string out;
  for (const OptionView& argument : command.arguments) {
    std::string word = Italic(absl::AsciiStrToUpper(argument.names[0]));
    if (argument.repeated) word += "...";
    absl::StrAppend(&out, " ", argument.required ? word : absl::StrCat("[", word, "]"));
  }
  return out;
}

// Footers are set by hand for terminals; blank lines end a paragraph, the lines of one are joined.
void AddFooter(const std::string& footer, std::string& out) {
  if (footer.empty()) return;
  bool first = true;
  for (const absl::string_view paragraph : absl::StrSplit(footer, "\n\n")) {
    absl::StrAppend(&out, first ? "" : ".PP\n", Roff(std::string(paragraph)), "\n");
    first = false;
  }
}

void AddCommands(const CommandView& command, const std::string& path, std::string& out) {
  for (const CommandView& below : command.commands) {
    const std::string full = absl::StrCat(path, " ", below.name);
    if (!below.commands.empty()) {
      AddCommands(below, full, out);
      continue;
    }
    absl::StrAppend(&out, ".SS ", Roff(full), "\n", Bold(full),
                    below.options.size() > 1 ? " [options]" : "", Arguments(below), "\n.PP\n",
                    Roff(below.description), ".\n");
    if (!below.footer.empty()) {
      absl::StrAppend(&out, ".PP\n");
      AddFooter(below.footer, out);
    }
    std::vector<OptionView> arguments = below.arguments;
    for (OptionView& argument : arguments) {
      argument.names = {absl::AsciiStrToUpper(argument.names[0])};
      argument.placeholder.clear();
    }
    AddOptions(arguments, out);
    std::vector<OptionView> options;
    for (const OptionView& option : below.options) {
      if (option.names.back() != "--help") options.push_back(option);
    }
    AddOptions(options, out);
  }
}

}  // namespace

std::string RenderManualPage(const ManualPage& page, const CommandView& program) {
  // No date: the same sources give the same page.
  std::string out = absl::StrCat(
      ".\\\" Made from the program's own options; do not edit.\n.TH ",
      absl::AsciiStrToUpper(program.name), " ", page.section, " \"\" \"lethe ", page.version,
      "\" \"Lethe\"\n.nh\n.ad l\n.SH NAME\n", program.name, " \\- ", Roff(page.summary),
      "\n.SH SYNOPSIS\n", Bold(program.name), " [options]",
      program.commands.empty() ? "" : " command [options] [arguments]", "\n.SH DESCRIPTION\n");
  for (size_t i = 0; i < page.description.size(); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ".PP\n", Roff(page.description[i]), "\n");
  }
  absl::StrAppend(&out, ".SH OPTIONS\n");
  AddOptions(program.options, out);
  if (!program.commands.empty()) {
    absl::StrAppend(&out, ".SH COMMANDS\n");
    AddCommands(program, program.name, out);
  }
  for (const ManualPage::Section& section : page.sections) {
    absl::StrAppend(&out, ".SH ", absl::AsciiStrToUpper(section.title), "\n");
    bool first = true;
    for (const auto& [term, text] : section.entries) {
      if (term.empty()) {
        absl::StrAppend(&out, first ? "" : ".PP\n", Roff(text), "\n");
      } else {
        absl::StrAppend(&out, ".TP\n", Bold(term), "\n", Roff(text), "\n");
      }
      first = false;
    }
  }
  return out;
}

}  // namespace lethe::program
