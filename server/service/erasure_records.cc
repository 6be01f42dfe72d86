#include "server/service/erasure_records.h"

#include <utility>

#include "audit/encoding.h"
#include "audit/hash.h"
#include "audit/weak_hash.h"
#include "server/service/blob.h"

namespace lethe::service {
namespace {

// The first byte of each: its kind and layout.
constexpr uint8_t kRequestFacts = 1;
constexpr uint8_t kRequestPersonal = 2;
constexpr uint8_t kHoldFacts = 3;
constexpr uint8_t kHoldPersonal = 4;

void AppendTime(std::string& out, int64_t micros) {
  audit::AppendU64(out, static_cast<uint64_t>(micros));
}
int64_t ReadTime(BlobReader& reader) { return static_cast<int64_t>(reader.U64()); }

// Reads as many as the blob says, as far as it goes on.
template <typename Item, typename Read>
std::vector<Item> ReadList(BlobReader& reader, const Read& read) {
  std::vector<Item> items;
  const uint32_t count = reader.U32();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) items.push_back(read());
  return items;
}

void AppendIdentity(std::string& out, const Identity& identity) {
  AppendText(out, identity.type);
  AppendByte(out, static_cast<uint8_t>(identity.format));
  AppendText(out, identity.value);
}

}  // namespace

bool IsFinal(ErasureState state) {
  return state != ErasureState::kPending && state != ErasureState::kInProgress;
}

std::string EncodeFacts(const RequestFacts& facts) {
  std::string out;
  AppendByte(out, kRequestFacts);
  AppendText(out, facts.source);
  AppendText(out, facts.regulation);
  AppendTime(out, facts.first_due_micros);
  AppendTime(out, facts.start_micros);
  AppendTime(out, facts.begin_micros);
  AppendTime(out, facts.end_micros);
  AppendByte(out, facts.extended ? 1 : 0);
  audit::AppendU32(out, facts.identities);
  audit::AppendU32(out, facts.found);
  audit::AppendU64(out, facts.erased);
  audit::AppendU64(out, facts.held);
  AppendText(out, facts.cursor);
  audit::AppendU32(out, facts.attempts);
  AppendText(out, facts.hold_id);
  AppendText(out, facts.failure);
  AppendByte(out, facts.receipts_taken ? 1 : 0);
  audit::AppendU32(out, facts.changes);
  audit::AppendU32(out, static_cast<uint32_t>(facts.stores.size()));
  for (const StoreLevel& store : facts.stores) {
    AppendText(out, store.store);
    AppendText(out, store.level);
    AppendText(out, store.evidence);
  }
  audit::AppendU32(out, static_cast<uint32_t>(facts.certificates.size()));
  for (const RequestCertificate& made : facts.certificates) {
    AppendText(out, made.certificate.id);
    AppendText(out, made.certificate.memory);
    AppendText(out, made.certificate.sha256);
    AppendText(out, made.certificate.shredded_id);
    AppendText(out, made.memory_uid);
    audit::AppendU32(out, made.identity);
    audit::AppendU32(out, made.round);
  }
  audit::AppendU32(out, static_cast<uint32_t>(facts.owed.size()));
  for (const OwedCallback& owed : facts.owed) {
    audit::AppendU32(out, owed.sequence);
    AppendByte(out, static_cast<uint8_t>(owed.state));
    AppendTime(out, owed.change_micros);
    audit::AppendU32(out, owed.url);
    audit::AppendU32(out, owed.attempts);
    AppendTime(out, owed.next_micros);
  }
  return out;
}

absl::StatusOr<RequestFacts> DecodeRequestFacts(absl::string_view blob) {
  BlobReader reader(blob);
  RequestFacts facts;
  facts.source = reader.Text();
  facts.regulation = reader.Text();
  facts.first_due_micros = ReadTime(reader);
  facts.start_micros = ReadTime(reader);
  facts.begin_micros = ReadTime(reader);
  facts.end_micros = ReadTime(reader);
  facts.extended = reader.Byte() != 0;
  facts.identities = reader.U32();
  facts.found = reader.U32();
  facts.erased = reader.U64();
  facts.held = reader.U64();
  facts.cursor = reader.Text();
  facts.attempts = reader.U32();
  facts.hold_id = reader.Text();
  facts.failure = reader.Text();
  facts.receipts_taken = reader.Byte() != 0;
  facts.changes = reader.U32();
  facts.stores = ReadList<StoreLevel>(reader, [&] {
    StoreLevel store;
    store.store = reader.Text();
    store.level = reader.Text();
    store.evidence = reader.Text();
    return store;
  });
  facts.certificates = ReadList<RequestCertificate>(reader, [&] {
    RequestCertificate made;
    made.certificate.id = reader.Text();
    made.certificate.memory = reader.Text();
    made.certificate.sha256 = reader.Text();
    made.certificate.shredded_id = reader.Text();
    made.memory_uid = reader.Text();
    made.identity = reader.U32();
    made.round = reader.U32();
    return made;
  });
  facts.owed = ReadList<OwedCallback>(reader, [&] {
    OwedCallback owed;
    owed.sequence = reader.U32();
    owed.state = static_cast<ErasureState>(reader.Byte());
    owed.change_micros = ReadTime(reader);
    owed.url = reader.U32();
    owed.attempts = reader.U32();
    owed.next_micros = ReadTime(reader);
    return owed;
  });
  if (!reader.AtEnd(kRequestFacts)) return DamagedBlob("erasure request");
  return facts;
}

