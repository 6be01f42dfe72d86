// Looks for many things in many forms (trace_forms.h) in one pass over bytes of any length.
//
// Each run of units that counts holds an anchor: eight bytes of it (four where it has no eight),
// chosen to be rare. A place in the file is looked at closely only when a bit table and a hash
// table know the eight bytes that stand there. Parts that touch are one place.
//
// One place may be in several forms (the UTF-16 of both byte orders, say) and then counts in each.
//
// Cost: a nanosecond or so a byte, hardly more for hundreds of things than for one; memory for the
// forms, and a buffer of one to a few MiB. Errors: RESOURCE_EXHAUSTED for more than
// kMaxTraceFormBytes of forms. Threads: compatible.
#ifndef LETHE_AUDIT_TRACE_SEARCH_H_
#define LETHE_AUDIT_TRACE_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "audit/trace_forms.h"

namespace lethe::audit {

inline constexpr size_t kMaxTraceFormBytes = size_t{256} << 20;

struct TraceThing {
  std::string name;  // what it is called; never the thing itself
  std::vector<TraceForm> forms;
};

struct TracePlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t thing = 0;
  uint32_t form = 0;   // of the thing
  uint64_t units = 0;  // how many stand there
};

class TraceSearch {
 public:
  // Puts up to `capacity` bytes there and returns how many; 0 at the end.
  using Read = absl::FunctionRef<absl::StatusOr<size_t>(char* out, size_t capacity)>;
  using Found = absl::FunctionRef<void(const TracePlace& place)>;

  static absl::StatusOr<std::unique_ptr<TraceSearch>> Create(std::vector<TraceThing> things);
  ~TraceSearch();  // wipes the forms
  TraceSearch(const TraceSearch&) = delete;
  TraceSearch& operator=(const TraceSearch&) = delete;

  const std::vector<TraceThing>& things() const { return things_; }
  size_t forms() const { return forms_.size(); }

  // Calls `found` for each place, roughly by offset. Returns the number of bytes read, or the
  // error of `read`.
  absl::StatusOr<uint64_t> Scan(Read read, Found found);
  uint64_t ScanBytes(absl::string_view bytes, Found found);

  // Composes a stream in which every form of every thing stands among random bytes and scans it.
  // INTERNAL when one was not found where it was put. Returns the number of bytes.
  absl::StatusOr<uint64_t> SelfTest();

 private:
  struct Anchor {
    uint64_t key;
    uint32_t form;    // in forms_
    uint32_t offset;  // in the form
    uint32_t low;     // the first run that this anchor stands for, by its first unit
    uint32_t high;    // the last one
  };
  struct Slot {
    uint64_t key;
    uint32_t begin;
    uint32_t end;  // 0: empty
  };
  // Anchors of one width.
  struct Table {
    std::vector<Anchor> anchors;
    std::vector<uint64_t> filter;
    std::vector<Slot> slots;
    int filter_shift = 0;
    int slot_shift = 0;

    void Build();
    bool MayHold(uint64_t key) const {
      const uint64_t bit = key * kMultiplier >> filter_shift;
      return (filter[bit >> 6] >> (bit & 63) & 1) != 0;
    }
    const Slot* Find(uint64_t key) const;
  };
  struct FormOf {
    uint32_t thing;
    uint32_t index;
    const TraceForm* form;
  };
  class Counter;
  class Places;

  static constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;

  explicit TraceSearch(std::vector<TraceThing> things) : things_(std::move(things)) {}

  absl::Status Prepare();
  void AddAnchors(uint32_t number, const Counter& counter);
  // What stands at buffer_[at], `size` bytes of which are valid.
  template <bool kNarrow>
  void Examine(size_t begin, size_t end, size_t size, uint64_t base, Places& places) const;
  void ExamineTiny(size_t begin, size_t end, size_t size, uint64_t base, Places& places) const;
  void Check(const Anchor& anchor, size_t at, size_t size, uint64_t base, Places& places) const;

  std::vector<TraceThing> things_;
  std::vector<FormOf> forms_;
  Table wide_;                // anchors of eight bytes
  Table narrow_;              // of four
  std::vector<Anchor> tiny_;  // of fewer; the key is the length
  size_t left_ = 0;           // how far a run reaches to the left of its anchor at most
  size_t right_ = 0;          // and to the right, the anchor included
  std::unique_ptr<char[]> buffer_;
  size_t capacity_ = 0;
};

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_TRACE_SEARCH_H_
