// Messages compared by what they are on the wire: NaN is NaN, and a map has one order.
#ifndef LETHE_TESTS_FUZZ_MESSAGES_H_
#define LETHE_TESTS_FUZZ_MESSAGES_H_

#include <google/protobuf/message.h>

#include <string>

namespace lethe::fuzz {

std::string WireBytes(const google::protobuf::Message& message);

// Text as Protocol Buffers writes messages, nested no deeper than the wire may be. False where it
// is none; what was read by then stays.
bool ReadText(const std::string& text, google::protobuf::Message& message);
std::string PrintText(const google::protobuf::Message& message);

// The library says nothing on stderr about what it cannot read.
void SilenceProtobuf();

}  // namespace lethe::fuzz

#endif  // LETHE_TESTS_FUZZ_MESSAGES_H_
