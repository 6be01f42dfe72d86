#include "server/service/tenant.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "audit/random.h"
#include "core/base/check.h"
#include "core/base/disk_full.h"
#include "core/base/status_macros.h"
#include "server/service/certificates.h"
#include "server/service/names.h"
#include "server/service/records.h"
#include "server/service/rows.h"
#include "server/service/validate.h"
#include "store/sqlite.h"
#include "store/sqlite_tenant_store.h"

namespace lethe::service {
namespace {

// Rows that are given to the solver at a time while a memory is loaded.
constexpr size_t kLoadBatch = 16384;

absl::Status NoSuchMemory() { return absl::NotFoundError("memory: there is none with this name"); }
absl::Status TenantGone() { return absl::NotFoundError("tenant: there is none with this name"); }

absl::StatusOr<std::unique_ptr<store::TenantStore>> OpenStore(const std::string& directory,
                                                              const TenantOptions& options) {
  const std::string name = std::filesystem::path(directory).filename();
  const store::SqliteTenantOptions store_options{
      .vault = options.vault,
      .kms = options.kms,
      .keys = options.keys,
      .expected_name = name,
      .on_revived_keys = [&](uint64_t keys) {
        options.log->Write(program::LogLevel::kError, "keys_revived",
                           {{"tenant", name}, {"keys", static_cast<int64_t>(keys)}});
      }};
  absl::StatusOr<std::unique_ptr<store::TenantStore>> found =
      store::OpenTenantStore(directory, store_options);
  // What a crash left may have to be written down first, the anchor's last entry for example.
  if (IsDiskFull(found.status()) && options.ballast != nullptr && options.ballast->Release(name)) {
    found = store::OpenTenantStore(directory, store_options);
  }
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<store::TenantStore> opened, std::move(found));
  return options.wrap_store ? options.wrap_store(std::move(opened)) : std::move(opened);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Tenant>> Tenant::Open(const std::string& directory,
                                                     const SigningKeys* keys,
                                                     const TenantOptions& options) {
  LETHE_ASSIGN_OR_RETURN(std::shared_ptr<Tenant> tenant, OpenLogOnly(directory, keys, options));
  if (tenant->gone()) return tenant;
  MutexLock lock(tenant->writer_);
  LETHE_RETURN_IF_ERROR(tenant->SyncMemories());
  return tenant;
}

absl::StatusOr<std::shared_ptr<Tenant>> Tenant::OpenLogOnly(const std::string& directory,
                                                            const SigningKeys* keys,
                                                            const TenantOptions& options) {
  LETHE_CHECK(options.log != nullptr);
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<store::TenantStore> opened, OpenStore(directory, options));
  LETHE_ASSIGN_OR_RETURN(store::TenantRecord record, opened->GetTenant());
  std::shared_ptr<Tenant> tenant(
      new Tenant(directory, keys, options, std::move(record), std::move(opened)));
  MutexLock lock(tenant->writer_);
  LETHE_RETURN_IF_ERROR(tenant->Begin());
  // A deletion that was interrupted goes on. What cannot be done now is done by the next call to
  // delete it, or the next start.
  if (tenant->gone() && !tenant->closed()) tenant->FinishClosing().status().IgnoreError();
  return tenant;
}

Tenant::Tenant(std::string directory,
               const SigningKeys* keys,
               TenantOptions options,
               store::TenantRecord record,
               std::unique_ptr<store::TenantStore> store)
    : directory_(std::move(directory)),
      options_(std::move(options)),
      record_(std::move(record)),
      keys_(keys),
      store_(std::move(store)) {}

Tenant::Memory::Memory(std::string memory_uid,
                       std::string memory_name,
                       const MemoryConfig& memory_config,
                       const svdd::MemoryOptions& memory_options,
                       EncoderPtr memory_encoder,
                       int64_t create_time_micros)
    : uid(std::move(memory_uid)),
      name(std::move(memory_name)),
      config(memory_config),
      options(memory_options),
      encoder(std::move(memory_encoder)),
      create_time(FormatMicros(create_time_micros)) {}

TenantInfo Tenant::Info() const {
  TenantInfo info;
  info.name = record_.name;
  info.create_time = FormatMicros(record_.create_time_micros);
  info.log_origin = record_.log_origin;
  info.certificate_count = certificate_count_.load();
  MutexLock lock(map_mutex_);
  info.verification_key = vkey_;
  info.memory_count = memories_.size();
  return info;
}

Tenant::MemoryPtr Tenant::FindMemory(absl::string_view name) const {
  MutexLock lock(map_mutex_);
  const auto found = memories_.find(std::string(name));
  return found == memories_.end() ? nullptr : found->second;
}

MemoryInfo Tenant::InfoOf(const Memory& memory) const {
  const std::shared_ptr<const Published> state = memory.published.Get();
  return {.tenant = record_.name,
          .name = memory.name,
          .config = memory.config,
          .create_time = memory.create_time,
          .phase = state->snapshot->phase,
          .partition = state->snapshot->counts};
}

bool Tenant::MakeRoom() {
  return std::exchange(disk_full_, false) && options_.ballast != nullptr &&
         options_.ballast->Release(record_.name);
}

absl::Status Tenant::EnsureStore() {
  if (gone()) return TenantGone();
  disk_full_ = false;
  if (store_ != nullptr && store_->Health().ok()) return absl::OkStatus();
  const absl::Status status = Reopen();
  return gone() ? TenantGone() : status;
}

absl::Status Tenant::Reopen() {
  options_.log->Write(program::LogLevel::kWarning, "store_reopened", {{"tenant", record_.name}});
  store_.reset();  // gives the file up before it is opened again
  absl::StatusOr<std::unique_ptr<store::TenantStore>> opened = OpenStore(directory_, options_);
  absl::Status status = opened.status();
  if (opened.ok()) {
    store_ = *std::move(opened);
    status = Begin();
    if (status.ok() && !gone()) status = SyncMemories();
  }
  if (status.ok()) return status;
  store_.reset();  // what was opened only in part is not used
  return StoreFailed(nullptr, absl::IsDataLoss(status) || absl::IsResourceExhausted(status)
                                  ? status
                                  : absl::UnavailableError(status.message()));
}

absl::Status Tenant::Begin() {
  LETHE_ASSIGN_OR_RETURN(const store::TenantRecord record, store_->GetTenant());
  log_unclean_ = true;
  keys_pending_ = true;
  encoder_keys_pending_ = true;
  named_epoch_.reset();
  if (record.state != store::TenantState::kOpen) {
    gone_.store(true);
    if (options_.agenda != nullptr) options_.agenda->Replace(record_.name, {});
  }
  LETHE_RETURN_IF_ERROR(OpenLog(record.state == store::TenantState::kClosed));
  switch (record.state) {
    case store::TenantState::kClosed:
      // It will be moved away and never looked at again.
      LETHE_RETURN_IF_ERROR(CleanLog());
      store_.reset();  // so that the folder can be moved
      closed_.store(true);
      return absl::OkStatus();
    case store::TenantState::kClosing:
      return absl::OkStatus();
    case store::TenantState::kOpen:
      break;
  }
  LETHE_RETURN_IF_ERROR(LoadHolds());
  LETHE_ASSIGN_OR_RETURN(const std::vector<store::OpenCase> cases, store_->ListOpenCases());
  if (options_.agenda != nullptr) options_.agenda->Replace(record_.name, cases);
  // What cannot be finished now is finished before the next answer that depends on it.
  FinishErasures().IgnoreError();
  if (store_ == nullptr) return absl::UnavailableError("it could not be opened a second time");
  FinishRotation().IgnoreError();
  if (store_->Health().ok()) return absl::OkStatus();
  // One of them cost the store its connection, on a full disk for example. They wait, the tenant
  // need not.
  store_.reset();
  LETHE_ASSIGN_OR_RETURN(store_, OpenStore(directory_, options_));
  return absl::OkStatus();
}

absl::Status Tenant::SyncMemories() {
  std::map<std::string, MemoryPtr> synced;
  std::string after;
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<store::MemoryRecord> page,
                           store_->ListMemories(after, store::kMaxPageSize));
    if (page.empty()) break;
    after = page.back().name;
    for (const store::MemoryRecord& stored : page) {
      MemoryPtr memory = FindMemory(stored.name);
      if (memory == nullptr || memory->uid != stored.uid) {
        LETHE_ASSIGN_OR_RETURN(const MemoryConfig config, DecodeConfig(stored.config));
        const absl::StatusOr<svdd::MemoryOptions> options = ToOptions(config);
        if (!options.ok()) return absl::DataLossError("a stored memory configuration is not valid");
        EncoderPtr encoder;
        if (config.encoder_info.has_value()) {
          const absl::StatusOr<std::string> artefact = store_->GetEncoder(stored.uid);
          if (absl::IsNotFound(artefact.status())) {
            return absl::DataLossError("the encoder of a memory is not stored");
          }
          LETHE_RETURN_IF_ERROR(artefact.status());
          LETHE_ASSIGN_OR_RETURN(encoder, ReadEncoder(*artefact, *config.encoder_info));
        }
        memory = std::make_shared<Memory>(stored.uid, stored.name, config, *options,
                                          std::move(encoder), stored.create_time_micros);
      }
      if (memory->state == nullptr) LETHE_RETURN_IF_ERROR(Load(*memory));
      synced[memory->name] = std::move(memory);
    }
  }
  MutexLock lock(map_mutex_);
  memories_ = std::move(synced);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<MemoryState>> Tenant::ReadState(
    const Memory& memory,
    std::span<const svdd::TokenHandle> without) {
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<MemoryState> state,
                         MemoryState::Create(memory.options, DigestOf(memory), options_.checker,
                                             options_.update_fault, options_.counters));
  std::vector<AcceptedToken> batch;
  const auto append = [&]() -> absl::Status {
    const absl::Status status = state->Append(batch);
    batch.clear();
    if (status.ok() || absl::IsInternal(status)) return status;
    // The rows were accepted once; that they are refused now means that they changed.
    return absl::DataLossError("stored tokens are not valid in their memory");
  };
  LETHE_RETURN_IF_ERROR(store_->LoadTokens(memory.uid, [&](store::TokenRow& row) -> absl::Status {
    if (std::ranges::binary_search(without, row.handle)) return absl::OkStatus();
    LETHE_ASSIGN_OR_RETURN(AcceptedToken token, FromRow(row));
    batch.push_back(std::move(token));
    return batch.size() < kLoadBatch ? absl::OkStatus() : append();
  }));
  if (!batch.empty()) LETHE_RETURN_IF_ERROR(append());
  return state;
}

