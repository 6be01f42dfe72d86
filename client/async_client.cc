#include "client/async_client.h"

#include <algorithm>
#include <mutex>
#include <optional>

namespace lethe::client {

AsyncClient::AsyncClient(Client client, AsyncClientOptions options)
    : client_(std::move(client)), options_(options) {
  const size_t threads = std::max<size_t>(options_.threads, 1);
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

AsyncClient::~AsyncClient() {
  std::deque<Job> unbegun;
  {
    MutexLock lock(mutex_);
    closing_ = true;
    unbegun.swap(waiting_);
  }
  changed_.notify_all();
  for (Job& job : unbegun) job.refuse(absl::CancelledError("the client was destroyed first"));
  for (std::thread& thread : threads_) thread.join();
}

absl::Status AsyncClient::Enqueue(Job job) {
  {
    MutexLock lock(mutex_);
    if (waiting_.size() >= options_.max_waiting) {
      return absl::ResourceExhaustedError("too many calls wait for a thread of this client");
    }
    waiting_.push_back(std::move(job));
  }
  changed_.notify_one();
  return absl::OkStatus();
}

void AsyncClient::Work() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (;;) {
    std::optional<Job> job;
    {
      std::unique_lock<std::mutex> lock(mutex_.native());
      changed_.wait(
          lock, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !waiting_.empty() || closing_; });
      if (waiting_.empty()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
    }
    job->run(client_);
  }
}

}  // namespace lethe::client
