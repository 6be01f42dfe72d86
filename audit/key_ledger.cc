#include "audit/key_ledger.h"

#include <algorithm>
#include <bit>

#include "audit/stores.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

constexpr uint64_t kBits = 64;

// The bits of places `first` to `last` of one word, both below 64.
uint64_t Mask(uint64_t first, uint64_t last) {
  return (~uint64_t{0} << first) & (~uint64_t{0} >> (kBits - 1 - last));
}

}  // namespace

bool IsErasure(CertificateKind kind) {
  return kind == CertificateKind::kForget || kind == CertificateKind::kEdit ||
         kind == CertificateKind::kEvict;
}

std::optional<SequenceSpan> DestroyedBy(const CertificateBody& body) {
  if (body.destruction.has_value()) return body.destruction->erasures;
  const bool closes = body.kind == CertificateKind::kTenantClosed && body.sequence > 0 &&
                      std::any_of(body.stores.begin(), body.stores.end(), [](const auto& store) {
                        return store.store == kStoreKeys && store.level == kLevelKeyDestroyed;
                      });
  if (!closes) return std::nullopt;
  return SequenceSpan{.first = 0, .last = body.sequence - 1};
}

bool KeyLedger::Add(const CertificateBody& body) {
  LETHE_CHECK(body.sequence == first_ + count_);
  const uint64_t place = count_++;
  if (place % kBits == 0) words_.push_back({.before = end_});
  if (IsErasure(body.kind)) {
    const uint64_t bit = uint64_t{1} << place % kBits;
    words_.back().erasing |= bit;
    end_ = place + 1;
    if (body.counts.erased > 0) {
      words_.back().pending |= bit;
      ++erasures_;
      ++pending_;
    }
    return true;
  }
  if (body.restoration.has_value()) {
    const Restoration& restoration = *body.restoration;
    return restoration.removed == 0 ||
           (restoration.size < body.sequence &&
            Holds({.first = restoration.size, .last = body.sequence - 1}));
  }
  const std::optional<SequenceSpan> span = DestroyedBy(body);
  if (!span.has_value() || span->last < first_) return true;
  const bool holds = body.kind != CertificateKind::kShredded || Holds(*span);
  Destroy(*span);
  return holds;
}

bool KeyLedger::Holds(const SequenceSpan& span) const {
  if (span.first < first_) return true;  // the rest of the range is not known
  const uint64_t first = span.first - first_;
  const uint64_t last = std::min(span.last - first_, count_ - 1);
  const Word& word = words_[last / kBits];
  const uint64_t upto = word.erasing & Mask(0, last % kBits);
  const uint64_t end =
      upto == 0 ? word.before
                : last / kBits * kBits + kBits - static_cast<uint64_t>(std::countl_zero(upto));
  return end > first;
}

void KeyLedger::Destroy(const SequenceSpan& span) {
  const uint64_t first =
      std::max<uint64_t>(span.first > first_ ? span.first - first_ : 0, settled_ * kBits);
  const uint64_t last = std::min(span.last - first_, count_ - 1);
  for (uint64_t at = first; at <= last; at = (at / kBits + 1) * kBits) {
    uint64_t& pending = words_[at / kBits].pending;
    const uint64_t mask = Mask(at % kBits, std::min(last - at / kBits * kBits, kBits - 1));
    pending_ -= static_cast<uint64_t>(std::popcount(pending & mask));
    pending &= ~mask;
  }
  // The last word is still being filled.
  while (settled_ + 1 < words_.size() && words_[settled_].pending == 0) ++settled_;
}

std::optional<uint64_t> KeyLedger::NextPending(uint64_t from) const {
  uint64_t place = std::max<uint64_t>(from > first_ ? from - first_ : 0, settled_ * kBits);
  while (place < count_) {
    const uint64_t rest = words_[place / kBits].pending & Mask(place % kBits, kBits - 1);
    if (rest != 0) {
      return first_ + place / kBits * kBits + static_cast<uint64_t>(std::countr_zero(rest));
    }
    place = (place / kBits + 1) * kBits;
  }
  return std::nullopt;
}

}  // namespace lethe::audit
