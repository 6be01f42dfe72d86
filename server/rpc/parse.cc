#include "server/rpc/parse.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>
#include <grpcpp/support/slice.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/utf8.h"
#include "core/base/check.h"

namespace lethe::rpc {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxDepth = 16;

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

}  // namespace

absl::Status ParseMessage(const grpc::ByteBuffer& bytes, google::protobuf::Message* message) {
  grpc::ByteBuffer copy(bytes);  // shares the slices; the reader wants to own its buffer
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
