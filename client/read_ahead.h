// One attempt of a stream and the thread that reads it. A reader of its own because a server that
// waits to write does not read, and a writer that waits for it to read would wait for ever.
//
// Internal to client/. Stream has Write, WritesDone, Read, Finish and Cancel as InsertStream has.
// Threads: one besides the reader.
#ifndef LETHE_CLIENT_READ_AHEAD_H_
#define LETHE_CLIENT_READ_AHEAD_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace lethe::client {

template <typename Stream, typename Item>
class ReadAhead {
 public:
  enum class Event { kItem, kOver, kStalled };

  // More items in the queue than `most` mean a server that does not keep to the protocol; `flood`
  // is the message of the error then.
  ReadAhead(std::unique_ptr<Stream> stream, size_t most, std::string flood)
      : stream_(std::move(stream)),
        most_(most),
        flood_(std::move(flood)),
        reader_([this] { Read(); }) {}

  ~ReadAhead() {
    if (!finished_) static_cast<void>(Finish(/*cancel=*/true));
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  template <typename Message>
  bool Write(const Message& message) {
    return stream_->Write(message);
  }

  void WritesDone() {
    if (!std::exchange(writes_done_, true)) stream_->WritesDone();
  }

  Event Wait(absl::Duration patience) {
    std::unique_lock<std::mutex> lock(mutex_.native());
    // The clock's sum with an infinite one would overflow.
    const auto limit = absl::ToChronoNanoseconds(std::min(patience, absl::Hours(24)));
    const bool happened =
        changed_.wait_for(lock, limit, [this] { return !items_.empty() || over_; });
    if (!happened) return Event::kStalled;
    return items_.empty() ? Event::kOver : Event::kItem;
  }

  std::optional<Item> Take() {
    MutexLock lock(mutex_);
    if (items_.empty()) return std::nullopt;
    Item item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

  // Waits for the reader. Items that arrived stay in the queue. CANCELLED is the server's word
  // unless `cancel` is set: a flood that the reader breaks off is INTERNAL.
  absl::Status Finish(bool cancel) {
    if (cancel) stream_->Cancel();
    reader_.join();
    finished_ = true;
    absl::Status status = stream_->Finish();
    if (flooded_) return absl::InternalError(flood_);
    return status;
  }

 private:
  void Read() {
    while (std::optional<Item> item = stream_->Read()) {
      MutexLock lock(mutex_);
      if (items_.size() >= most_) {
        flooded_ = true;
        stream_->Cancel();
        continue;
      }
      items_.push_back(*std::move(item));
      changed_.notify_one();
    }
    MutexLock lock(mutex_);
    over_ = true;
    changed_.notify_one();
  }

  std::unique_ptr<Stream> stream_;
  const size_t most_;
  const std::string flood_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // items_ and over_ under mutex_
  bool over_ = false;
  bool flooded_ = false;  // written by the reader, read after it has ended
  bool writes_done_ = false;
  bool finished_ = false;
  std::thread reader_;  // last: it uses the others
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_READ_AHEAD_H_
