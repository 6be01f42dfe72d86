// What forget, evict and edit share: the plan is shown first, consent is asked for, and the request
// carries an id so that it can be repeated after a lost answer.
#ifndef LETHE_CLIENT_CLI_ERASURE_H_
#define LETHE_CLIENT_CLI_ERASURE_H_

#include <string>

#include "CLI/App.hpp"
#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "client/retry.h"

namespace lethe::cli {

struct ErasureFlags {
  bool dry_run = false;
  bool yes = false;
  std::string request_id;
};

// --dry-run, --yes, --request-id.
void AddErasureFlags(CLI::App& verb, ErasureFlags& flags);

// `call` sends a request and returns its StatusOr result; `plan_text` renders the result of a dry
// run with an indent. Returns the exit status.
template <typename Request, typename Call, typename PlanText>
int RunErasure(Context& context,
               Request request,
               const ErasureFlags& flags,
               const char* question,
               const Call& call,
               const PlanText& plan_text) {
  if (flags.dry_run || !flags.yes) {
    request.dry_run = true;
    const auto plan = call(request);
    if (!plan.ok()) return context.RpcError(plan.status());
    if (flags.dry_run) {
      Print(context, ToJson(*plan), plan_text(*plan, 0));
      return kExitOk;
    }
    context.io().err << "The plan:\n" << plan_text(*plan, 2);
    if (!context.Confirm(flags.yes, question)) return kExitUsage;
    request.dry_run = false;
  }
  // With an id of its own a request can be repeated after a lost answer, by the client or by hand.
  request.request_id = flags.request_id.empty() ? client::NewRequestId() : flags.request_id;
  const auto result = call(request);
  if (!result.ok()) {
    const int status = context.RpcError(result.status());
    if (client::IsTransient(result.status()) || absl::IsDeadlineExceeded(result.status())) {
      context.Note(absl::StrCat("it may have happened; repeat it with --request-id ",
                                request.request_id, " to learn the answer"));
    }
    return status;
  }
  Print(context, ToJson(*result), RenderFields(ToFields(*result)));
  if (result->certificate_id.empty()) context.Note("nothing was changed: there is no certificate");
  return kExitOk;
}

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_ERASURE_H_
