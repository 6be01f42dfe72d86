// Exports that are POSIX ustar archives, in the one form that the format describes.
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "audit/verify_export_names.h"
#include "audit/verify_export_open.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kCertificateBytes = 6 * kBlock;  // at least: three headers, three files
constexpr size_t kNameBytes = 100;
constexpr size_t kSizeAt = 124;
constexpr size_t kSizeDigits = 11;
constexpr size_t kChecksumAt = 148;

using Block = std::array<char, kBlock>;

uint64_t Padded(uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

// The header of a file of this name and size: nothing else in it is free.
Block HeaderOf(absl::string_view name, uint64_t size) {
  Block block{};
  const auto put = [&block](size_t at, absl::string_view text) {
    std::memcpy(block.data() + at, text.data(), text.size());
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(kSizeAt, absl::StrFormat("%011o", size));
  put(136, "00000000000");
  put(kChecksumAt, "        ");
  put(156, "0");
  put(257, "ustar");
  put(263, "00");
  put(329, "0000000");
  put(337, "0000000");
  unsigned int sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(kChecksumAt, absl::StrFormat("%06o", sum));
  block[kChecksumAt + 6] = '\0';
  return block;
}

// Name and size of a header; false when they have no such form.
bool ParseHeader(const Block& block, std::string& name, uint64_t& size) {
  size_t length = 0;
  while (length < kNameBytes && block[length] != '\0') ++length;
  if (length == 0 || length == kNameBytes) return false;
  name.assign(block.data(), length);
  size = 0;
  for (size_t i = 0; i < kSizeDigits; ++i) {
    const char c = block[kSizeAt + i];
    if (c < '0' || c > '7') return false;
    size = size * 8 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

struct Place {
  uint64_t offset = 0;
  uint64_t size = 0;
};

class TarFile : public ExportFile {
 public:
  TarFile(const Descriptor& file, Place place, std::string name)
      : file_(file), place_(place), name_(std::move(name)) {}

  absl::StatusOr<size_t> Read(char* buffer, size_t size) override {
    if (size > place_.size) size = static_cast<size_t>(place_.size);
    LETHE_RETURN_IF_ERROR(ReadWhole(file_, place_.offset, size, size, name_, bytes_));
    std::memcpy(buffer, bytes_.data(), size);
    place_.offset += size;
    place_.size -= size;
    return size;
  }

 private:
  const Descriptor& file_;
  Place place_;
  std::string name_;
  std::string bytes_;
};

class TarInput : public ExportInput {
 public:
  TarInput(std::string path, Descriptor file, uint64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  Finding Scan() override {
    Finding finding;
    uint64_t at = 0;
    while (size_ - at >= kBlock) {
      Block block;
      if (finding.io = ReadBlock(at, block); !finding.io.ok()) return finding;
      if (block == Block{}) break;
      if (!ScanFile(block, at, finding)) return finding;
    }
    // Two zero blocks and nothing else.
    Block last;
    if (size_ - at != 2 * kBlock) return Malformed("The archive does not end where it must.");
    for (const uint64_t block : {at, at + kBlock}) {
      if (finding.io = ReadBlock(block, last); !finding.io.ok()) return finding;
      if (last != Block{}) return Malformed("The archive does not end with two blocks of zeros.");
    }
    if (!order_.Finish(finding)) return finding;
    listing_.first_certificate = order_.first();
    listing_.certificates = order_.count();
    for (const auto& [name, place] : places_) listing_.files.insert(listing_.files.end(), name);
    return finding;
  }

  absl::StatusOr<std::string> Read(const std::string& file, size_t limit) const override {
    LETHE_ASSIGN_OR_RETURN(const Place place, Find(file));
    std::string bytes;
    LETHE_RETURN_IF_ERROR(ReadWhole(file_, place.offset, place.size, limit, file, bytes));
    return bytes;
  }

  absl::StatusOr<std::unique_ptr<ExportFile>> OpenFile(const std::string& file) const override {
    LETHE_ASSIGN_OR_RETURN(const Place place, Find(file));
    return std::unique_ptr<ExportFile>(std::make_unique<TarFile>(file_, place, file));
  }

  absl::Status ReadCertificate(uint64_t sequence, CertificateFiles& files) const override {
    uint64_t at = certificates_[static_cast<size_t>(sequence - listing_.first_certificate)];
    const std::pair<absl::string_view, std::string*> parts[] = {
        {kEnvelopeSuffix, &files.envelope},
        {kTlogProofSuffix, &files.tlog_proof},
        {kSigstoreSuffix, &files.sigstore_bundle}};
    files.failed_part = 0;
    for (const auto& [suffix, bytes] : parts) {
      Block block;
      LETHE_RETURN_IF_ERROR(ReadBlock(at, block));
      std::string name;
      uint64_t size = 0;
      if (!ParseHeader(block, name, size) || name != CertificatePath(sequence, suffix)) {
        return Unstable();
      }
      LETHE_RETURN_IF_ERROR(ReadWhole(file_, at + kBlock, size, kMaxPartBytes, name, *bytes));
      at += kBlock + Padded(size);
      ++files.failed_part;
    }
    return absl::OkStatus();
  }

 private:
  Finding Malformed(absl::string_view message) const {
    return NameFinding(Failure::kMalformedArchive, "", message);
  }
  absl::Status Unstable() const {
    return absl::UnavailableError(absl::StrCat(path_, " changed while it was read"));
  }

  absl::Status ReadBlock(uint64_t offset, Block& block) const {
    std::string bytes;
    LETHE_RETURN_IF_ERROR(ReadWhole(file_, offset, kBlock, kBlock, path_, bytes));
    std::memcpy(block.data(), bytes.data(), kBlock);
    return absl::OkStatus();
  }

  absl::StatusOr<Place> Find(const std::string& file) const {
    const auto place = places_.find(file);
    if (place == places_.end()) return absl::UnavailableError(absl::StrCat(file, " is not there"));
    return place->second;
  }

  // One file, whose header is at `at`; moves `at` behind it. False when something is wrong.
  bool ScanFile(const Block& block, uint64_t& at, Finding& finding) {
    std::string name;
    uint64_t size = 0;
    if (!ParseHeader(block, name, size)) {
      finding = Malformed(absl::StrCat("There is no header of a file at byte ", at, "."));
      return false;
    }
    const ParsedName parsed = ParseExportName(name);
    if (parsed.kind == NameKind::kHostile) {
      finding = NameFinding(Failure::kMalformedArchive, name, "The name could lead elsewhere.");
      return false;
    }
    if (block != HeaderOf(name, size)) {
      finding = NameFinding(Failure::kMalformedArchive, name,
                            "The header is not that of a plain file of an export.");
      return false;
    }
    if (parsed.kind != NameKind::kCertificate && parsed.kind != NameKind::kOther) {
      finding = NameFinding(Failure::kUnexpectedFile, name, "An export has no such file.");
      return false;
    }
    const uint64_t content = at + kBlock;
    if (Padded(size) > size_ - content) {
      finding = NameFinding(Failure::kMalformedArchive, name, "The archive ends within the file.");
      return false;
    }
    if (size % kBlock != 0) {
      std::string padding;
      finding.io = ReadWhole(file_, content + size, Padded(size) - size, kBlock, path_, padding);
      if (!finding.io.ok()) return false;
      if (padding.find_first_not_of('\0') != std::string::npos) {
        finding = NameFinding(Failure::kMalformedArchive, name, "There are bytes after the file.");
        return false;
      }
    }
    if (parsed.kind == NameKind::kCertificate) {
      if (!order_.Add(parsed, finding)) return false;
      if (parsed.part == 0) certificates_.push_back(at);
    } else if (!order_.Finish(finding)) {
      return false;  // the three files of a certificate stand together
    } else if (places_.size() > MaxOtherFiles(size_ / kCertificateBytes)) {
      finding = NameFinding(Failure::kUnexpectedFile, name,
                            "There are more files than these certificates need.");
      return false;
    } else if (!places_.emplace(name, Place{content, size}).second) {
      finding = NameFinding(Failure::kMalformedArchive, name, "The file is there twice.");
      return false;
    }
    at = content + Padded(size);
    return true;
  }

  std::string path_;
  Descriptor file_;
  uint64_t size_;
  CertificateOrder order_;
  std::map<std::string, Place> places_;  // all but certificates
  std::vector<uint64_t> certificates_;   // where the first header of each is
};

}  // namespace

std::unique_ptr<ExportInput> OpenTar(const std::string& path, Descriptor file, uint64_t size) {
  return std::make_unique<TarInput>(path, std::move(file), size);
}

}  // namespace lethe::audit
