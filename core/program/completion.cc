#include "core/program/completion.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace lethe::program {
namespace {

// ---- bash. One `case` over the path of verbs so far says which words may follow; another over
// path and previous word says which values a flag takes.

void AddNames(const std::vector<OptionView>& options, std::vector<std::string>& words) {
  for (const OptionView& option : options) {
    for (const std::string& name : option.names) {
      if (std::find(words.begin(), words.end(), name) == words.end()) words.push_back(name);
    }
  }
}

std::string BashValue(const OptionView& option) {
  switch (option.value) {
    case ValueKind::kFile:
      return "files=-f";
    case ValueKind::kFolder:
      return "files=-d";
    case ValueKind::kWords:
      return absl::StrCat("words='", absl::StrJoin(option.words, " "), "'");
    default:
      return "words=";
  }
}

struct BashCases {
  std::string words;            // case "$path" in
  std::string values;           // case "$path $before" in
  std::string verbs;            // case "$path $word" in: patterns that go one level down
  std::set<std::string> takes;  // flags that take a value, of any verb
};

void AddBash(const CommandView& command,
             const std::string& path,
             const std::vector<OptionView>& inherited,
             BashCases& cases) {
  std::vector<OptionView> options = command.options;
  options.insert(options.end(), inherited.begin(), inherited.end());
  std::vector<std::string> words;
  for (const CommandView& below : command.commands) words.push_back(below.name);
  AddNames(options, words);
  std::string files;
  for (const OptionView& argument : command.arguments) {
    if (argument.value == ValueKind::kFile) files = " files=-f";
    if (argument.value == ValueKind::kFolder && files.empty()) files = " files=-d";
    words.insert(words.end(), argument.words.begin(), argument.words.end());
  }
  absl::StrAppend(&cases.words, "    '", path, "') words='", absl::StrJoin(words, " "), "'", files,
                  " ;;\n");
  for (const OptionView& option : options) {
    if (option.value == ValueKind::kNone) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) {
      patterns.push_back(absl::StrCat("'", path, " ", name, "'"));
      cases.takes.insert(name);
    }
    absl::StrAppend(&cases.values, "    ", absl::StrJoin(patterns, "|"), ") ", BashValue(option),
                    "; value=yes ;;\n");
  }
  for (const CommandView& below : command.commands) {
    absl::StrAppend(&cases.verbs, "      '", path, " ", below.name, "') path='", path, " ",
                    below.name, "' ;;\n");
    AddBash(below, absl::StrCat(path, " ", below.name),
            inherited.empty() ? command.options : inherited, cases);
  }
}

// ---- zsh. A function a verb; _arguments does the rest.

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// Within a specification of _arguments, ':' and brackets have a meaning.
std::string ZshText(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {":", "\\:"}, {"[", "\\["}, {"]", "\\]"}});
}

std::string ZshAction(const OptionView& option) {
  switch (option.value) {
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kFolder:
      return "_files -/";
    case ValueKind::kWords:
      return absl::StrCat("(", absl::StrJoin(option.words, " "), ")");
    default:
      return "";
  }
}

void AddZshOptions(const std::vector<OptionView>& options, std::vector<std::string>& specs) {
  for (const OptionView& option : options) {
    if (option.names.back() == "--help" && !specs.empty()) continue;  // of the verb itself
    for (const std::string& name : option.names) {
      std::string spec;
      if (option.repeated) {
        spec = "*";
      } else if (option.names.size() > 1) {
        spec = absl::StrCat("(", absl::StrJoin(option.names, " "), ")");
      }
      absl::StrAppend(&spec, name, "[", ZshText(option.description), "]");
      if (option.value != ValueKind::kNone) {
        absl::StrAppend(&spec, ":", ZshText(option.placeholder), ":", ZshAction(option));
      }
      specs.push_back(Quoted(spec));
    }
  }
}

void AddZsh(const CommandView& command,
            const std::string& function,
            const std::vector<OptionView>& inherited,
            std::string& out) {
  std::vector<std::string> specs;
  AddZshOptions(command.options, specs);
  AddZshOptions(inherited, specs);
  absl::StrAppend(&out, function, "() {\n");
  if (command.commands.empty()) {
    for (const OptionView& argument : command.arguments) {
      specs.push_back(Quoted(absl::StrCat(argument.repeated ? "*" : "", ":",
                                          ZshText(argument.names[0]), ":", ZshAction(argument))));
    }
    absl::StrAppend(&out, "  _arguments -s \\\n    ", absl::StrJoin(specs, " \\\n    "), "\n}\n\n");
    return;
  }
  std::vector<std::string> verbs;
  for (const CommandView& below : command.commands) {
    verbs.push_back(Quoted(absl::StrCat(below.name, ":", ZshText(below.description))));
  }
  absl::StrAppend(&out, "  local curcontext=\"$curcontext\" state line\n  local -a verbs=(\n    ",
                  absl::StrJoin(verbs, "\n    "), "\n  )\n  _arguments -s -C \\\n    ",
                  absl::StrJoin(specs, " \\\n    "),
                  " \\\n    '1:command:->verb' '*::argument:->rest'\n"
                  "  case $state in\n    verb) _describe command verbs ;;\n"
                  "    rest)\n      case $words[1] in\n");
  for (const CommandView& below : command.commands) {
    absl::StrAppend(&out, "        ", below.name, ") ", function, "_", below.name, " ;;\n");
  }
  absl::StrAppend(&out, "      esac ;;\n  esac\n}\n\n");
  for (const CommandView& below : command.commands) {
    AddZsh(below, absl::StrCat(function, "_", below.name),
           inherited.empty() ? command.options : inherited, out);
  }
}

}  // namespace

std::string BashCompletion(const CommandView& program) {
  BashCases cases;
  AddBash(program, program.name, {}, cases);
  const std::string function = absl::StrCat("_", program.name);
  return absl::StrCat("# bash completion for ", program.name, "\n", function, R"(() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path=')",
                      program.name, R"(' words='' files='' value='' i
  local takes=' )",
                      absl::StrJoin(cases.takes, " "), R"( '
  # bash breaks a line at '=' too: "--output = js" for "--output=js".
  if [[ $word == '=' ]]; then
    word=''
  elif [[ $before == '=' && COMP_CWORD -gt 1 ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    # A value is no verb, whatever it is called.
    [[ $takes == *" ${COMP_WORDS[i-1]} "* ]] && continue
    case "$path ${COMP_WORDS[i]}" in
)",
                      cases.verbs, R"(    esac
  done
  case "$path $before" in
)",
                      cases.values, R"(  esac
  [[ $value == yes ]] || case "$path" in
)",
                      cases.words, R"(  esac
  COMPREPLY=()
  if [[ -n $files && ($value == yes || $word != -*) ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$files" -- "$word")
  elif [[ $value == yes || $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    # Flags only when somebody began one.
    mapfile -t COMPREPLY < <(compgen -W "$words" -X '-*' -- "$word")
  fi
}
complete -F )",
                      function, " ", program.name, "\n");
}

std::string ZshCompletion(const CommandView& program) {
  std::string out =
      absl::StrCat("#compdef ", program.name, "\n# zsh completion for ", program.name, "\n\n");
  const std::string function = absl::StrCat("_", program.name);
  AddZsh(program, function, {}, out);
  // Loaded by the completion system the file is the function's body; sourced, it registers it.
  absl::StrAppend(&out, "if [ \"$funcstack[1]\" = ", function, " ]; then\n  ", function,
                  " \"$@\"\nelse\n  compdef ", function, " ", program.name, "\nfi\n");
  return out;
}

}  // namespace lethe::program
