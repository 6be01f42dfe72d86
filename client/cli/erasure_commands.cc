// `lethe erasure` and `lethe hold`.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/erasure_view.h"
#include "client/cli/exit_codes.h"
#include "client/retry.h"

namespace lethe::cli {
namespace {

struct Arguments {
  std::string id;
  std::vector<std::string> subjects;
  std::vector<std::string> sha256;
  std::vector<std::string> sha1;
  std::vector<std::string> md5;
  std::string type;
  std::string key;
  client::NewErasureRequest request;
  std::string state;
  std::string due;
  std::string reason;
  bool discard = false;
  bool all = false;
  bool yes = false;
};
using Shared = std::shared_ptr<Arguments>;

std::vector<client::Identity> IdentitiesOf(const Arguments& arguments) {
  std::vector<client::Identity> identities;
  const auto add = [&](const std::vector<std::string>& values, client::IdentityFormat format) {
    for (const std::string& value : values) {
      identities.push_back({.type = arguments.type, .format = format, .value = value});
    }
  };
  add(arguments.subjects, client::IdentityFormat::kRaw);
  add(arguments.sha256, client::IdentityFormat::kSha256);
  add(arguments.sha1, client::IdentityFormat::kSha1);
  add(arguments.md5, client::IdentityFormat::kMd5);
  return identities;
}

template <typename Result>
int PrintOne(Context& context, const absl::StatusOr<Result>& result) {
  if (!result.ok()) return context.RpcError(result.status());
  Print(context, ToJson(*result), RenderFields(ToFields(*result)));
  return kExitOk;
}

constexpr absl::string_view kNobody =
    "at least one of --subject, --sha256, --sha1 and --md5 is needed";

int Request(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  client::NewErasureRequest request = arguments.request;
  request.tenant = *tenant;
  request.identities = IdentitiesOf(arguments);
  if (request.identities.empty()) return context.UsageError(kNobody);
  client::Client client = context.client();
  if (!arguments.yes) {
    const absl::StatusOr<client::Discovery> found = client.Discover(*tenant, request.identities);
    if (!found.ok()) return context.RpcError(found.status());
    context.io().err << "It would erase, as it is now:\n" << RenderFields(ToFields(*found), 2);
    if (!context.Confirm(arguments.yes, "Ask the server to erase for good?")) return kExitUsage;
  }
  request.idempotency_key = arguments.key.empty() ? client::NewRequestId() : arguments.key;
  const absl::StatusOr<client::ErasureRequest> made = client.CreateErasureRequest(request);
  if (!made.ok() &&
      (client::IsTransient(made.status()) || absl::IsDeadlineExceeded(made.status()))) {
    context.Note(absl::StrCat("it may have been taken; repeat it with --idempotency-key ",
                              request.idempotency_key));
  }
  return PrintOne(context, made);
}

int Discover(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  const std::vector<client::Identity> identities = IdentitiesOf(arguments);
  if (identities.empty()) return context.UsageError(kNobody);
  return PrintOne(context, context.client().Discover(*tenant, identities));
}

int List(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  std::optional<client::ErasureState> state;
  if (!arguments.state.empty()) {
    const absl::StatusOr<client::ErasureState> parsed = client::ParseErasureState(arguments.state);
    if (!parsed.ok()) {
      return context.UsageError(absl::StrCat("--state: ", parsed.status().message()));
    }
    state = *parsed;
  }
  ListPrinter list(context, {{.title = "REQUEST"},
                             {.title = "STATE"},
                             {.title = "RECEIVED"},
                             {.title = "DUE"},
                             {.title = "ERASED", .right = true},
                             {.title = "HELD", .right = true}});
  client::Client client = context.client();
  for (const absl::StatusOr<client::ErasureRequest>& request :
       client.ListErasureRequests(*tenant, state)) {
    if (!request.ok()) return context.RpcError(request.status());
    list.Add(ToJson(*request),
             {request->id, std::string(client::ToText(request->state)), request->received_time,
              request->due_time, FormatCount(request->counts.erased),
              FormatCount(request->counts.held)});
  }
  list.Finish("no erasure requests");
  return kExitOk;
}

int Receipts(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  if (arguments.discard &&
      !context.Confirm(arguments.yes, "Are they stored? The server gives them no more.")) {
    return kExitUsage;
  }
  const absl::StatusOr<std::vector<client::ErasureReceipt>> receipts =
      context.client().TakeErasureReceipts(*tenant, arguments.id, arguments.discard);
  if (!receipts.ok()) return context.RpcError(receipts.status());
  ListPrinter list(context, {{.title = "CERTIFICATE"},
                             {.title = "REQUEST ID"},
                             {.title = "REQUEST SALT"},
                             {.title = "SUBJECT SALT"}});
  for (const client::ErasureReceipt& receipt : *receipts) {
    const Json json = ToJson(receipt);
    list.Add(json, {receipt.certificate_id, receipt.request_id, json["request_salt"],
                    json["subject_salt"]});
  }
  list.Finish("no certificates, and so no receipts");
  return kExitOk;
}

int ListHolds(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  ListPrinter list(context, {{.title = "HOLD"},
                             {.title = "PLACED"},
                             {.title = "RELEASED"},
                             {.title = "SUBJECT", .flexible = true},
                             {.title = "REASON", .flexible = true}});
  client::Client client = context.client();
  for (const absl::StatusOr<client::Hold>& hold : client.ListHolds(*tenant, arguments.all)) {
    if (!hold.ok()) return context.RpcError(hold.status());
    list.Add(ToJson(*hold),
             {hold->id, hold->place_time, hold->release_time, hold->subject, hold->reason});
  }
  list.Finish("no legal holds");
  return kExitOk;
}

int PlaceHold(Context& context, const Arguments& arguments) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  return PrintOne(context, context.client().PlaceHold({.tenant = *tenant,
                                                       .subject = arguments.subjects.front(),
                                                       .reason = arguments.reason,
                                                       .idempotency_key = arguments.key}));
}

// A verb about one request or hold.
template <typename Call>
int WithId(Context& context, const Arguments& arguments, const Call& call) {
  const absl::StatusOr<std::string> tenant = context.Tenant();
  if (!tenant.ok()) return context.UsageError(tenant.status().message());
  client::Client client = context.client();
  return PrintOne(context, call(client, *tenant, arguments));
}

void AddIdentityFlags(CLI::App& verb, const Shared& arguments) {
  const auto add = [&verb](const char* flag, std::vector<std::string>& into, const char* help) {
    verb.add_option(flag, into, help)->allow_extra_args(false)->type_name("TEXT");
  };
  add("--subject", arguments->subjects, "A subject; may be repeated");
  add("--sha256", arguments->sha256, "The SHA-256 of a subject, in hex");
  add("--sha1", arguments->sha1, "Its SHA-1");
  add("--md5", arguments->md5, "Its MD5");
  verb.add_option("--type", arguments->type, "What the identities are, kept and not read")
      ->type_name("WORD");
}

void AddId(CLI::App& verb, const Shared& arguments, const char* help) {
  verb.add_option("id", arguments->id, help)->required()->type_name("ID");
}

void AddRequestVerbs(CLI::App& group, Context& context, Action& action) {
  const auto add = [&](const char* name, const char* description, auto run,
                       const std::string& footer = "") {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* verb = AddVerb(group, name, description, footer);
    verb->callback([&context, &action, arguments, run] {
      action = [&context, arguments, run] { return run(context, *arguments); };
    });
    return std::pair<CLI::App*, Shared>(verb, std::move(arguments));
  };
  {
    const auto [verb, arguments] =
        add("request", "Ask for a person to be erased", Request,
            "The answer comes at once, the erasure after it; `status` tells. Without --yes\n"
            "it is shown first what would be erased; on a terminal you are then asked.");
    AddIdentityFlags(*verb, arguments);
    client::NewErasureRequest& request = arguments->request;
    verb->add_option("--source", request.source, "Who passed it on, kept for ever: a-z 0-9 . _ -")
        ->type_name("WORD");
    verb->add_option("--regulation", request.regulation, "By which law, likewise: gdpr")
        ->type_name("WORD");
    verb->add_option("--received", request.received_time, "When the person asked (default: now)")
        ->type_name("TIME");
    verb->add_option("--start", request.start_time, "Not before; can be cancelled until then")
        ->type_name("TIME");
    verb->add_option("--controller-id", request.controller_id, "The controller's name for it")
        ->type_name("ID");
    verb->add_option("--callback", request.callback_urls, "An address to be told; may be repeated")
        ->allow_extra_args(false)
        ->type_name("URL");
    verb->add_option("--idempotency-key", arguments->key,
                     "The same key again returns the first request")
        ->type_name("KEY");
    verb->add_flag("-y,--yes", arguments->yes, "Ask for it without showing first");
  }
  {
    const auto [verb, arguments] =
        add("status", "Show a request", [](Context& shown, const Arguments& given) {
          return WithId(shown, given,
                        [](client::Client& client, const std::string& tenant, const Arguments& of) {
                          return client.GetErasureRequest(tenant, of.id);
                        });
        });
    AddId(*verb, arguments, "The request");
  }
  {
    const auto [verb, arguments] = add("list", "List the requests of a tenant", List);
    verb->add_option("--state", arguments->state, "Only those in this state")->type_name("STATE");
  }
  {
    const auto [verb, arguments] = add(
        "cancel", "Cancel a request that is pending", [](Context& shown, const Arguments& given) {
          return WithId(shown, given,
                        [](client::Client& client, const std::string& tenant, const Arguments& of) {
                          return client.CancelErasureRequest(tenant, of.id);
                        });
        });
    AddId(*verb, arguments, "The request");
  }
  {
    const auto [verb, arguments] = add(
        "extend", "Give a request more time, with a reason",
        [](Context& shown, const Arguments& given) {
          return WithId(shown, given,
                        [](client::Client& client, const std::string& tenant, const Arguments& of) {
                          return client.ExtendErasureRequest(tenant, of.id, of.due, of.reason);
                        });
        },
        "At most two months beyond the first due time.");
    AddId(*verb, arguments, "The request");
    verb->add_option("--due", arguments->due, "The new due time, 2026-03-31T00:00:00Z")
        ->required()
        ->type_name("TIME");
    verb->add_option("--reason", arguments->reason, "Why; gone when the request has ended")
        ->required()
        ->type_name("TEXT");
  }
  {
    const auto [verb, arguments] =
        add("receipts", "Show the receipts of a request that has ended", Receipts,
            "They can be taken until they are discarded, and for three days.");
    AddId(*verb, arguments, "The request");
    verb->add_flag("--discard", arguments->discard,
                   "They are stored: the server destroys what they follow from");
    verb->add_flag("-y,--yes", arguments->yes, "Discard without asking");
  }
  {
    const auto [verb, arguments] = add("discover", "Show what a request would erase now", Discover);
    AddIdentityFlags(*verb, arguments);
  }
}

}  // namespace

