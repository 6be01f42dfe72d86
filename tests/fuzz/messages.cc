#include "tests/fuzz/messages.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>

#include "tests/fuzz/input.h"

namespace lethe::fuzz {
namespace {

// As the reader of the wire has it.
constexpr int kRecursion = 100;

// Wrong text is an input like any other.
class Silent final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
  void AddWarning(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

}  // namespace

std::string WireBytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    Require(message.SerializePartialToCodedStream(&coded), "a message can be written");
  }
  return bytes;
}

bool ReadText(const std::string& text, google::protobuf::Message& message) {
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  parser.SetRecursionLimit(kRecursion);
  return parser.ParseFromString(text, &message);
}

std::string PrintText(const google::protobuf::Message& message) {
  std::string text;
  Require(google::protobuf::TextFormat::PrintToString(message, &text), "a message can be printed");
  return text;
}

void SilenceProtobuf() { google::protobuf::SetLogHandler(nullptr); }

}  // namespace lethe::fuzz
