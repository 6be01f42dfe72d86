#include "audit/trace_search.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr size_t kWide = sizeof(uint64_t);
constexpr size_t kNarrow = sizeof(uint32_t);
constexpr size_t kBlockBytes = size_t{1} << 20;

template <typename Unsigned>
Unsigned Load(const char* at) {
  Unsigned value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint64_t KeyAt(const char* at, size_t width) {
  return width == kWide ? Load<uint64_t>(at) : Load<uint32_t>(at);
}

size_t DifferentBytes(const char* at, size_t width) {
  size_t different = 0;
  for (size_t i = 0; i < width; ++i) {
    different += std::find(at, at + i, at[i]) == at + i ? 1u : 0u;
  }
  return different;
}

}  // namespace

// How often eight bytes occur in the forms, about: things often begin alike.
class TraceSearch::Counter {
 public:
  Counter() : counts_(size_t{1} << kBits) {}

  void Add(const std::string& bytes) {
    const size_t end = std::min(bytes.size(), kCounted);
    for (size_t i = 0; i + kNarrow <= end; ++i) {
      for (const size_t width : {kWide, kNarrow}) {
        if (i + width > end) continue;
        uint8_t& count = counts_[Place(bytes.data() + i, width)];
        if (count < 255) ++count;
      }
    }
  }
  // Small for anchors that few other places have.
  size_t Cost(const char* at, size_t width) const {
    const size_t different = DifferentBytes(at, width);
    const auto dull = different == 1 ? 64u : different <= width / 2 ? 8u : 0u;
    return dull + static_cast<size_t>(std::bit_width(counts_[Place(at, width)]));
  }

 private:
  static constexpr int kBits = 20;
  static constexpr size_t kCounted = 1024;  // bytes of a form

  static size_t Place(const char* at, size_t width) {
    return (KeyAt(at, width) + width) * kMultiplier >> (64 - kBits);
  }

  std::vector<uint8_t> counts_;
};

// Joins what touches and hands on what cannot grow any more.
class TraceSearch::Places {
 public:
  Places(const TraceSearch& search, Found found) : search_(search), found_(found) {}

  // Units [begin, end) of the form whose first byte would stand at `origin`; it may lie before the
  // file.
  void Add(uint32_t form, int64_t origin, size_t begin, size_t end) {
    const TraceForm& what = *search_.forms_[form].form;
    if (what.units() == what.run()) return Tell(form, origin, begin, end);
    const auto [at, added] = open_.try_emplace({form, origin}, begin, end);
    if (added) return;
    auto& [open_begin, open_end] = at->second;
    if (begin <= open_end && open_begin <= end) {
      open_begin = std::min(open_begin, begin);
      open_end = std::max(open_end, end);
      return;
    }
    Tell(form, origin, open_begin, open_end);
    at->second = {begin, end};
  }
  // Every anchor before `position` has been looked at.
  void Close(uint64_t position) {
    for (auto at = open_.begin(); at != open_.end();) {
      const auto& [form, origin] = at->first;
      const auto& [begin, end] = at->second;
      const auto last = static_cast<int64_t>(search_.forms_[form].form->End(end - 1));
      const auto reach = static_cast<int64_t>(search_.left_ + search_.right_);
      if (origin + last + reach >= static_cast<int64_t>(position)) {
        ++at;
        continue;
      }
      Tell(form, origin, begin, end);
      at = open_.erase(at);
    }
  }
  void CloseAll() {
    for (const auto& [key, units] : open_) Tell(key.first, key.second, units.first, units.second);
    open_.clear();
  }
  size_t open() const { return open_.size(); }

 private:
  void Tell(uint32_t form, int64_t origin, size_t begin, size_t end) const {
    const FormOf& what = search_.forms_[form];
    const size_t first = what.form->Begin(begin);
    found_({.offset = static_cast<uint64_t>(origin + static_cast<int64_t>(first)),
            .bytes = what.form->End(end - 1) - first,
            .thing = what.thing,
            .form = what.index,
            .units = end - begin});
  }

