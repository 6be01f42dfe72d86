// The gate that every call goes through, whatever it came in by: who is it (UNAUTHENTICATED), may
// he (PERMISSION_DENIED, or NOT_FOUND where he may not even know of the tenant), and is it on
// record. docs/adr/0043.
//
// A Call goes Enter, then Admit for each message of the request, then Finish. It is refused by
// anything but OK: nothing of the request has been looked at then, and no tenant was opened, so
// that neither the answer nor its time tells whether there is one. Enter refuses whoever could not
// be admitted whatever he asks: he gets no thread to wait for his request in.
//
// Threads: a Gate is safe, a Call compatible.
#ifndef LETHE_SERVER_ACCESS_GATE_H_
#define LETHE_SERVER_ACCESS_GATE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/program/event_log.h"
#include "server/access/access.h"
#include "server/access/credentials.h"
#include "server/access/methods.h"
#include "server/access/operations_log.h"

namespace lethe::access {

class Gate {
 public:
  // `access` null: everybody may do everything that is in the table. `operations` null: nothing is
  // recorded. All outlive the gate.
  Gate(const Access* access, OperationsLog* operations, program::EventLog* log)
      : access_(access), operations_(operations), log_(log) {}
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Whether callers are asked who they are.
  bool guarded() const { return access_ != nullptr; }

 private:
  friend class Call;
  void Record(const absl::Status& written) const;

  const Access* const access_;
  OperationsLog* const operations_;
  program::EventLog* const log_;
};

class Call {
 public:
  // `method` null: one that is not in the table; `name` is what was called then. `credentials` is
  // asked at most once, before the constructor returns, and only by a guarded gate.
  Call(const Gate& gate,
       const Method* method,
       absl::string_view name,
       std::string request_id,
       const std::function<Credentials()>& credentials);
  // An outcome that nobody told is UNKNOWN.
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // To be asked before anything of the request is read.
  absl::Status Enter();
  // To be asked for each message, with the names that stand in it (Method::tenant_field and
  // memory_field; empty without one), and whether Method::switch_field is on. The caller is asked
  // for again where what he may do has changed meanwhile, or his credentials have expired, so that
  // a long stream ends too. Before the first message of a call that is recorded its line is
  // written: UNAVAILABLE when it cannot be.
  absl::Status Admit(absl::string_view tenant, absl::string_view memory, bool switched = false);
  // Writes what became of a call that is on record. `certificate`: the id of the one that it made.
  void Finish(const absl::Status& outcome, absl::string_view certificate);

  // Whether the caller may know that there is a tenant of this name.
  bool Sees(absl::string_view tenant) const;
  // The caller, for log lines; empty while nobody is known.
  absl::string_view caller() const;

 private:
  absl::Status Authenticate();
  absl::Status Authorise(absl::string_view tenant);
  absl::Status AuthoriseFor(absl::string_view tenant, absl::string_view field, RoleSet roles);
  // One of the roles for any tenant.
  absl::Status AuthoriseSomewhere();
  absl::Status Refuse(absl::Status status, absl::string_view reason);
  bool recorded() const;

  const Gate& gate_;
  const Method* const method_;
  Operation operation_;
  Credentials credentials_;
  std::shared_ptr<const Policy> policy_;
  std::shared_ptr<const Identity> identity_;
  bool open_ = false;  // a line says that it began, and none yet how it ended
  bool began_ = false;
};

}  // namespace lethe::access

#endif  // LETHE_SERVER_ACCESS_GATE_H_
