// A listing as a range: pages are fetched as the loop reaches them.
//
//     for (const absl::StatusOr<Memory>& memory : client.ListMemories("clinic")) {
//       if (!memory.ok()) return memory.status();
//       ...
//     }
//
// An error is the last element. One pass only. Threads: compatible, not safe.
#ifndef LETHE_CLIENT_STREAM_RANGE_H_
#define LETHE_CLIENT_STREAM_RANGE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/types.h"

namespace lethe::client {

template <typename T>
class StreamRange {
 public:
  using Fetch = std::function<absl::StatusOr<Page<T>>(const std::string& page_token)>;

  explicit StreamRange(Fetch fetch) : fetch_(std::move(fetch)) {}

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = absl::StatusOr<T>;
    using difference_type = std::ptrdiff_t;
    using pointer = const value_type*;
    using reference = const value_type&;

    explicit Iterator(StreamRange* range) : range_(range) {}
    reference operator*() const { return range_->current_; }
    pointer operator->() const { return &range_->current_; }
    Iterator& operator++() {
      if (!range_->Advance()) range_ = nullptr;
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.range_ == b.range_; }

   private:
    StreamRange* range_;  // null: the end
  };

  Iterator begin() { return Iterator(Advance() ? this : nullptr); }
  Iterator end() { return Iterator(nullptr); }

 private:
  // False at the end. Skips empty pages.
  bool Advance() {
    while (buffer_.empty() && !last_) {
      absl::StatusOr<Page<T>> page = fetch_(token_);
      if (!page.ok()) {
        last_ = true;
        current_ = std::move(page).status();
        return true;
      }
      if (!page->next_page_token.empty() && page->next_page_token == token_) {
        last_ = true;
        current_ = absl::InternalError("the server repeated a page token");
        return true;
      }
      token_ = page->next_page_token;
      last_ = token_.empty();
      for (T& item : page->items) buffer_.push_back(std::move(item));
    }
    if (buffer_.empty()) return false;
    current_ = std::move(buffer_.front());
    buffer_.pop_front();
    return true;
  }

  Fetch fetch_;
  std::string token_;
  bool last_ = false;
  std::deque<T> buffer_;
  absl::StatusOr<T> current_ = absl::UnknownError("not fetched");
};

}  // namespace lethe::client

#endif  // LETHE_CLIENT_STREAM_RANGE_H_