absl::Status Tenant::Load(Memory& memory) {
  LETHE_ASSIGN_OR_RETURN(const store::MemoryRecord stored, store_->GetMemory(memory.uid));
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<MemoryState> state, ReadState(memory, {}));
  LETHE_RETURN_IF_ERROR(state->Check());
  memory.state = std::move(state);
  memory.next_handle = stored.next_handle;
  PublishNext(memory);
  return absl::OkStatus();
}

absl::Status Tenant::Renew(Memory& memory) {
  memory.state.reset();
  const absl::Status status = Load(memory);
  if (status.ok()) return status;
  memory.published.Withdraw();
  return absl::IsInternal(status) ? status : StoreFailed(nullptr, status);
}

void Tenant::PublishNext(Memory& memory) {
  std::shared_ptr<const Published> next = memory.state->Publish(++memory.version);
  if (options_.publish_fault) next = options_.publish_fault(std::move(next));
  memory.published.Set(std::move(next));
}

absl::StatusOr<Tenant::MemoryPtr> Tenant::WritableMemory(absl::string_view name) {
  LETHE_RETURN_IF_ERROR(EnsureStore());
  MemoryPtr memory = FindMemory(name);
  if (memory == nullptr) return NoSuchMemory();
  if (memory->state == nullptr) {
    if (absl::Status status = Load(*memory); !status.ok()) {
      return absl::IsInternal(status) ? status : StoreFailed(nullptr, status);
    }
    options_.log->Write(program::LogLevel::kWarning, "state_reloaded",
                        {{"tenant", record_.name}, {"memory", memory->name}});
  }
  return memory;
}