  const TraceSearch& search_;
  Found found_;
  std::map<std::pair<uint32_t, int64_t>, std::pair<size_t, size_t>> open_;
};

void TraceSearch::Table::Build() {
  std::sort(anchors.begin(), anchors.end(), [](const Anchor& a, const Anchor& b) {
    return std::tie(a.key, a.form, a.offset) < std::tie(b.key, b.form, b.offset);
  });
  // A bit in 64 at most is set, so that random bytes seldom pass.
  const int filter_bits = std::clamp(static_cast<int>(std::bit_width(anchors.size() * 64)), 16, 26);
  filter_shift = 64 - filter_bits;
  filter.assign((size_t{1} << filter_bits) / 64, 0);
  const int slot_bits = static_cast<int>(std::bit_width(anchors.size() * 2 + 1));
  slot_shift = 64 - slot_bits;
  slots.assign(size_t{1} << slot_bits, Slot{0, 0, 0});
  for (uint32_t i = 0; i < anchors.size();) {
    const uint64_t key = anchors[i].key;
    uint32_t end = i;
    while (end < anchors.size() && anchors[end].key == key) ++end;
    const uint64_t bit = key * kMultiplier >> filter_shift;
    filter[bit >> 6] |= uint64_t{1} << (bit & 63);
    size_t at = key * kMultiplier >> slot_shift;
    while (slots[at].end != 0) at = (at + 1) & (slots.size() - 1);
    slots[at] = {key, i, end};
    i = end;
  }
}

const TraceSearch::Slot* TraceSearch::Table::Find(uint64_t key) const {
  for (size_t at = key * kMultiplier >> slot_shift; slots[at].end != 0;
       at = (at + 1) & (slots.size() - 1)) {
    if (slots[at].key == key) return &slots[at];
  }
  return nullptr;
}

absl::StatusOr<std::unique_ptr<TraceSearch>> TraceSearch::Create(std::vector<TraceThing> things) {
  std::unique_ptr<TraceSearch> search(new TraceSearch(std::move(things)));
  LETHE_RETURN_IF_ERROR(search->Prepare());
  return search;
}

TraceSearch::~TraceSearch() {
  for (TraceThing& thing : things_) {
    for (TraceForm& form : thing.forms) form.Wipe();
  }
  if (buffer_ != nullptr) OPENSSL_cleanse(buffer_.get(), capacity_);
}

absl::Status TraceSearch::Prepare() {
  Counter counter;
  size_t bytes = 0;
  for (uint32_t thing = 0; thing < things_.size(); ++thing) {
    for (uint32_t index = 0; index < things_[thing].forms.size(); ++index) {
      const TraceForm& form = things_[thing].forms[index];
      forms_.push_back({thing, index, &form});
      counter.Add(form.bytes());
      bytes += form.bytes().size();
    }
  }
  if (bytes > kMaxTraceFormBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too much to look for at once: all forms of all things together may have ",
                     kMaxTraceFormBytes >> 20, " MiB"));
  }
  for (uint32_t i = 0; i < forms_.size(); ++i) AddAnchors(i, counter);
  wide_.Build();
  narrow_.Build();
  capacity_ = left_ + right_ + std::max(kBlockBytes, 4 * (left_ + right_));
  // Behind the end eight bytes may be loaded, which count for nothing.
  buffer_ = std::make_unique<char[]>(capacity_ + kWide);
  return absl::OkStatus();
}

