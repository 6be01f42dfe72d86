// What the tests of the service share: a data folder that goes away, a service over it, a store
// that can be told to fail or to wait, small problems.
#ifndef LETHE_TESTS_SERVER_SERVICE_TESTING_H_
#define LETHE_TESTS_SERVER_SERVICE_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "audit/certificate.h"
#include "core/program/event_log.h"
#include "server/service/service.h"
#include "store/tenant_store.h"

namespace lethe::service {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// "code: message", for readable failures.
std::string Describe(const absl::Status& status);

MATCHER(IsOk, "is OK") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << Describe(status);
  return status.ok();
}

// The code, and a message that begins with this field and a colon.
MATCHER_P2(Fails, code, field, "") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << Describe(status);
  const std::string message(status.message());
  return status.code() == code && message.rfind(std::string(field) + ":", 0) == 0;
}

MATCHER_P(HasCode, code, "") {
  const absl::Status& status = StatusOf(arg);
  *result_listener << Describe(status);
  return status.code() == code;
}

inline constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
inline constexpr absl::StatusCode kNotFound = absl::StatusCode::kNotFound;
inline constexpr absl::StatusCode kExists = absl::StatusCode::kAlreadyExists;

// A door that a store operation waits at.
class Door {
 public:
  void WaitHere() {
    std::unique_lock<std::mutex> lock(mutex_);
    arrived_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitUntilSomebodyWaits() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return arrived_; });
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool arrived_ = false;
  bool open_ = false;
};

// Called before each changing call of a store goes on; anything but OK is returned instead of the
// call. `after` is called when the call has been made, and can replace its status.
struct StoreHooks {
  std::function<absl::Status(const std::string& operation)> before;
  std::function<absl::Status(const std::string& operation, const absl::Status& status)> after;
};

// Puts the hooks around a store. They are looked at each time, so they can change later.
std::unique_ptr<store::TenantStore> Hooked(std::unique_ptr<store::TenantStore> inner,
                                           std::shared_ptr<StoreHooks> hooks);

// A service over its own folder, with a tenant "t". Restart closes it and opens the folder again.
class Harness {
 public:
  explicit Harness(bool with_tenant = true);

  // Changes take effect with Restart.
  ServiceOptions& options() { return options_; }
  StoreHooks& hooks() { return *hooks_; }
  const std::string& data() const { return options_.data; }
  void Stop() { service_.reset(); }
  void Restart();

  Service& operator*() { return *service_; }
  Service* operator->() { return service_.get(); }

  // Makes a memory of tenant "t" with an rbf kernel (gamma 0.5), keys in R^2, values in R^1.
  void MakeMemory(const std::string& name, double capacity = 3);
  InsertReply Insert(const std::string& memory, std::vector<TokenInput> tokens);
  ForgetReply Forget(const std::string& memory, std::vector<std::string> ids);
  std::string Digest(const std::string& memory);

 private:
  TempDir folder_;
  std::shared_ptr<StoreHooks> hooks_ = std::make_shared<StoreHooks>();
  program::EventLog log_{-1, program::LogLevel::kError};
  ServiceOptions options_;
  std::unique_ptr<Service> service_;
};

MemoryConfig SmallConfig(double capacity = 3);

// A token with a key on a grid of 1/8, so that equal keys do occur.
TokenInput RandomToken(std::mt19937_64& random, const std::string& id);
TokenInput MakeToken(const std::string& id, double x, double y, double value = 1.0);
// Ids "a0", "a1", ... with distinct keys on a spiral.
std::vector<TokenInput> Spiral(int count, const std::string& prefix = "a");

ForgetInput ForgetOf(const std::string& memory, std::vector<std::string> ids);
ForgetInput ForgetSubjectOf(const std::string& memory, const std::string& subject);
ForgetInput ForgetAllOf(const std::string& memory);
EvictInput EvictOf(const std::string& memory, uint64_t budget, const std::string& request_id = "");
EditInput EditOf(const std::string& memory,
                 std::vector<TokenInput> tokens,
                 const std::string& request_id = "");

uint64_t Total(const svdd::PartitionCounts& partition);

// Verifies the whole log of tenant "t" with its published key and returns the statements.
std::vector<audit::CertificateBody> VerifiedLog(Harness& service);
// VerifiedLog without the certificates about destroyed keys. Expects that each erasure is followed
// by exactly one of them that covers it, and that each of them covers an erasure or ends an epoch.
std::vector<audit::CertificateBody> ErasureLog(Harness& service);

// How many tokens a memory holds.
uint64_t Tokens(Harness& service, const std::string& memory);
// Makes `operation` fail with `status`, once, before it reaches the store.
void FailOnce(Harness& service, const std::string& operation, const absl::Status& status);
// Lets `operation` reach the store, once, and then reports a failed COMMIT all the same.
void LieOnce(Harness& service, const std::string& operation);

// Whether any file of the data folder holds these bytes.
bool FilesHold(const Harness& service, const std::string& bytes);

// A copy of the files of tenant "t" as a thief of the data, or a backup, has them: without keys.
class StolenRows {
 public:
  explicit StolenRows(Harness& service);
  // Which of these ids of a memory can be read in the copy with the keys of today. The service is
  // restarted, since it alone opens its vault.
  std::set<std::string> Readable(const std::string& memory, const std::vector<std::string>& ids);
  // Whether the personal part of this erasure request or hold can be read, likewise.
  bool CaseIsReadable(const std::string& id);

 private:
  void WithStore(const std::function<void(store::TenantStore& store)>& look);
  Harness* service_;
  TempDir folder_;
};

}  // namespace lethe::service

#endif  // LETHE_TESTS_SERVER_SERVICE_TESTING_H_
