#include "store/vault/key_slot.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "core/base/check.h"
#include "store/vault/bytes.h"

namespace lethe::store {
namespace {

constexpr absl::string_view kCheckTag("lethe-key-slot\0\1", 16);
constexpr absl::string_view kWrapTag("lethe-key-wrap\0\1", 16);
constexpr size_t kUidBytes = 32;
constexpr size_t kPaddingOffset = kWrappedOffset + kWrappedKeyBytes;
constexpr size_t kCheckOffset = 80;
constexpr size_t kCheckBytes = kSlotBytes - kCheckOffset;
static_assert(kPaddingOffset + 4 == kCheckOffset);

std::string Check(absl::string_view tenant_uid, absl::string_view bytes) {
  const audit::Digest digest = audit::Sha256(absl::StrCat(kCheckTag, tenant_uid, bytes));
  return std::string(audit::AsBytes(digest).substr(0, kCheckBytes));
}

}  // namespace

std::string EncodeSlot(absl::string_view tenant_uid, const KeySlot& slot) {
  LETHE_CHECK(tenant_uid.size() == kUidBytes && slot.wrapped.size() == kWrappedKeyBytes);
  std::string body(kSlotMagic);
  body.reserve(kSlotBytes);
  PutLittleEndian(body, slot.epoch);
  PutLittleEndian(body, slot.slot);
  body.append(slot.wrapped);
  body.append(kCheckOffset - kPaddingOffset, '\0');
  body.append(Check(tenant_uid, body));
  return body;
}

bool IsDestroyed(absl::string_view body) {
  return body.size() == kSlotBytes &&
         std::all_of(body.begin(), body.end(), [](char c) { return c == '\0'; });
}

absl::StatusOr<KeySlot> DecodeSlot(absl::string_view tenant_uid,
                                   uint64_t slot,
                                   absl::string_view body) {
  auto damaged = [slot](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("key slot ", slot, ": ", what));
  };
  if (body.size() != kSlotBytes) {
    return damaged(absl::StrCat("has ", body.size(), " bytes, not ", kSlotBytes));
  }
  if (body.substr(0, kSlotMagic.size()) != kSlotMagic) return damaged("does not start as one");
  if (body.substr(kCheckOffset) != Check(tenant_uid, body.substr(0, kCheckOffset))) {
    return damaged("does not match its check value");
  }
  // What follows holds for everything that EncodeSlot made.
  KeySlot decoded{.slot = GetLittleEndian<uint64_t>(body, 8),
                  .epoch = GetLittleEndian<uint32_t>(body, 4),
                  .wrapped = std::string(body.substr(kWrappedOffset, kWrappedKeyBytes))};
  if (decoded.slot != slot) return damaged("holds the key of another slot");
  const absl::string_view padding = body.substr(kPaddingOffset, kCheckOffset - kPaddingOffset);
  if (decoded.epoch == 0 || GetLittleEndian<uint32_t>(padding, 0) != 0) {
    return damaged("has fields out of range");
  }
  return decoded;
}

std::string WrapContext(absl::string_view tenant_uid, uint64_t slot, uint32_t epoch) {
  LETHE_CHECK(tenant_uid.size() == kUidBytes);
  std::string context = absl::StrCat(kWrapTag, tenant_uid);
  PutLittleEndian(context, slot);
  PutLittleEndian(context, epoch);
  return context;
}

}  // namespace lethe::store