void TraceSearch::AddAnchors(uint32_t number, const Counter& counter) {
  const TraceForm& form = *forms_[number].form;
  const size_t run = form.run();
  const char* const bytes = form.bytes().data();
  for (size_t unit = 0; unit + run <= form.units(); ++unit) {
    if (!form.Counts(unit)) continue;
    const size_t begin = form.Begin(unit);
    const size_t size = form.End(unit + run - 1) - begin;
    const size_t width = size >= kWide ? kWide : size >= kNarrow ? kNarrow : size;
    size_t best = begin;
    if (width >= kNarrow) {
      size_t least = counter.Cost(bytes + best, width);
      // Of equals the last one: it stands for more runs.
      for (size_t at = begin + 1; at + width <= begin + size; ++at) {
        const size_t cost = counter.Cost(bytes + at, width);
        if (cost > least) continue;
        least = cost;
        best = at;
      }
    }
    Anchor anchor{.key = width >= kNarrow ? KeyAt(bytes + best, width) : width,
                  .form = number,
                  .offset = static_cast<uint32_t>(best),
                  .low = static_cast<uint32_t>(unit),
                  .high = static_cast<uint32_t>(unit)};
    while (unit + 1 + run <= form.units() && form.Begin(unit + 1) <= best) ++unit;
    anchor.high = static_cast<uint32_t>(unit);
    left_ = std::max(left_, best - begin);
    right_ = std::max(right_, form.End(unit + run - 1) - best);
    if (width == kWide) {
      wide_.anchors.push_back(anchor);
    } else if (width == kNarrow) {
      narrow_.anchors.push_back(anchor);
    } else {
      tiny_.push_back(anchor);
    }
  }
}

void TraceSearch::Check(const Anchor& anchor,
                        size_t at,
                        size_t size,
                        uint64_t base,
                        Places& places) const {
  const TraceForm& form = *forms_[anchor.form].form;
  const char* const bytes = form.bytes().data();
  const size_t lowest = form.Begin(anchor.low);
  const size_t highest = form.End(anchor.high + form.run() - 1);
  size_t begin = anchor.offset;
  for (size_t i = at; begin > lowest && i > 0 && buffer_[i - 1] == bytes[begin - 1]; --i) --begin;
  size_t end = anchor.offset;
  for (size_t i = at; end < highest && i < size && buffer_[i] == bytes[end]; ++i) ++end;
  // The runs within what matches.
  size_t first = anchor.low;
  while (first <= anchor.high && (form.Begin(first) < begin || !form.Counts(first))) ++first;
  size_t last = anchor.high;
  while (last > first && (form.End(last + form.run() - 1) > end || !form.Counts(last))) --last;
  if (first > last || form.End(last + form.run() - 1) > end) return;
  const auto origin = static_cast<int64_t>(base + at) - static_cast<int64_t>(anchor.offset);
  places.Add(anchor.form, origin, first, last + form.run());
}

template <bool kWithNarrow>
void TraceSearch::Examine(size_t begin, size_t end, size_t size, uint64_t base, Places& places)
    const {
  const char* const buffer = buffer_.get();
  for (size_t at = begin; at < end; ++at) {
    const auto key = Load<uint64_t>(buffer + at);
    if (wide_.MayHold(key)) [[unlikely]] {
      if (const Slot* slot = wide_.Find(key); slot != nullptr) {
        for (uint32_t i = slot->begin; i < slot->end; ++i) {
          Check(wide_.anchors[i], at, size, base, places);
        }
      }
    }
    if constexpr (kWithNarrow) {
      const uint64_t narrow = key & 0xFFFFFFFFu;
      if (narrow_.MayHold(narrow)) [[unlikely]] {
        if (const Slot* slot = narrow_.Find(narrow); slot != nullptr) {
          for (uint32_t i = slot->begin; i < slot->end; ++i) {
            Check(narrow_.anchors[i], at, size, base, places);
          }
        }
      }
    }
  }
}

void TraceSearch::ExamineTiny(size_t begin,
                              size_t end,
                              size_t size,
                              uint64_t base,
                              Places& places) const {
  for (const Anchor& anchor : tiny_) {
    const char* const what = forms_[anchor.form].form->bytes().data() + anchor.offset;
    const size_t length = anchor.key;
    const size_t stop = std::min(size, end + length - 1);
    for (size_t at = begin; at < end;) {
      const auto* const hit = static_cast<const char*>(
          stop < at + length ? nullptr : ::memmem(buffer_.get() + at, stop - at, what, length));
      if (hit == nullptr) break;
      at = static_cast<size_t>(hit - buffer_.get());
      Check(anchor, at, size, base, places);
      ++at;
    }
  }
}

