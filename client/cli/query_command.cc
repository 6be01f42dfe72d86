#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/input_file.h"
#include "client/cli/numbers.h"
#include "client/cli/render.h"

namespace lethe::cli {
namespace {

constexpr size_t kBatch = 500;
constexpr size_t kMostLocal = 1024;
constexpr int kShownDigits = 6;

struct Arguments {
  InputFileOptions input;
  std::vector<std::string> keys;
  uint32_t top = 0;
  std::string local;
  double scale = 0.0;  // 0: not given
  double gate = 0.0;   // likewise
};

std::string Numbers(const std::vector<double>& values) {
  return absl::StrJoin(values, " ", [](std::string* out, double value) {
    out->append(FormatNumber(value, kShownDigits));
  });
}

class Asker {
 public:
  // `request` without queries.
  Asker(Context& context, client::QueryRequest request)
      : context_(context), top_(request.top_tokens), request_(std::move(request)) {}

  // Exit status; asks the server with every full batch.
  int Add(std::vector<double> key) {
    request_.queries.push_back(std::move(key));
    return request_.queries.size() >= kBatch ? Ask() : kExitOk;
  }

  // Exit status; streams the queries of a file.
  int AskFrom(InputFile& input) {
    std::string failure;
    const absl::Status status = context_.client().QueryStreamed(
        [&] { return failure.empty() ? Gather(input.source(), failure) : std::nullopt; },
        [this](const client::QueryResult& result) {
          Show(result);
          return absl::OkStatus();
        });
    if (!status.ok()) return context_.RpcError(status);
    if (failure.empty()) return kExitOk;
    return context_.FileError(absl::StrCat(input.name(), ": ", failure));
  }

  int Finish() {
    if (!request_.queries.empty()) {
      if (const int status = Ask(); status != kExitOk) return status;
    }
    if (context_.globals.output == OutputFormat::kJson) {
      context_.io().out << Dump(array_, 2) << "\n";
    }
    return kExitOk;
  }

 private:
  int Ask() {
    const absl::StatusOr<client::QueryResult> result = context_.client().Query(request_);
    if (!result.ok()) return context_.RpcError(result.status());
    if (result->answers.size() != request_.queries.size()) {
      return context_.RpcError(absl::InternalError("another number of answers than queries"));
    }
    request_.queries.clear();
    Show(*result);
    return kExitOk;
  }

  // Up to a batch of the file's queries; nothing at its end, or at what it reports in `failure`.
  std::optional<client::QueryRequest> Gather(TokenSource& source, std::string& failure) const {
    client::QueryRequest batch = request_;
    while (batch.queries.size() < kBatch) {
      TokenSource::Item item = source.Next();
      if (item.kind == TokenSource::Kind::kEnd) break;
      if (item.kind != TokenSource::Kind::kToken) {
        failure = item.message;
        return std::nullopt;
      }
      batch.queries.push_back(std::move(item.token.key));
    }
    if (batch.queries.empty()) return std::nullopt;
    return batch;
  }

  void Show(const client::QueryResult& result) {
    if (context_.globals.output == OutputFormat::kTable) {
      context_.io().out << RenderTable(result.answers);
    } else {
      for (const client::QueryAnswer& answer : result.answers) PrintJson(answer);
    }
    asked_ += result.answers.size();
  }

  void PrintJson(const client::QueryAnswer& answer) {
    if (context_.globals.output == OutputFormat::kJson) {
      array_.push_back(ToJson(answer));
    } else {
      context_.io().out << Dump(ToJson(answer)) << "\n";
    }
  }

  std::string RenderTable(const std::vector<client::QueryAnswer>& answers) const {
    std::vector<Column> columns = {{.title = "QUERY", .right = true},
                                   {.title = "READOUT", .flexible = true},
                                   {.title = "DECISION", .right = true},
                                   {.title = "POSITION"}};
    if (top_ > 0) columns.push_back({.title = "TOKENS (SHARE)", .flexible = true});
    Table table(columns);
    for (size_t i = 0; i < answers.size(); ++i) {
      const client::QueryAnswer& answer = answers[i];
      std::vector<std::string> row = {
          FormatCount(asked_ + i), Numbers(answer.readout),
          answer.decision.has_value() ? FormatNumber(*answer.decision, kShownDigits) : "",
          absl::AsciiStrToLower(client::ToString(answer.position))};
      if (top_ == 0) {
        table.AddRow(std::move(row));
        continue;
      }
      // The first token beside the answer, the others below.
      row.push_back("");
      for (size_t t = 0; t == 0 || t < answer.tokens.size(); ++t) {
        if (t < answer.tokens.size()) {
          row.back() =
              absl::StrCat(answer.tokens[t].id, " (", FormatNumber(answer.tokens[t].share, 3), ")");
        }
        table.AddRow(row);
        row = {" ", " ", " ", " ", ""};
      }
    }
    return table.Render();
  }