void AddErasureCommands(CLI::App& app, Context& context, Action& action) {
  AddRequestVerbs(*AddGroup(app, "erasure", "Requests to erase a person from every memory"),
                  context, action);
  CLI::App& holds = *AddGroup(app, "hold", "Legal holds, which keep a subject's tokens");
  {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* verb = AddVerb(holds, "place", "Keep every token of a subject",
                             "Until it is released nobody can erase, edit or evict them.");
    verb->add_option("--subject", arguments->subjects, "The subject")
        ->required()
        ->expected(1)
        ->type_name("SUBJECT");
    verb->add_option("--reason", arguments->reason, "Why; sealed, and gone with the release")
        ->type_name("TEXT");
    verb->add_option("--idempotency-key", arguments->key, "The same key again: the first hold")
        ->type_name("KEY");
    verb->callback([&context, &action, arguments] {
      action = [&context, arguments] { return PlaceHold(context, *arguments); };
    });
  }
  {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* verb = AddVerb(holds, "release", "Release a hold");
    AddId(*verb, arguments, "The hold");
    verb->callback([&context, &action, arguments] {
      action = [&context, arguments] {
        return WithId(context, *arguments,
                      [](client::Client& client, const std::string& tenant, const Arguments& of) {
                        return client.ReleaseHold(tenant, of.id);
                      });
      };
    });
  }
  {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* verb = AddVerb(holds, "list", "List the holds in force");
    verb->add_flag("--all", arguments->all, "Those that were released too");
    verb->callback([&context, &action, arguments] {
      action = [&context, arguments] { return ListHolds(context, *arguments); };
    });
  }
}

}  // namespace lethe::cli