void Tenant::CountAppend() {
  certificate_count_.fetch_add(1);
  ++options_.counters->certificates;
  options_.counters->last_append_micros = absl::ToUnixMicros(absl::Now());
}

absl::Status Tenant::StoreFailed(Memory* memory, const absl::Status& status) {
  if (memory != nullptr) memory->state.reset();
  disk_full_ = disk_full_ || IsDiskFull(status);
  const std::string text(status.message());
  options_.log->Write(
      program::LogLevel::kError, "store_failed",
      {{"tenant", record_.name}, {"code", static_cast<int64_t>(status.code())}, {"message", text}});
  if (store::IsIndeterminate(status)) {
    return absl::UnavailableError(
        "the store failed while committing and the outcome is unknown; send the same request "
        "again");
  }
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return absl::ResourceExhaustedError("the disk or a quota is full; nothing was changed");
    case absl::StatusCode::kUnavailable:
      return absl::UnavailableError(
          "the tenant's store cannot be used at present; the server's log says why; send the same "
          "request again");
    case absl::StatusCode::kDataLoss:
      return absl::DataLossError(
          "stored bytes are not what was written; the server's log says where");
    default:
      // The request was checked before; that the store refuses it is our mistake, not the caller's.
      return absl::InternalError("the store failed; the server's log says why");
  }
}

