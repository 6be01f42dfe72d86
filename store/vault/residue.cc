#include "store/vault/residue.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "store/vault/bytes.h"
#include "store/vault/key_slot.h"

namespace lethe::store {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr size_t kChunkBytes = 8;
constexpr size_t kLeastDistinct = 5;
constexpr size_t kHeaderBytes = 16;  // magic, epoch, slot
constexpr size_t kLeastBytes = kChunkBytes;

template <typename Unsigned>
Unsigned Load(const char* at) {
  Unsigned value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

size_t FilterPlace(const char* at) { return (Load<uint32_t>(at) * 0x9E3779B1u) >> 9; }

// Whether eight bytes have enough different values to be told from free space.
bool TellsApart(const char* at) {
  size_t distinct = 0;
  for (size_t i = 0; i < kChunkBytes; ++i) {
    if (std::find(at, at + i, at[i]) == at + i) ++distinct;
  }
  return distinct >= kLeastDistinct;
}

}  // namespace

ResidueScanner::ResidueScanner() : filter_(std::make_unique<Filter>()) {
  filter_->set(FilterPlace(kSlotMagic.data()));
}

ResidueScanner::~ResidueScanner() = default;

void ResidueScanner::AddSlot(uint64_t slot) { slots_.push_back(slot); }
void ResidueScanner::AddEpoch(uint32_t epoch) { epochs_.insert(epoch); }

void ResidueScanner::AddWrappedKey(absl::string_view wrapped) {
  LETHE_CHECK(wrapped.size() == kWrappedKeyBytes);
  for (size_t i = 0; i < kWrappedKeyBytes; i += kChunkBytes) {
    const char* at = wrapped.data() + std::min(i, kWrappedKeyBytes - kChunkBytes);
    if (!TellsApart(at)) continue;
    chunks_.push_back(Load<uint64_t>(at));
    filter_->set(FilterPlace(at));
  }
}

bool ResidueScanner::Hit(const char* at, size_t left) const {
  if (std::binary_search(chunks_.begin(), chunks_.end(), Load<uint64_t>(at))) return true;
  if (left < kHeaderBytes) return false;
  const absl::string_view header(at, kHeaderBytes);
  return header.substr(0, kSlotMagic.size()) == kSlotMagic &&
         (epochs_.contains(GetLittleEndian<uint32_t>(header, 4)) ||
          std::binary_search(slots_.begin(), slots_.end(), GetLittleEndian<uint64_t>(header, 8)));
}

absl::StatusOr<Residue> ResidueScanner::Scan(int file) {
  std::sort(chunks_.begin(), chunks_.end());
  std::sort(slots_.begin(), slots_.end());
  // Advice only: where it is not followed, the cached pages are read.
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  Residue residue;
  std::string block(kBlockBytes, '\0');
  size_t kept = 0;  // bytes of the block before, too few for a header
  while (true) {
    const ssize_t count = ::pread(file, block.data() + kept, kBlockBytes - kept,
                                  static_cast<off_t>(residue.bytes_read));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(
          absl::StrCat("reading it back: ", std::generic_category().message(errno)));
    }
    const uint64_t start = residue.bytes_read - kept;  // of the block in the file
    residue.bytes_read += static_cast<uint64_t>(count);
    const size_t size = kept + static_cast<size_t>(count);
    // At the end the shorter patterns may stand where no header would have room.
    const size_t least = count == 0 ? kLeastBytes : kHeaderBytes;
    const size_t places = size < least ? 0 : size - least + 1;
    for (size_t i = 0; i < places; ++i) {
      const char* at = block.data() + i;
      if (!(*filter_)[FilterPlace(at)] || !Hit(at, size - i)) continue;
      if (residue.hits++ == 0) residue.first_offset = start + i;
    }
    if (count == 0) break;
    kept = size - places;
    std::memmove(block.data(), block.data() + places, kept);
  }
  OPENSSL_cleanse(block.data(), block.size());
  return residue;
}

}  // namespace lethe::store
