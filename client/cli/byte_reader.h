// A stream read a byte at a time through a fixed buffer, with the place it is at.
#ifndef LETHE_CLIENT_CLI_BYTE_READER_H_
#define LETHE_CLIENT_CLI_BYTE_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>

namespace lethe::cli {

class ByteReader {
 public:
  static constexpr int kEnd = -1;

  // `stream` must outlive the reader. A UTF-8 byte order mark at the beginning is skipped.
  explicit ByteReader(std::istream& stream) : stream_(stream) { SkipByteOrderMark(); }

  int Peek() { return position_ < filled_ || Fill() ? Byte() : kEnd; }
  int Get() {
    const int byte = Peek();
    if (byte == kEnd) return kEnd;
    ++position_;
    if (byte == '\n') {
      ++line_;
      column_ = 1;
    } else {
      ++column_;
    }
    return byte;
  }

  uint64_t line() const { return line_; }      // of the next byte, from 1
  uint64_t column() const { return column_; }  // in bytes, from 1
  uint64_t consumed() const { return before_ + position_; }
  // A read failed, as opposed to the end of the input.
  bool failed() const { return stream_.bad(); }

 private:
  int Byte() const { return static_cast<unsigned char>(buffer_[position_]); }
  bool Fill() {
    if (at_end_) return false;
    before_ += filled_;
    position_ = 0;
    stream_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    filled_ = static_cast<size_t>(stream_.gcount());
    at_end_ = filled_ == 0;
    return !at_end_;
  }
  void SkipByteOrderMark() {
    Fill();
    if (filled_ >= 3 && buffer_[0] == '\xEF' && buffer_[1] == '\xBB' && buffer_[2] == '\xBF') {
      position_ = 3;
    }
  }

  std::istream& stream_;
  std::array<char, 65536> buffer_;
  size_t position_ = 0;
  size_t filled_ = 0;
  uint64_t before_ = 0;
  uint64_t line_ = 1;
  uint64_t column_ = 1;
  bool at_end_ = false;
};

}  // namespace lethe::cli

#endif  // LETHE_CLIENT_CLI_BYTE_READER_H_