absl::StatusOr<MemoryInfo> Tenant::CreateMemory(const std::string& name,
                                                MemoryConfig config,
                                                const CallOptions& call,
                                                const TenantQuotas& quotas) {
  LETHE_RETURN_IF_ERROR(CheckName("name", name));
  const std::string artefact = config.encoder;
  EncoderPtr encoder;
  if (config.encoder_info.has_value()) {
    return FieldError("config.encoder_info", "is in answers alone; give the artefact as encoder");
  }
  if (!artefact.empty()) {
    LETHE_ASSIGN_OR_RETURN(encoder, AttachEncoder(config));
  }
  LETHE_ASSIGN_OR_RETURN(const svdd::MemoryOptions options, ToOptions(config));
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  if (FindMemory(name) != nullptr) {
    return absl::AlreadyExistsError("name: the tenant has a memory with this name");
  }
  if (const uint64_t most = quotas[Quota::kMemories]; most != 0) {
    MutexLock map_lock(map_mutex_);
    if (memories_.size() >= most) return QuotaExceeded(Quota::kMemories, most, options_.counters);
  }
  if (!artefact.empty()) LETHE_RETURN_IF_ERROR(CheckBytes(artefact.size(), quotas));
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  store::MemoryRecord record;
  record.uid = audit::RandomUid();
  record.name = name;
  record.config = EncodeConfig(config);
  record.create_time_micros = NowMicros();
  auto memory = std::make_shared<Memory>(record.uid, name, config, options, std::move(encoder),
                                         record.create_time_micros);
  LETHE_ASSIGN_OR_RETURN(memory->state,
                         MemoryState::Create(options, DigestOf(*memory), options_.checker,
                                             options_.update_fault, options_.counters));
  LETHE_RETURN_IF_ERROR(memory->state->Check());
  if (absl::Status status = store_->CreateMemory(record, artefact); !status.ok()) {
    return StoreFailed(nullptr, status);
  }
  PublishNext(*memory);
  {
    MutexLock map_lock(map_mutex_);
    memories_[name] = memory;
  }
  options_.log->Write(program::LogLevel::kInfo, "memory_created",
                      {{"tenant", record_.name}, {"memory", name}});
  return InfoOf(*memory);
}

absl::StatusOr<MemoryInfo> Tenant::GetMemory(absl::string_view name) const {
  if (gone()) return TenantGone();
  const MemoryPtr memory = FindMemory(name);
  if (memory == nullptr) return NoSuchMemory();
  return InfoOf(*memory);
}

absl::StatusOr<Page<MemoryInfo>> Tenant::ListMemories(const PageRequest& page) const {
  if (gone()) return TenantGone();
  const std::string scope = absl::StrCat("memories/", record_.uid);
  LETHE_ASSIGN_OR_RETURN(const size_t size, PageSize(page.size));
  LETHE_ASSIGN_OR_RETURN(const std::string after, DecodePageToken(scope, page.token));
  std::vector<MemoryPtr> found;
  bool more = false;
  {
    MutexLock lock(map_mutex_);
    auto next = memories_.upper_bound(after);
    for (; next != memories_.end() && found.size() < size; ++next) found.push_back(next->second);
    more = next != memories_.end();
  }
  Page<MemoryInfo> result;
  for (const MemoryPtr& memory : found) result.items.push_back(InfoOf(*memory));
  if (more) result.next_page_token = EncodePageToken(scope, found.back()->name);
  return result;
}

