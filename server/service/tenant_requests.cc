// Tenant: erasure requests as they are asked for, looked at and changed. What the server does about
// them is in tenant_request_work.cc.
#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/hash.h"
#include "audit/random.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/names.h"
#include "server/service/tenant.h"
#include "server/service/validate.h"

namespace lethe::service {
namespace {

constexpr absl::string_view kRequestDomain("\0lethe/erasure-request\0", 23);
constexpr size_t kSecretBytes = 32;
// A clock that is ahead of ours, and how long a request may have been on its way.
constexpr absl::Duration kAhead = absl::Minutes(5);
constexpr absl::Duration kOldest = absl::Hours(24 * 366);

absl::Status NoSuchRequest() { return absl::NotFoundError("id: there is no such erasure request"); }

absl::Status CheckIdentity(absl::string_view field, const Identity& identity) {
  const std::string value = absl::StrCat(field, ".value");
  if (identity.type.size() > kMaxIdentityTypeBytes) {
    return FieldError(absl::StrCat(field, ".type"),
                      absl::StrCat("is longer than ", kMaxIdentityTypeBytes, " bytes"));
  }
  LETHE_RETURN_IF_ERROR(CheckSubject(absl::StrCat(field, ".type"), identity.type));
  size_t digits = 0;
  switch (identity.format) {
    case IdentityFormat::kRaw:
      if (identity.value.empty()) return FieldError(value, "is empty");
      return CheckSubject(value, identity.value);
    case IdentityFormat::kSha256:
      digits = 64;
      break;
    case IdentityFormat::kSha1:
      digits = 40;
      break;
    case IdentityFormat::kMd5:
      digits = 32;
      break;
  }
  if (digits == 0) return FieldError(absl::StrCat(field, ".format"), "is not known here");
  const bool hex = identity.value.size() == digits &&
                   identity.value.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (hex) return absl::OkStatus();
  return FieldError(value, absl::StrCat("must be ", digits, " lower-case hex digits"));
}

absl::Status CheckIdentities(const std::vector<Identity>& identities) {
  if (identities.empty() || identities.size() > kMaxIdentities) {
    return FieldError("identities", absl::StrCat("must be 1 to ", kMaxIdentities));
  }
  for (size_t i = 0; i < identities.size(); ++i) {
    LETHE_RETURN_IF_ERROR(CheckIdentity(Indexed("identities", i), identities[i]));
    for (size_t j = 0; j < i; ++j) {
      if (identities[j].format == identities[i].format &&
          identities[j].value == identities[i].value) {
        return FieldError(Indexed("identities", i), "is named twice");
      }
    }
  }
  return absl::OkStatus();
}

// A word that may stay for ever, so that nobody is tempted to put more in it.
absl::Status CheckWord(absl::string_view field, absl::string_view word) {
  const bool good =
      word.size() <= kMaxSourceBytes && std::ranges::all_of(word, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      });
  if (good) return absl::OkStatus();
  return FieldError(field, absl::StrCat("must be at most ", kMaxSourceBytes,
                                        " characters of a-z, 0-9, '.', '_' and '-'"));
}

absl::Status CheckUrl(absl::string_view field, absl::string_view url) {
  if (url.size() > kMaxCallbackUrlBytes) {
    return FieldError(field, absl::StrCat("is longer than ", kMaxCallbackUrlBytes, " bytes"));
  }
  if (!absl::StartsWith(url, "https://") && !absl::StartsWith(url, "http://")) {
    return FieldError(field, "must be an address that begins with https:// or http://");
  }
  for (const char c : url) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c)) || c == '#') {
      return FieldError(field, "must be printable ASCII without blanks and '#'");
    }
  }
  return absl::OkStatus();
}