absl::StatusOr<uint64_t> TraceSearch::Scan(Read read, Found found) {
  constexpr size_t kManyOpen = 4096;
  // Between two looks at how many places are open.
  constexpr size_t kStep = size_t{1} << 16;
  Places places(*this, found);
  uint64_t base = 0;  // offset of the buffer's first byte
  size_t size = 0;    // of what the buffer holds
  size_t next = 0;    // first place that was not looked at
  bool ended = false;
  while (!ended) {
    while (size < capacity_) {
      LETHE_ASSIGN_OR_RETURN(const size_t count, read(buffer_.get() + size, capacity_ - size));
      ended = count == 0;
      if (ended) break;
      size += count;
    }
    const size_t end = ended ? size : size - right_;
    for (size_t begin = next; begin < end; begin += kStep) {
      const size_t stop = std::min(end, begin + kStep);
      narrow_.anchors.empty() ? Examine<false>(begin, stop, size, base, places)
                              : Examine<true>(begin, stop, size, base, places);
      ExamineTiny(begin, stop, size, base, places);
      if (places.open() > kManyOpen) places.Close(base + stop);
    }
    places.Close(base + end);
    const size_t dropped = end - std::min(end, left_);
    if (ended) break;
    std::memmove(buffer_.get(), buffer_.get() + dropped, size - dropped);
    base += dropped;
    size -= dropped;
    next = end - dropped;
  }
  places.CloseAll();
  return base + size;
}

uint64_t TraceSearch::ScanBytes(absl::string_view bytes, Found found) {
  const auto read = [&bytes](char* out, size_t capacity) -> absl::StatusOr<size_t> {
    const size_t count = std::min(capacity, bytes.size());
    std::memcpy(out, bytes.data(), count);
    bytes.remove_prefix(count);
    return count;
  };
  const absl::StatusOr<uint64_t> scanned = Scan(read, found);
  LETHE_CHECK(scanned.ok());
  return *scanned;
}

absl::StatusOr<uint64_t> TraceSearch::SelfTest() {
  std::mt19937_64 random(20260131);
  size_t next = 0;               // form to be put
  std::string pending;           // composed, not read
  uint64_t composed = 0;         // bytes of all so far
  std::vector<uint64_t> starts;  // of each form
  std::vector<bool> met(forms_.size());
  const auto filler = [&] {
    for (uint64_t count = random() % 64; count > 0; --count) {
      pending += static_cast<char>(random() & 0xFF);
    }
  };
  const auto read = [&](char* out, size_t capacity) -> absl::StatusOr<size_t> {
    while (pending.size() < capacity && next < forms_.size()) {
      filler();
      starts.push_back(composed + pending.size());
      pending += forms_[next++].form->bytes();
      filler();
    }
    const size_t count = std::min(capacity, pending.size());
    std::memcpy(out, pending.data(), count);
    pending.erase(0, count);
    composed += count;
    return count;
  };
  // Where the forms of a thing begin.
  std::vector<size_t> firsts;
  size_t total = 0;
  for (const TraceThing& thing : things_) {
    firsts.push_back(total);
    total += thing.forms.size();
  }
  LETHE_ASSIGN_OR_RETURN(const uint64_t bytes, Scan(read, [&](const TracePlace& place) {
                           const size_t form = firsts[place.thing] + place.form;
                           if (form >= starts.size() || place.offset < starts[form]) return;
                           const size_t length = forms_[form].form->bytes().size();
                           if (place.offset + place.bytes <= starts[form] + length) {
                             met[form] = true;
                           }
                         }));
  OPENSSL_cleanse(pending.data(), pending.capacity());
  for (size_t i = 0; i < met.size(); ++i) {
    if (met[i]) continue;
    return absl::InternalError(absl::StrCat("the self-test did not find ",
                                            things_[forms_[i].thing].name, " as ",
                                            forms_[i].form->name()));
  }
  return bytes;
}

}  // namespace lethe::audit