absl::StatusOr<QueryReply> Tenant::Query(const QueryInput& input, const CallOptions& call) const {
  if (gone()) return TenantGone();
  LETHE_RETURN_IF_ERROR(CheckBatchSize("queries", input.queries.size()));
  if (input.top_tokens > kMaxTopTokens) {
    return FieldError("top_tokens",
                      absl::StrCat("is ", input.top_tokens, ", the limit is ", kMaxTopTokens));
  }
  const MemoryPtr memory = FindMemory(input.memory);
  if (memory == nullptr) return NoSuchMemory();
  if (memory->encoder == nullptr) return QueryKept(*memory, input, call);
  QueryInput encoded = input;
  LETHE_RETURN_IF_ERROR(EncodeQueries(*memory->encoder, call, encoded));
  return QueryKept(*memory, encoded, call);
}

absl::StatusOr<QueryReply> Tenant::QueryKept(const Memory& memory,
                                             const QueryInput& input,
                                             const CallOptions& call) {
  for (size_t i = 0; i < input.queries.size(); ++i) {
    LETHE_RETURN_IF_ERROR(CheckQuery(input.queries[i], memory.options, i));
  }
  if (input.local.has_value()) {
    LETHE_RETURN_IF_ERROR(CheckLocalChunk(*input.local, memory.options, input.queries.size()));
  }
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<const Published> state, memory.published.Serve());
  const size_t tokens = std::min<size_t>(input.top_tokens, state->support_ids.size());
  const size_t bytes = AnswerBytes(static_cast<size_t>(memory.options.value_dimension), tokens);
  if (input.queries.size() > kMaxAnswerBytes / bytes) {
    return FieldError("queries", absl::StrCat("the answer could need more than ", kMaxAnswerBytes,
                                              " bytes; ask at most ", kMaxAnswerBytes / bytes,
                                              " queries at a time"));
  }
  return AnswerQueries(*state, input, tokens, call);
}

absl::StatusOr<CertificateInfo> Tenant::GetCertificate(absl::string_view id) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  absl::StatusOr<store::CertificateRecord> record = store_->GetCertificate(id);
  if (absl::IsNotFound(record.status())) {
    return absl::NotFoundError("id: the tenant's log has no certificate with this id");
  }
  if (!record.ok()) return StoreFailed(nullptr, record.status());
  return ToInfo(*record);
}

absl::StatusOr<Page<CertificateInfo>> Tenant::ListCertificates(const std::string& memory,
                                                               const PageRequest& page) {
  const std::string scope = absl::StrCat("certificates/", record_.uid, "/", memory);
  LETHE_ASSIGN_OR_RETURN(const size_t size, PageSize(page.size));
  LETHE_ASSIGN_OR_RETURN(const std::string cursor, DecodePageToken(scope, page.token));
  store::CertificateQuery query;
  query.memory_name = memory;
  query.limit = static_cast<uint32_t>(size);
  if (uint64_t sequence = 0; !cursor.empty()) {
    if (!absl::SimpleAtoi(cursor, &sequence)) {
      return FieldError("page_token", "is not a token that this list has given out");
    }
    query.after_sequence = sequence;
  }
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  const absl::StatusOr<std::vector<store::CertificateRecord>> records =
      store_->ListCertificates(query);
  if (!records.ok()) return StoreFailed(nullptr, records.status());
  Page<CertificateInfo> result;
  for (const store::CertificateRecord& record : *records) result.items.push_back(ToInfo(record));
  if (records->size() == size) {
    query.after_sequence = records->back().sequence;
    query.limit = 1;
    const absl::StatusOr<std::vector<store::CertificateRecord>> next =
        store_->ListCertificates(query);
    if (!next.ok()) return StoreFailed(nullptr, next.status());
    if (!next->empty()) {
      result.next_page_token = EncodePageToken(scope, absl::StrCat(records->back().sequence));
    }
  }
  return result;
}

absl::StatusOr<Tenant::Copy> Tenant::CopyTo(const std::string& path, const CallOptions& call) {
  MutexLock lock(writer_);
  LETHE_RETURN_IF_ERROR(EnsureStore());
  if (call.still_wanted) LETHE_RETURN_IF_ERROR(call.still_wanted());
  absl::StatusOr<store::TenantCopy> made = store_->CopyTo(path);
  if (!made.ok()) return StoreFailed(nullptr, made.status());
  return Copy{.made = *std::move(made),
              .vkey = signer_->verification_key().vkey(),
              .time_micros = NowMicros()};
}

absl::Status Tenant::Checkpoint() {
  MutexLock lock(writer_);
  if (store_ == nullptr) return absl::OkStatus();
  const absl::Status status = store_->Checkpoint();
  if (status.ok()) log_unclean_ = false;
  return status;
}

}  // namespace lethe::service