// What may stand in a header of HTTP. A line feed would begin another header.
absl::Status CheckAuthorizations(const ErasureRequestInput& input) {
  const std::vector<std::string>& values = input.callback_authorizations;
  if (!values.empty() && values.size() != input.callback_urls.size()) {
    return FieldError("callback_authorizations", "must be one for each address");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const bool good = values[i].size() <= kMaxAuthorizationBytes &&
                      std::ranges::all_of(values[i], [](char c) { return c >= 0x20 && c < 0x7f; });
    if (!good) {
      return FieldError(Indexed("callback_authorizations", i),
                        absl::StrCat("must be at most ", kMaxAuthorizationBytes,
                                     " characters of printable ASCII"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckTimes(const ErasureRequestInput& input, absl::Time now, absl::Time due) {
  if (input.received_time.has_value()) {
    if (*input.received_time > now + kAhead) return FieldError("received_time", "lies ahead");
    if (*input.received_time < now - kOldest) {
      return FieldError("received_time", "is more than a year ago");
    }
  }
  if (input.start_time.has_value() && *input.start_time > due) {
    return FieldError("start_time", "is after the request is due");
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const ErasureRequestInput& input) {
  LETHE_RETURN_IF_ERROR(CheckIdentities(input.identities));
  LETHE_RETURN_IF_ERROR(CheckRequestId("idempotency_key", input.idempotency_key));
  LETHE_RETURN_IF_ERROR(CheckWord("source", input.source));
  LETHE_RETURN_IF_ERROR(CheckWord("regulation", input.regulation));
  if (input.callback_urls.size() > kMaxCallbackUrls) {
    return FieldError("callback_urls", absl::StrCat("must be at most ", kMaxCallbackUrls));
  }
  for (size_t i = 0; i < input.callback_urls.size(); ++i) {
    LETHE_RETURN_IF_ERROR(CheckUrl(Indexed("callback_urls", i), input.callback_urls[i]));
  }
  LETHE_RETURN_IF_ERROR(CheckAuthorizations(input));
  if (input.controller_id.size() > kMaxControllerIdBytes) {
    return FieldError("controller_id",
                      absl::StrCat("is longer than ", kMaxControllerIdBytes, " bytes"));
  }
  return CheckSubject("controller_id", input.controller_id);
}

std::string OptionalMicros(int64_t micros) { return micros == 0 ? "" : FormatMicros(micros); }

absl::Status OnlyBeforeTheEnd() {
  return absl::FailedPreconditionError("id: the request has ended");
}

}  // namespace

absl::Status Tenant::WriteCase(absl::FunctionRef<absl::Status()> write) {
  absl::Status status = write();
  if (status.ok()) return status;
  const absl::Status failed = StoreFailed(nullptr, status);
  if (!MakeRoom()) return failed;
  LETHE_RETURN_IF_ERROR(EnsureStore());
  status = write();
  return status.ok() ? status : StoreFailed(nullptr, status);
}

absl::StatusOr<store::CaseRecord> Tenant::CreateCase(const store::CaseCreation& creation) {
  absl::StatusOr<store::CaseRecord> made;
  const absl::Status status = WriteCase([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    made = store_->CreateCase(creation);
    if (absl::IsAlreadyExists(made.status())) {
      // By the first try, whose outcome was not known.
      absl::StatusOr<store::CaseRecord> there = store_->GetCase(creation.record.id);
      if (there.ok()) made = std::move(there);
    }
    return made.status();
  });
  if (status.ok()) return made;
  if (store_ != nullptr && store_->Health().ok()) return status;
  // Whether it was committed the file says, now and not with some later call: it may be there, and
  // nobody would work on it. What is in the file, and no longer in the write-ahead log alone,
  // stays.
  LETHE_RETURN_IF_ERROR(EnsureStore());
  made = store_->GetCase(creation.record.id);
  return made.ok() && !log_unclean_ ? made : status;
}

absl::StatusOr<std::optional<std::string>> Tenant::FindByKey(absl::string_view domain,
                                                             absl::string_view key,
                                                             const std::string* content) {
  if (key.empty()) return std::optional<std::string>();
  const absl::StatusOr<std::optional<store::RequestRecord>> found =
      store_->FindRequest(RequestKey(absl::StrCat(domain, key)));
  if (!found.ok()) return StoreFailed(nullptr, found.status());
  if (!found->has_value()) return std::optional<std::string>();
  if (content != nullptr && audit::HmacSha256(key, *content) != (*found)->fingerprint) {
    return absl::AlreadyExistsError("idempotency_key: was used for another request");
  }
  return std::optional<std::string>((*found)->answer);
}

std::optional<store::RequestRecord> Tenant::KeyRecord(absl::string_view domain,
                                                      absl::string_view key,
                                                      const std::string& content,
                                                      const store::CaseRecord& record) const {
  if (key.empty()) return std::nullopt;
  return store::RequestRecord{.request_id = RequestKey(absl::StrCat(domain, key)),
                              .fingerprint = audit::HmacSha256(key, content),
                              .answer = record.id,
                              .create_time_micros = NowMicros()};
}

absl::StatusOr<store::CaseRecord> Tenant::ReadCase(absl::string_view id, store::CaseKind kind) {
  absl::StatusOr<store::CaseRecord> record = store_->GetCase(id);
  const bool other = record.ok() && record->kind != kind;
  if (absl::IsNotFound(record.status()) || other) {
    return kind == store::CaseKind::kHold ? absl::NotFoundError("id: there is no such hold")
                                          : NoSuchRequest();
  }
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  return record;
}

absl::StatusOr<std::vector<store::CaseRecord>> Tenant::ListCases(const std::string& scope,
                                                                 store::CaseQuery query,
                                                                 const PageRequest& page,
                                                                 std::string& next_page_token) {
  LETHE_ASSIGN_OR_RETURN(const size_t size, PageSize(page.size));
  LETHE_ASSIGN_OR_RETURN(const std::string cursor, DecodePageToken(scope, page.token));
  if (!cursor.empty() && !absl::SimpleAtoi(cursor, &query.after_number)) {
    return FieldError("page_token", "is not a token that this list has given out");
  }
  query.limit = static_cast<uint32_t>(size);
  absl::StatusOr<std::vector<store::CaseRecord>> records = store_->ListCases(query);
  if (!records.ok()) return StoreFailed(nullptr, records.status());
  if (records->size() == size) {
    query.after_number = records->back().number;
    query.limit = 1;
    const absl::StatusOr<std::vector<store::CaseRecord>> next = store_->ListCases(query);
    if (!next.ok()) return StoreFailed(nullptr, next.status());
    if (!next->empty()) next_page_token = EncodePageToken(scope, absl::StrCat(query.after_number));
  }
  return records;
}

absl::StatusOr<Tenant::Asked> Tenant::Read(store::CaseRecord record) {
  Asked asked{.record = std::move(record), .facts = {}, .personal = std::nullopt};
  absl::StatusOr<RequestFacts> facts = DecodeRequestFacts(asked.record.facts);
  if (!facts.ok()) return StoreFailed(nullptr, facts.status());
  asked.facts = *std::move(facts);
  if (!asked.record.personal) return asked;
  const absl::StatusOr<std::string> sealed = store_->GetCasePersonal(asked.record.id);
  if (!sealed.ok()) return StoreFailed(nullptr, sealed.status());
  absl::StatusOr<RequestPersonal> personal = DecodeRequestPersonal(*sealed);
  if (!personal.ok()) return StoreFailed(nullptr, personal.status());
  asked.personal = *std::move(personal);
  return asked;
}

absl::StatusOr<Tenant::Asked> Tenant::ReadAsked(absl::string_view id) {
  LETHE_ASSIGN_OR_RETURN(store::CaseRecord record, ReadCase(id, store::CaseKind::kErasureRequest));
  return Read(std::move(record));
}

void Tenant::Tell(const store::CaseRecord& record) const {
  if (options_.agenda == nullptr) return;
  options_.agenda->Put(record_.name, {.number = record.number,
                                      .state = record.state,
                                      .received_micros = record.received_micros,
                                      .due_micros = record.due_micros,
                                      .wake_micros = record.wake_micros,
                                      .callback_micros = record.callback_micros});
}

ErasureRequestInfo Tenant::InfoOf(const Asked& asked) const {
  const RequestFacts& facts = asked.facts;
  ErasureRequestInfo info;
  info.tenant = record_.name;
  info.id = asked.record.id;
  info.state = static_cast<ErasureState>(asked.record.state);
  info.source = facts.source;
  info.regulation = facts.regulation;
  info.received_time = FormatMicros(asked.record.received_micros);
  info.due_time = FormatMicros(asked.record.due_micros);
  info.start_time = OptionalMicros(facts.start_micros);
  info.begin_time = OptionalMicros(facts.begin_micros);
  info.end_time = OptionalMicros(facts.end_micros);
  info.extended = facts.extended;
  info.counts = {.matched = facts.erased + facts.held, .erased = facts.erased, .held = facts.held};
  for (uint32_t i = 0; i < facts.identities; ++i) {
    if (IsFinal(info.state) && (facts.found >> i & 1u) == 0) ++info.counts.not_found;
  }
  info.stores = facts.stores;
  for (const RequestCertificate& made : facts.certificates) {
    info.certificates.push_back(made.certificate);
  }
  info.hold_id = facts.hold_id;
  info.failure = facts.failure;
  // By a restore: the request ended after the copy, and how is not in it.
  if (info.state == ErasureState::kFailed && facts.end_micros == 0) info.failure = "restored";
  info.attempts = facts.attempts;
  info.personal = asked.record.personal;
  info.receipts = IsFinal(info.state) && asked.record.personal && !facts.certificates.empty() &&
                  !facts.receipts_taken;
  if (asked.personal.has_value()) {
    info.controller_id = asked.personal->controller_id;
    info.extension_reason = asked.personal->extension_reason;
  }
  return info;
}

absl::StatusOr<ErasureRequestInfo> Tenant::CreateErasureRequest(const ErasureRequestInput& input,
                                                                const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckRequest(input));
  const std::string content = ContentOf(input);
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(const std::optional<std::string> earlier,
                         FindByKey(kRequestDomain, input.idempotency_key, &content));
  if (earlier.has_value()) {
    LETHE_ASSIGN_OR_RETURN(const Asked asked, ReadAsked(*earlier));
    ErasureRequestInfo info = InfoOf(asked);
    info.replayed = true;
    return info;
  }
  for (size_t i = 0; options_.erasures.check_callback && i < input.callback_urls.size(); ++i) {
    const absl::Status allowed = options_.erasures.check_callback(input.callback_urls[i]);
    if (!allowed.ok()) return FieldError(Indexed("callback_urls", i), allowed.message());
  }
  const absl::Time now = absl::FromUnixMicros(NowMicros());
  const absl::Time received = input.received_time.value_or(now);
  const absl::Time due = received + options_.erasures.due;
  LETHE_RETURN_IF_ERROR(CheckTimes(input, now, due));
  if (options_.agenda != nullptr && options_.agenda->Open(record_.name) >= kMaxOpenRequests) {
    return absl::ResourceExhaustedError(
        absl::StrCat("tenant: ", kMaxOpenRequests, " erasure requests are open, no more can be"));
  }
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  Asked asked;
  asked.facts.source = input.source;
  asked.facts.regulation = input.regulation;
  asked.facts.first_due_micros = absl::ToUnixMicros(due);
  asked.facts.identities = static_cast<uint32_t>(input.identities.size());
  if (input.start_time.has_value()) {
    asked.facts.start_micros = absl::ToUnixMicros(*input.start_time);
  }
  asked.personal = RequestPersonal{.secret = audit::RandomBytes(kSecretBytes),
                                   .identities = input.identities,
                                   .callback_urls = input.callback_urls,
                                   .callback_authorizations = input.callback_authorizations,
                                   .controller_id = input.controller_id,
                                   .extension_reason = {}};
  store::CaseCreation creation;
  creation.record.id = audit::RandomUid();
  creation.record.received_micros = absl::ToUnixMicros(received);
  creation.record.due_micros = absl::ToUnixMicros(due);
  creation.record.wake_micros = std::max(asked.facts.start_micros, absl::ToUnixMicros(now));
  creation.record.facts = EncodeFacts(asked.facts);
  creation.personal = EncodePersonal(*asked.personal);
  creation.request = KeyRecord(kRequestDomain, input.idempotency_key, content, creation.record);
  LETHE_ASSIGN_OR_RETURN(asked.record, CreateCase(creation));
  Tell(asked.record);
  options_.log->Write(program::LogLevel::kInfo, "erasure_request_received",
                      {{"tenant", record_.name}, {"request", asked.record.id}});
  return InfoOf(asked);
}

absl::StatusOr<ErasureRequestInfo> Tenant::GetErasureRequest(absl::string_view id) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(const Asked asked, ReadAsked(id));
  return InfoOf(asked);
}

absl::StatusOr<ErasureRequestInfo> Tenant::FindErasureRequest(absl::string_view idempotency_key) {
  LETHE_RETURN_IF_ERROR(CheckRequestId("idempotency_key", idempotency_key));
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(const std::optional<std::string> id,
                         FindByKey(kRequestDomain, idempotency_key, nullptr));
  if (!id.has_value()) {
    return absl::NotFoundError("idempotency_key: there is no erasure request with it");
  }
  LETHE_ASSIGN_OR_RETURN(const Asked asked, ReadAsked(*id));
  return InfoOf(asked);
}

absl::StatusOr<Page<ErasureRequestInfo>> Tenant::ListErasureRequests(
    std::optional<ErasureState> state,
    const PageRequest& page) {
  store::CaseQuery query;
  std::string scope = absl::StrCat("erasure-requests/", record_.uid);
  if (state.has_value()) {
    query.state = static_cast<store::CaseState>(*state);
    absl::StrAppend(&scope, "/", static_cast<int>(*state));
  }
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  Page<ErasureRequestInfo> result;
  LETHE_ASSIGN_OR_RETURN(std::vector<store::CaseRecord> records,
                         ListCases(scope, query, page, result.next_page_token));
  for (store::CaseRecord& record : records) {
    Asked asked{.record = std::move(record), .facts = {}, .personal = std::nullopt};
    absl::StatusOr<RequestFacts> facts = DecodeRequestFacts(asked.record.facts);
    if (!facts.ok()) return StoreFailed(nullptr, facts.status());
    asked.facts = *std::move(facts);
    ErasureRequestInfo info = InfoOf(asked);
    // A page of them could be larger than an answer may be; GetErasureRequest has them.
    info.certificates.clear();
    info.stores.clear();
    result.items.push_back(std::move(info));
  }
  return result;
}

absl::StatusOr<ErasureRequestInfo> Tenant::CancelErasureRequest(absl::string_view id) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(Asked asked, ReadAsked(id));
  switch (static_cast<ErasureState>(asked.record.state)) {
    case ErasureState::kPending:
      LETHE_RETURN_IF_ERROR(End(asked, ErasureState::kCancelled));
      return InfoOf(asked);
    case ErasureState::kCancelled:
      return InfoOf(asked);
    case ErasureState::kInProgress:
      return absl::FailedPreconditionError("id: the request is in progress");
    default:
      return OnlyBeforeTheEnd();
  }
}

absl::StatusOr<ErasureRequestInfo> Tenant::ExtendErasureRequest(absl::string_view id,
                                                                absl::Time due,
                                                                const std::string& reason) {
  if (reason.empty()) return FieldError("reason", "is empty; it has to be told to the person");
  LETHE_RETURN_IF_ERROR(CheckReason("reason", reason));
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(Asked asked, ReadAsked(id));
  if (IsFinal(static_cast<ErasureState>(asked.record.state)) || !asked.personal.has_value()) {
    return OnlyBeforeTheEnd();
  }
  const absl::Time latest =
      absl::FromUnixMicros(asked.facts.first_due_micros) + options_.erasures.extension;
  const int64_t micros = absl::ToUnixMicros(due);
  if (micros < asked.record.due_micros) return FieldError("due_time", "is before the present one");
  if (due > latest) {
    return FieldError("due_time",
                      absl::StrCat("is after ", FormatMicros(absl::ToUnixMicros(latest)),
                                   ", two months beyond the first"));
  }
  asked.record.due_micros = micros;
  asked.facts.extended = true;
  asked.personal->extension_reason = reason;
  LETHE_RETURN_IF_ERROR(Write(asked, /*personal=*/true));
  options_.log->Write(program::LogLevel::kInfo, "erasure_request_extended",
                      {{"tenant", record_.name}, {"request", asked.record.id}});
  return InfoOf(asked);
}

absl::StatusOr<std::vector<ErasureReceipt>> Tenant::TakeErasureReceipts(absl::string_view id,
                                                                        bool discard) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(Asked asked, ReadAsked(id));
  if (!IsFinal(static_cast<ErasureState>(asked.record.state))) {
    return absl::FailedPreconditionError("id: the request has not ended yet");
  }
  std::vector<ErasureReceipt> receipts;
  if (asked.facts.certificates.empty()) return receipts;
  if (!asked.personal.has_value() || asked.facts.receipts_taken) {
    return absl::FailedPreconditionError("id: the receipts were discarded, or not taken in time");
  }
  for (const RequestCertificate& made : asked.facts.certificates) {
    const ForgetSeed seed =
        SeedOf(asked.personal->secret, made.memory_uid, made.identity, made.round);
    receipts.push_back({.certificate_id = made.certificate.id,
                        .identity = made.identity,
                        .receipt = {.request_salt = std::string(audit::AsBytes(seed.request_salt)),
                                    .subject_salt = std::string(audit::AsBytes(seed.subject_salt))},
                        .request_id = seed.request_id});
  }
  if (discard) {
    asked.facts.receipts_taken = true;
    if (!asked.facts.owed.empty()) {
      LETHE_RETURN_IF_ERROR(Write(asked, /*personal=*/false));
      return receipts;
    }
    LETHE_RETURN_IF_ERROR(WriteEndOfPersonal(asked));
    // From here on nobody gets them again, so these go out; a key that cannot be destroyed now is
    // left to the worker.
    EndKey(asked).IgnoreError();
  }
  return receipts;
}

absl::StatusOr<DiscoveryReply> Tenant::Discover(const std::vector<Identity>& identities,
                                                const CallOptions& call) {
  LETHE_RETURN_IF_ERROR(CheckIdentities(identities));
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  LETHE_ASSIGN_OR_RETURN(Matches matches, MatchesOf(identities, call));
  DiscoveryReply reply{.memories = std::move(matches.memories),
                       .tokens = matches.tokens,
                       .held = matches.held,
                       .not_found = 0,
                       .hold_ids = std::move(matches.hold_ids)};
  for (size_t i = 0; i < identities.size(); ++i) {
    if ((matches.found >> i & 1u) == 0) ++reply.not_found;
  }
  return reply;
}

}  // namespace lethe::service
