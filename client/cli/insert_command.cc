#include <algorithm>
#include <deque>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/exit_codes.h"
#include "client/cli/input_file.h"
#include "client/cli/progress.h"
#include "client/cli/render.h"

namespace lethe::cli {
namespace {

constexpr uint64_t kMaxNamedFaults = 20;

struct Arguments {
  InputFileOptions input;
  std::vector<std::string> tokens;
  uint32_t batch = 200;
  std::string on_error = "stop";
  std::string missing = "error";
};

// The lines of tokens that are under way, so that a rejection can name its line.
class LinesUnderWay {
 public:
  void Push(uint64_t line) { lines_.push_back(line); }
  uint64_t LineOf(uint64_t index) const {
    const uint64_t place = index - first_;
    return index >= first_ && place < lines_.size() ? lines_[place] : 0;
  }
  void DropBefore(uint64_t index) {
    for (; first_ < index && !lines_.empty(); ++first_) lines_.pop_front();
  }

 private:
  uint64_t first_ = 0;
  std::deque<uint64_t> lines_;
};

// "tokens[3].key[1]" without the place in a batch, which says nothing to the reader of a file.
std::string FieldOf(const client::ItemError& error) {
  const size_t dot = error.field.find("].");
  return error.field.rfind("tokens[", 0) == 0 && dot != std::string::npos
             ? error.field.substr(dot + 2)
             : error.field;
}

class Import {
 public:
  Import(Context& context, const Arguments& arguments, InputFile& input)
      : context_(context),
        stop_on_error_(arguments.on_error == "stop"),
        skip_missing_(arguments.missing == "skip"),
        input_(input),
        progress_(context.io().err,
                  context.io().err_is_terminal && !context.globals.quiet,
                  input.size()) {}

  int Run(const client::MemoryName& name, size_t batch) {
    client::InsertWriterOptions options;
    options.batch_tokens = batch;
    options.max_kept_rejections = 0;
    options.on_rejection = [this](const client::RejectedToken& token) {
      const uint64_t line = lines_.LineOf(token.index);
      const std::string field = FieldOf(token.error);
      Fault(absl::StrCat("line ", line, ": rejected: ", field, field.empty() ? "" : ": ",
                         token.error.message));
    };
    options.on_progress = [this](const client::InsertProgress& totals) {
      lines_.DropBefore(totals.acknowledged);
      progress_.Update(input_.source().consumed(), totals.acknowledged);
    };
    client::Client client = context_.client();
    const std::unique_ptr<client::InsertWriter> writer = client.WriteTokens(name, options);
    absl::Status status = Pump(*writer);
    if (status.ok()) status = writer->Close().status();
    progress_.Wipe();
    if (named_faults_ > kMaxNamedFaults) {
      context_.Note(
          absl::StrCat(FormatCount(named_faults_ - kMaxNamedFaults), " more lines were refused"));
    }
    PrintSummary(writer->summary().totals, writer->summary().state);
    if (!status.ok()) return context_.RpcError(status);
    if (!failure_.empty()) return context_.FileError(failure_);
    if (stopped_) {
      return context_.FileError(
          absl::StrCat(input_.name(), ": stopped at the first bad line; --on-error skip goes on"));
    }
    return kExitOk;
  }

 private:
  absl::Status Pump(client::InsertWriter& writer) {
    while (!stopped_) {
      TokenSource::Item item = input_.source().Next();
      switch (item.kind) {
        case TokenSource::Kind::kEnd:
          return absl::OkStatus();
        case TokenSource::Kind::kFailed:
          failure_ = absl::StrCat(input_.name(), ": ", item.message);
          return absl::OkStatus();
        case TokenSource::Kind::kMissing:
          if (skip_missing_) {
            ++skipped_;
            break;
          }
          [[fallthrough]];
        case TokenSource::Kind::kBadLine:
          ++bad_lines_;
          Fault(item.message);
          break;
        case TokenSource::Kind::kToken:
          lines_.Push(item.line);
          if (absl::Status status = writer.Write(std::move(item.token)); !status.ok()) {
            return status;
          }
          break;
      }
    }
    return absl::OkStatus();
  }

  void Fault(const std::string& message) {
    if (stop_on_error_) stopped_ = true;
    if (++named_faults_ > kMaxNamedFaults) return;
    progress_.Wipe();
    context_.io().err << "lethe: " << input_.name() << ": " << message << "\n";
  }

  void PrintSummary(const client::InsertProgress& totals, const client::StateAfter& state) {
    const double seconds = absl::ToDoubleSeconds(progress_.elapsed());
    const double rate = static_cast<double>(totals.acknowledged) / std::max(seconds, 1e-9);
    Fields fields = {{"inserted", FormatCount(totals.inserted)},
                     {"unchanged", FormatCount(totals.unchanged)},
                     {"rejected", FormatCount(totals.rejected)}};
    if (bad_lines_ > 0) fields.push_back({"bad lines", FormatCount(bad_lines_)});
    if (skipped_ > 0) fields.push_back({"missing, skipped", FormatCount(skipped_)});
    if (totals.resumed > 0) fields.push_back({"resumed", FormatCount(totals.resumed)});
    fields.push_back({"tokens per second", FormatCount(static_cast<uint64_t>(rate))});
    Json json = {{"inserted", totals.inserted}, {"unchanged", totals.unchanged},
                 {"rejected", totals.rejected}, {"bad_lines", bad_lines_},
                 {"missing_skipped", skipped_}, {"resumed", totals.resumed},
                 {"seconds", seconds},          {"tokens_per_second", rate}};
    if (state.verdict != client::Verdict::kUnspecified) {
      fields.push_back({"partition", Text(state.partition)});
      fields.push_back({"verdict", Text(state.verdict)});
      json["partition"] = ToJson(state.partition);
      json["verdict"] = Text(state.verdict);
    }
    Print(context_, json, RenderFields(fields));
  }

