// What the two kinds of ExportInput share.
#ifndef LETHE_AUDIT_VERIFY_EXPORT_OPEN_H_
#define LETHE_AUDIT_VERIFY_EXPORT_OPEN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "audit/verify_export_input.h"

namespace lethe::audit {

// Of a file of a certificate: a bundle holds the envelope, which has at most 1 MiB, and some KiB.
inline constexpr size_t kMaxPartBytes = size_t{2} << 20;

// An open file descriptor, closed with the object.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.Release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  bool valid() const { return number_ >= 0; }
  int get() const { return number_; }
  int Release() {
    const int number = number_;
    number_ = -1;
    return number;
  }

 private:
  int number_;
};

// UNAVAILABLE "cannot read NAME: ...".
absl::Status Unreadable(absl::string_view name, int error);

// `size` bytes from `offset` on. RESOURCE_EXHAUSTED when there are more than `limit`; UNAVAILABLE
// when the file ends before, since it did not when it was looked at. Threads: safe.
absl::Status ReadWhole(const Descriptor& file,
                       uint64_t offset,
                       uint64_t size,
                       size_t limit,
                       absl::string_view name,
                       std::string& bytes);

std::unique_ptr<ExportInput> OpenFolder(const std::string& path, Descriptor folder);
std::unique_ptr<ExportInput> OpenTar(const std::string& path, Descriptor file, uint64_t size);

}  // namespace lethe::audit

#endif  // LETHE_AUDIT_VERIFY_EXPORT_OPEN_H_
