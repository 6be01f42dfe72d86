#include "core/program/command_tree.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace lethe::program {
namespace {

OptionView ViewOf(const CLI::Option& option) {
  OptionView view;
  view.description = option.get_description();
  view.required = option.get_required();
  view.repeated = option.get_items_expected_max() > 1;
  if (option.nonpositional()) {
    for (const std::string& name : option.get_snames()) view.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) view.names.push_back("--" + name);
    if (option.get_items_expected_max() == 0) return view;  // a flag
  } else {
    view.names.push_back(option.get_name(/*positional=*/true));
  }
  view.placeholder = option.get_type_name();
  const std::string& kind = view.placeholder;
  // An argument has no placeholder where its name says enough.
  const bool named = kind.empty() && !option.nonpositional();
  view.value = ValueKind::kAny;
  if (kind == "FILE" || kind == "PATH" || (named && absl::StrContains(view.names[0], "file"))) {
    view.value = ValueKind::kFile;
  } else if (kind == "DIR" || (named && view.names[0] == "dir")) {
    view.value = ValueKind::kFolder;
  } else if (kind.find('|') != std::string::npos) {
    view.value = ValueKind::kWords;
    view.words = absl::StrSplit(kind, '|');
  }
  return view;
}

}  // namespace

CommandView ViewOf(const CLI::App& app, const std::string& inherited_footer) {
  CommandView view;
  view.name = app.get_name();
  view.description = app.get_description();
  view.footer = app.get_footer();
  if (!inherited_footer.empty()) {
    if (const size_t at = view.footer.find(inherited_footer); at != std::string::npos) {
      view.footer.resize(at);
    }
  }
  view.footer = std::string(absl::StripAsciiWhitespace(view.footer));
  for (const CLI::Option* option :
       app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); })) {
    (option->nonpositional() ? view.options : view.arguments).push_back(ViewOf(*option));
  }
  for (const CLI::App* command :
       app.get_subcommands([](const CLI::App* a) { return !a->get_group().empty(); })) {
    view.commands.push_back(ViewOf(*command, inherited_footer));
  }
  return view;
}

}  // namespace lethe::program
