#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "client/cli/commands.h"
#include "client/cli/erasure.h"
#include "client/cli/input_file.h"

namespace lethe::cli {
namespace {

// Of one request, and so of one change.
constexpr size_t kMaxTokens = 10000;

struct Arguments {
  InputFileOptions input;
  ErasureFlags flags;
};

struct Tokens {
  std::vector<client::Token> tokens;
  std::vector<uint64_t> lines;  // where each stands in the file
};

std::string PlanText(const client::EditResult& plan, size_t indent) {
  return RenderFields({{"would edit", FormatCount(plan.edited)},
                       {"unchanged", FormatCount(plan.unchanged)},
                       {"partition now", Text(plan.before)},
                       {"partition after", Text(plan.after)}},
                      indent);
}

// All of the file or nothing: an edit is one change. DATA_LOSS names the first bad line.
absl::StatusOr<Tokens> ReadAll(InputFile& input) {
  const auto bad = [&input](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(input.name(), ": ", what));
  };
  Tokens read;
  for (;;) {
    TokenSource::Item item = input.source().Next();
    if (item.kind == TokenSource::Kind::kEnd) break;
    if (item.kind != TokenSource::Kind::kToken) return bad(item.message);
    if (item.token.id.empty()) return bad(absl::StrCat("line ", item.line, ": there is no id"));
    if (read.tokens.size() == kMaxTokens) {
      return bad("more than 10,000 tokens; an edit is one change");
    }
    read.tokens.push_back(std::move(item.token));
    read.lines.push_back(item.line);
  }
  if (read.tokens.empty()) return bad("there are no tokens");
  return read;
}

// "tokens[3].key[1]: ..." as the server says it -> "FILE: line 5: key[1]: ...".
absl::Status WithLine(const absl::Status& status,
                      const std::string& file,
                      const std::vector<uint64_t>& lines) {
  constexpr absl::string_view kPrefix = "tokens[";
  const absl::string_view message = status.message();
  const size_t close = message.find("].");
  size_t index = 0;
  if (!absl::StartsWith(message, kPrefix) || close == absl::string_view::npos ||
      !absl::SimpleAtoi(message.substr(kPrefix.size(), close - kPrefix.size()), &index) ||
      index >= lines.size()) {
    return status;
  }
  return absl::Status(status.code(),
                      absl::StrCat(file, ": line ", lines[index], ": ", message.substr(close + 2)));
}

int Edit(Context& context, const Arguments& arguments) {
  const absl::StatusOr<client::MemoryName> name = context.Memory();
  if (!name.ok()) return context.UsageError(name.status().message());
  const absl::StatusOr<std::unique_ptr<InputFile>> input =
      InputFile::Open(context, arguments.input);
  if (!input.ok()) return ReportOpenError(context, input.status());
  if (arguments.input.path == "-" && !arguments.flags.yes && !arguments.flags.dry_run) {
    return context.UsageError("with --file - you cannot be asked; give --yes or --dry-run");
  }
  absl::StatusOr<Tokens> read = ReadAll(**input);
  if (!read.ok()) return context.FileError(read.status().message());
  client::Client client = context.client();
  client::EditRequest request{.name = *name, .tokens = std::move(read->tokens)};
  return RunErasure(
      context, std::move(request), arguments.flags, "Replace the content for good?",
      [&](const client::EditRequest& edit) -> absl::StatusOr<client::EditResult> {
        absl::StatusOr<client::EditResult> result = client.Edit(edit);
        if (!result.ok()) return WithLine(result.status(), (*input)->name(), read->lines);
        return result;
      },
      PlanText);
}

}  // namespace

void AddEditCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      AddVerb(app, "edit", "Give tokens new content under their ids, exactly",
              "The file is as for insert; every line needs an id that is there, and states\n"
              "the whole new content. All lines are one change, with one certificate: the\n"
              "memory then is one that never saw the old content and got the new one last.\n"
              "Without --yes the plan is shown first; on a terminal you are then asked.");
  AddInputFileOptions(*verb, arguments->input, /*for_tokens=*/true)->required();
  AddErasureFlags(*verb, arguments->flags);
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Edit(context, *arguments); };
  });
}

}  // namespace lethe::cli
