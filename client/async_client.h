// Calls that do not wait: each runs in a thread of a small pool and answers a std::future.
//
//     AsyncClient async(client);
//     std::future<absl::StatusOr<QueryAnswer>> answer =
//         async.Run([&](Client& c) { return c.Query(visits, key); });
//
// Any call of Client can be run so, over any Connection, mocks included, with the same retries and
// deadlines. A call occupies its thread while it runs: for thousands at a time send batches, or use
// the streams. Threads: safe; the destructor waits for what runs.
#ifndef LETHE_CLIENT_ASYNC_CLIENT_H_
#define LETHE_CLIENT_ASYNC_CLIENT_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/client.h"
#include "core/base/mutex.h"

namespace lethe::client {

struct AsyncClientOptions {
  size_t threads = 8;          // calls that run at a time; at least 1
  size_t max_waiting = 10000;  // beyond them, calls that wait for a thread
};

class AsyncClient {
 public:
  explicit AsyncClient(Client client, AsyncClientOptions options = {});
  // Calls that have not begun answer CANCELLED; those that run are waited for.
  ~AsyncClient();
  AsyncClient(const AsyncClient&) = delete;
  AsyncClient& operator=(const AsyncClient&) = delete;

  // `call` returns absl::Status or absl::StatusOr, and must not throw. RESOURCE_EXHAUSTED at once
  // when too many wait. The future's destructor does not wait.
  template <typename Call>
  auto Run(Call call) -> std::future<std::invoke_result_t<Call, Client&>> {
    using Answer = std::invoke_result_t<Call, Client&>;
    static_assert(std::is_constructible_v<Answer, absl::Status>,
                  "the call must return absl::Status or absl::StatusOr");
    // Shared, since std::function wants to be copied.
    auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    absl::Status refused = Enqueue(
        {[promise, call = std::move(call)](Client& client) mutable {
           promise->set_value(call(client));
         },
         [promise](absl::Status status) { promise->set_value(Answer(std::move(status))); }});
    if (!refused.ok()) promise->set_value(Answer(std::move(refused)));
    return answer;
  }

 private:
  struct Job {
    std::function<void(Client&)> run;
    std::function<void(absl::Status)> refuse;
  };

  absl::Status Enqueue(Job job) ABSL_LOCKS_EXCLUDED(mutex_);
  void Work();

  Client client_;
  const AsyncClientOptions options_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_ASYNC_CLIENT_H_