  Context& context_;
  const uint32_t top_;
  client::QueryRequest request_;
  uint64_t asked_ = 0;
  Json array_ = Json::array();
};

int AskFile(Context& context, const Arguments& arguments, Asker& asker) {
  const absl::StatusOr<std::unique_ptr<InputFile>> input =
      InputFile::Open(context, arguments.input);
  if (!input.ok()) return ReportOpenError(context, input.status());
  return asker.AskFrom(**input);
}

// Exit status; reads the keys and values beside the memory.
int ReadLocal(Context& context, const Arguments& arguments, client::LocalChunk& local) {
  const absl::StatusOr<std::unique_ptr<InputFile>> input =
      InputFile::Open(context, {.path = arguments.local, .format = "ndjson"});
  if (!input.ok()) return ReportOpenError(context, input.status());
  while (true) {
    TokenSource::Item item = (*input)->source().Next();
    if (item.kind == TokenSource::Kind::kEnd) break;
    if (item.kind != TokenSource::Kind::kToken) {
      return context.FileError(absl::StrCat((*input)->name(), ": ", item.message));
    }
    if (local.keys.size() == kMostLocal) {
      return context.FileError(
          absl::StrCat((*input)->name(), ": has more than ", kMostLocal, " lines"));
    }
    local.keys.push_back(std::move(item.token.key));
    local.values.push_back(std::move(item.token.value));
  }
  if (arguments.scale != 0.0) local.scale = arguments.scale;
  if (arguments.gate != 0.0) local.gate = arguments.gate;
  return kExitOk;
}

int Query(Context& context, const Arguments& arguments) {
  const absl::StatusOr<client::MemoryName> name = context.Memory();
  if (!name.ok()) return context.UsageError(name.status().message());
  if (arguments.keys.empty() == arguments.input.path.empty()) {
    return context.UsageError("either --key or --file is needed");
  }
  client::QueryRequest request{.name = *name, .top_tokens = arguments.top};
  if (!arguments.local.empty()) {
    const int status = ReadLocal(context, arguments, request.local.emplace());
    if (status != kExitOk) return status;
  }
  Asker asker(context, std::move(request));
  std::vector<std::vector<double>> keys;
  for (size_t i = 0; i < arguments.keys.size(); ++i) {
    absl::StatusOr<std::vector<double>> key = ParseVector(arguments.keys[i]);
    if (!key.ok()) {
      return context.UsageError(absl::StrCat("--key number ", i + 1, key.status().message()));
    }
    keys.push_back(*std::move(key));
  }
  for (std::vector<double>& key : keys) {
    if (const int status = asker.Add(std::move(key)); status != kExitOk) return status;
  }
  if (!arguments.input.path.empty()) {
    if (const int status = AskFile(context, arguments, asker); status != kExitOk) return status;
  }
  return asker.Finish();
}

}  // namespace

void AddQueryCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = AddVerb(app, "query", "Ask for kernel-weighted averages");
  verb->add_option("-k,--key", arguments->keys, "A query, such as 1,2.5,-3; may be repeated")
      ->allow_extra_args(false)
      ->type_name("1,2,...");
  AddInputFileOptions(*verb, arguments->input, /*for_tokens=*/false);
  verb->add_option("--top", arguments->top,
                   "Also show the N tokens that carried most of the answer")
      ->check([](const std::string& text) {
        const int value = std::atoi(text.c_str());
        return value >= 0 && value <= 1000 ? std::string() : "must be in 0 to 1000";
      })
      ->type_name("N");
  CLI::Option* local =
      verb->add_option("--local", arguments->local,
                       "Keys and values beside the memory, NDJSON: gated softmax over both")
          ->type_name("PATH");
  verb->add_option("--scale", arguments->scale,
                   "Of its logits (default: 1 / sqrt of the key's dimension)")
      ->check(CLI::PositiveNumber)
      ->needs(local)
      ->type_name("X");
  verb->add_option("--gate", arguments->gate, "Factor of the memory's weights (default: 1)")
      ->check(CLI::PositiveNumber)
      ->needs(local)
      ->type_name("X");
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Query(context, *arguments); };
  });
}

}  // namespace lethe::cli