std::string EncodePersonal(const RequestPersonal& personal) {
  std::string out;
  AppendByte(out, kRequestPersonal);
  AppendText(out, personal.secret);
  audit::AppendU32(out, static_cast<uint32_t>(personal.identities.size()));
  for (const Identity& identity : personal.identities) AppendIdentity(out, identity);
  audit::AppendU32(out, static_cast<uint32_t>(personal.callback_urls.size()));
  for (const std::string& url : personal.callback_urls) AppendText(out, url);
  audit::AppendU32(out, static_cast<uint32_t>(personal.callback_authorizations.size()));
  for (const std::string& value : personal.callback_authorizations) AppendText(out, value);
  AppendText(out, personal.controller_id);
  AppendText(out, personal.extension_reason);
  return out;
}

absl::StatusOr<RequestPersonal> DecodeRequestPersonal(absl::string_view blob) {
  BlobReader reader(blob);
  RequestPersonal personal;
  personal.secret = reader.Text();
  personal.identities = ReadList<Identity>(reader, [&] {
    Identity identity;
    identity.type = reader.Text();
    identity.format = static_cast<IdentityFormat>(reader.Byte());
    identity.value = reader.Text();
    return identity;
  });
  personal.callback_urls = ReadList<std::string>(reader, [&] { return reader.Text(); });
  personal.callback_authorizations = ReadList<std::string>(reader, [&] { return reader.Text(); });
  personal.controller_id = reader.Text();
  personal.extension_reason = reader.Text();
  if (!reader.AtEnd(kRequestPersonal)) return DamagedBlob("erasure request");
  return personal;
}

std::string EncodeFacts(const HoldFacts& facts) {
  std::string out;
  AppendByte(out, kHoldFacts);
  AppendTime(out, facts.release_micros);
  return out;
}

absl::StatusOr<HoldFacts> DecodeHoldFacts(absl::string_view blob) {
  BlobReader reader(blob);
  HoldFacts facts;
  facts.release_micros = ReadTime(reader);
  if (!reader.AtEnd(kHoldFacts)) return DamagedBlob("hold");
  return facts;
}

std::string EncodePersonal(const HoldPersonal& personal) {
  std::string out;
  AppendByte(out, kHoldPersonal);
  AppendText(out, personal.subject);
  AppendText(out, personal.reason);
  return out;
}

absl::StatusOr<HoldPersonal> DecodeHoldPersonal(absl::string_view blob) {
  BlobReader reader(blob);
  HoldPersonal personal;
  personal.subject = reader.Text();
  personal.reason = reader.Text();
  if (!reader.AtEnd(kHoldPersonal)) return DamagedBlob("hold");
  return personal;
}

ForgetSeed SeedOf(absl::string_view secret,
                  absl::string_view memory_uid,
                  uint32_t identity,
                  uint32_t round) {
  const auto derive = [&](absl::string_view label) {
    std::string message(label);
    message.push_back('\0');
    message.append(memory_uid.data(), memory_uid.size());
    audit::AppendU32(message, identity);
    audit::AppendU32(message, round);
    return audit::HmacSha256(secret, message);
  };
  return {.request_id = audit::Hex(derive("lethe/erasure/request-id/v1")),
          .request_salt = derive("lethe/erasure/request-salt/v1"),
          .subject_salt = derive("lethe/erasure/subject-salt/v1")};
}

std::string HashOfSubject(IdentityFormat format, absl::string_view subject) {
  switch (format) {
    case IdentityFormat::kRaw:
      return {};
    case IdentityFormat::kSha256:
      return audit::Hex(audit::Sha256(subject));
    case IdentityFormat::kSha1:
      return audit::Sha1Hex(subject);
    case IdentityFormat::kMd5:
      return audit::Md5Hex(subject);
  }
  return {};
}

std::string ContentOf(const ErasureRequestInput& input) {
  const auto append_time = [](std::string& out, const std::optional<absl::Time>& time) {
    AppendByte(out, time.has_value() ? 1 : 0);
    if (time.has_value()) AppendTime(out, absl::ToUnixMicros(*time));
  };
  std::string content = "r";
  audit::AppendU32(content, static_cast<uint32_t>(input.identities.size()));
  for (const Identity& identity : input.identities) AppendIdentity(content, identity);
  AppendText(content, input.source_class.empty() ? input.source : input.source_class);
  AppendText(content, input.regulation);
  append_time(content, input.received_time);
  append_time(content, input.start_time);
  for (const std::string& url : input.callback_urls) AppendText(content, url);
  AppendText(content, input.controller_id);
  return content;
}

std::string ContentOf(const HoldInput& input) {
  std::string content = "h";
  AppendText(content, input.subject);
  AppendText(content, input.reason);
  return content;
}

}  // namespace lethe::service