  Context& context_;
  const bool stop_on_error_;
  const bool skip_missing_;
  InputFile& input_;
  Progress progress_;
  LinesUnderWay lines_;
  uint64_t bad_lines_ = 0;
  uint64_t skipped_ = 0;
  uint64_t named_faults_ = 0;
  bool stopped_ = false;
  std::string failure_;
};

// What the command line itself holds, in one call: all of it is judged before the answer.
int InsertTokens(Context& context, const client::MemoryName& name, const Arguments& arguments) {
  std::vector<client::Token> tokens;
  for (size_t i = 0; i < arguments.tokens.size(); ++i) {
    std::istringstream text(arguments.tokens[i]);
    const std::unique_ptr<TokenSource> source = OpenNdjson(text);
    TokenSource::Item item = source->Next();
    if (item.kind == TokenSource::Kind::kToken && source->Next().kind == TokenSource::Kind::kEnd) {
      tokens.push_back(std::move(item.token));
      continue;
    }
    return context.UsageError(
        absl::StrCat("--token number ", i + 1, ": ",
                     item.message.empty() ? "must be one JSON object" : item.message));
  }
  const absl::StatusOr<client::InsertResult> result = context.client().Insert(name, tokens);
  if (!result.ok()) return context.RpcError(result.status());
  Json ids = Json::array();
  for (size_t i = 0; i < result->tokens.size(); ++i) {
    const client::InsertedToken& token = result->tokens[i];
    ids.push_back(token.id);
    if (token.outcome != client::InsertOutcome::kRejected) continue;
    context.io().err << "lethe: --token number " << i + 1 << ": rejected: " << FieldOf(token.error)
                     << ": " << token.error.message << "\n";
  }
  Print(context,
        {{"inserted", result->inserted},
         {"unchanged", result->unchanged},
         {"rejected", result->rejected},
         {"ids", std::move(ids)}},
        RenderFields({{"inserted", FormatCount(result->inserted)},
                      {"unchanged", FormatCount(result->unchanged)},
                      {"rejected", FormatCount(result->rejected)}}));
  return result->rejected == 0 ? kExitOk : context.FileError("a token was rejected");
}

int Insert(Context& context, const Arguments& arguments) {
  const absl::StatusOr<client::MemoryName> name = context.Memory();
  if (!name.ok()) return context.UsageError(name.status().message());
  if (arguments.tokens.empty() == arguments.input.path.empty()) {
    return context.UsageError("either --token or --file is required");
  }
  if (!arguments.tokens.empty()) return InsertTokens(context, *name, arguments);
  const absl::StatusOr<std::unique_ptr<InputFile>> input =
      InputFile::Open(context, arguments.input);
  if (!input.ok()) return ReportOpenError(context, input.status());
  return Import(context, arguments, **input).Run(*name, arguments.batch);
}

}  // namespace

void AddInsertCommand(CLI::App& app, Context& context, Action& action) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = AddVerb(
      app, "insert", "Insert tokens, streamed from a CSV or NDJSON file",
      "NDJSON, an object a line:\n"
      "  "
      "{\"id\":\"v1\",\"key\":[0.1,0.2],\"value\":[4],\"subject\":\"p1\",\"labels\":{\"a\":\"b\"}}"
      "\n"
      "and, where wanted, \"payload\": a text of yours that is kept with the token.\n"
      "Inserting the same file again changes nothing when its tokens have ids; those\n"
      "without get one that is made up.");
  AddInputFileOptions(*verb, arguments->input, /*for_tokens=*/true);
  verb->add_option("--token", arguments->tokens,
                   "A token as such an object; may be repeated, for one call")
      ->allow_extra_args(false)
      ->type_name("JSON");
  TakesWords(verb->add_option("--missing", arguments->missing,
                              "At a row without a number, empty or NA (default error)"),
             {"error", "skip"});
  TakesWords(verb->add_option("--on-error", arguments->on_error,
                              "At a bad line or a rejected token (default stop)"),
             {"stop", "skip"});
  verb->add_option("--batch", arguments->batch, "Tokens in a message (default 200)")
      ->check([](const std::string& text) {
        const int value = std::atoi(text.c_str());
        return value >= 1 && value <= 10000 ? std::string() : "must be in 1 to 10000";
      })
      ->type_name("N");
  verb->callback([&context, &action, arguments] {
    action = [&context, arguments] { return Insert(context, *arguments); };
  });
}

}  // namespace lethe::cli
