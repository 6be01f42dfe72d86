#include "server/rpc/parse.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>
#include <grpcpp/support/slice.h>

#include <climits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/utf8.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/service/names.h"

namespace lethe::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxDepth = 16;
// Room for 10,000 tokens with all their labels.
constexpr size_t kMaxElements = 200000;

std::string Flatten(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  std::string flat;
  if (!bytes.Dump(&slices).ok()) return flat;
  for (const grpc::Slice& slice : slices) {
    flat.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return flat;
}

// The path of the first text field that is not UTF-8. Stops without an answer at bytes that are no
// message of this type.
std::optional<std::string> FindBadText(const Descriptor& type,
                                       absl::string_view bytes,
                                       const std::string& prefix,
                                       int depth) {
  if (depth > kMaxDepth) return std::nullopt;
  CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                      static_cast<int>(bytes.size()));
  std::map<int, size_t> seen;
  while (true) {
    const uint32_t tag = in.ReadTag();
    if (tag == 0) return std::nullopt;
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field == nullptr ||
        WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED ||
        (field->type() != FieldDescriptor::TYPE_STRING &&
         field->type() != FieldDescriptor::TYPE_MESSAGE)) {
      if (!WireFormatLite::SkipField(&in, tag)) return std::nullopt;
      continue;
    }
    uint32_t size = 0;
    std::string content;
    if (!in.ReadVarint32(&size) || size > bytes.size() ||
        !in.ReadString(&content, static_cast<int>(size))) {
      return std::nullopt;
    }
    std::string path = absl::StrCat(prefix, prefix.empty() ? "" : ".", field->name());
    if (field->is_repeated() && !field->is_map()) {
      absl::StrAppend(&path, "[", seen[field->number()]++, "]");
    }
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (!audit::IsValidUtf8(content)) return path;
    } else if (std::optional<std::string> found =
                   FindBadText(*field->message_type(), content, path, depth + 1)) {
      return found;
    }
  }
}

// Goes through the tags of a message, and of those in it, without making anything of them.
class Counter {
 public:
  explicit Counter(grpc::ByteBuffer* bytes) : reader_(bytes), in_(&reader_) {}

  // OK too for bytes that are no message of this type: parsing says so.
  absl::Status Count(const Descriptor& type) {
    if (reader_.status().ok()) Walk(&type, nullptr, 0);
    return std::move(status_);
  }

 private:
  // Where a message lies in another one.
  struct Place {
    const Place* outer;
    const FieldDescriptor* field;
    size_t index;
  };

  static std::string PathOf(const Place* place) {
    if (place == nullptr) return "";
    return absl::StrCat(PathOf(place->outer), place->field->name(),
                        place->field->is_repeated() && !place->field->is_map()
                            ? absl::StrCat("[", place->index, "].")
                            : ".");
  }

  // Whether one more takes memory of its own. Numbers take no more than on the wire.
  static bool IsCounted(const FieldDescriptor& field) {
    return field.is_repeated() && !field.is_packable();
  }

  // What is known under this number, and in this form; the rest is kept as it came.
  static const FieldDescriptor* FieldOf(const Descriptor* type, uint32_t tag) {
    if (type == nullptr) return nullptr;
    const FieldDescriptor* field = type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field == nullptr) return nullptr;
    const WireFormatLite::WireType wire = WireFormatLite::GetTagWireType(tag);
    const bool packed = field->is_packable() && wire == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    const bool plain = wire == WireFormatLite::WireTypeForFieldType(
                                   static_cast<WireFormatLite::FieldType>(field->type()));
    return packed || plain ? field : nullptr;
  }

  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }

  // To the end of the message or of the group. `type` null: not known. False: stop.
  bool Walk(const Descriptor* type, const Place* place, int depth) {
    if (depth > kMaxDepth) {
      return Fail(absl::InvalidArgumentError("request: is nested too deep"));
    }
    std::map<int, size_t> seen;
    while (const uint32_t tag = in_.ReadTag()) {
      const WireFormatLite::WireType wire = WireFormatLite::GetTagWireType(tag);
      if (wire == WireFormatLite::WIRETYPE_END_GROUP) return true;
      const FieldDescriptor* field = FieldOf(type, tag);
      const bool counted = field != nullptr && IsCounted(*field);
      const size_t index = counted ? seen[field->number()]++ : 0;
      if (counted && index >= service::kMaxBatch) {
        return Fail(service::FieldError(
            absl::StrCat(PathOf(place), field->name()),
            absl::StrCat("has more entries than the limit of ", service::kMaxBatch)));
      }
      if ((field == nullptr || counted) && ++elements_ > kMaxElements) {
        return Fail(absl::InvalidArgumentError(
            absl::StrCat("request: has more than ", kMaxElements, " messages and texts")));
      }
      if (wire == WireFormatLite::WIRETYPE_START_GROUP) {
        if (!Walk(nullptr, place, depth + 1)) return false;
        continue;
      }
      if (field == nullptr || field->type() != FieldDescriptor::TYPE_MESSAGE) {
        if (!WireFormatLite::SkipField(&in_, tag)) return false;
        continue;
      }
      uint32_t size = 0;
      if (!in_.ReadVarint32(&size) || size > static_cast<uint32_t>(INT_MAX)) return false;
      const CodedInputStream::Limit limit = in_.PushLimit(static_cast<int>(size));
      const Place inner{.outer = place, .field = field, .index = index};
      if (!Walk(field->message_type(), &inner, depth + 1)) return false;
      if (in_.BytesUntilLimit() != 0) return false;
      in_.PopLimit(limit);
    }
    return true;
  }

  grpc::ProtoBufferReader reader_;
  CodedInputStream in_;
  size_t elements_ = 0;
  absl::Status status_;
};

}  // namespace

absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  // Copies share the slices; a reader wants to own its buffer.
  grpc::ByteBuffer counted(bytes);
  LETHE_RETURN_IF_ERROR(Counter(&counted).Count(*message->GetDescriptor()));
  grpc::ByteBuffer copy(bytes);
  {
    grpc::ProtoBufferReader reader(&copy);
    if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader) && reader.status().ok()) {
      return absl::OkStatus();
    }
  }
  if (const std::optional<std::string> field =
          FindBadText(*message->GetDescriptor(), Flatten(bytes), "", 0)) {
    return absl::InvalidArgumentError(absl::StrCat(*field, ": is not valid UTF-8"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("request: is no well-formed ", message->GetDescriptor()->full_name()));
}

grpc::ByteBuffer SerializeMessage(const google::protobuf::Message& message) {
  grpc::ByteBuffer bytes;
  const size_t size = message.ByteSizeLong();
  grpc::ProtoBufferWriter writer(&bytes, grpc::kProtoBufferWriterMaxBufferLength,
                                 static_cast<int>(size));
  LETHE_CHECK(message.SerializeToZeroCopyStream(&writer));
  return bytes;
}

}  // namespace lethe::rpc
