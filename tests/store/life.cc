#include "tests/store/life.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "store/sqlite.h"
#include "store/sqlite_tenant_store.h"
#include "store/tenant_glance.h"
#include "store/tenant_restore.h"
#include "store/token_codec.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

constexpr int kTries = 4;

const std::vector<std::string>& AllIds() {
  static const auto* const ids =
      new std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "long"};
  return *ids;
}
constexpr std::array<const char*, 3> kSubjects = {"x", "y", "z"};
constexpr std::array<const char*, 13> kRequests = {"r0", "r1", "r2", "r3",  "r4",     "r5",    "r6",
                                                   "r7", "r8", "r9", "r10", "case 1", "case 2"};

void Add(const CertificateRecord& record, Facts& facts) {
  facts[absl::StrCat("leaf ", record.sequence)] = record.leaf;
  facts[absl::StrCat("certificate ", record.sequence)] =
      absl::StrCat(record.id, " ", record.kind, " ", record.memory_uid, " ", record.memory_name,
                   " ", record.create_time_micros, " ", record.envelope, " ", Hex(record.leaf_hash),
                   " ", record.previous_leaf_hash ? Hex(*record.previous_leaf_hash) : "none");
}
std::string Words(const MemoryRecord& memory) {
  return absl::StrCat(memory.uid, " ", absl::BytesToHexString(memory.config), " ",
                      memory.create_time_micros, " ", memory.next_handle);
}
std::string Words(const RequestRecord& request) {
  return absl::StrCat(Hex(request.fingerprint), " ", request.answer, " ",
                      request.create_time_micros);
}
std::string Words(const CaseRecord& record) {
  return absl::StrCat(record.number, " ", static_cast<int>(record.kind), " ",
                      static_cast<int>(record.state), " ", record.received_micros, " ",
                      record.due_micros, " ", record.wake_micros.value_or(-1), " ",
                      record.callback_micros.value_or(-1), " ", record.personal, " ", record.facts);
}
std::string Words(uint64_t tokens, uint64_t subjects, uint64_t tombstones) {
  return absl::StrCat(tokens, " ", subjects, " ", tombstones);
}

}  // namespace

// --- Facts

Facts FactsOf(const Model& model) {
  Facts facts;
  facts["state"] = absl::StrCat(static_cast<int>(model.state));
  facts["memories"] = absl::StrCat(model.memories.size());
  for (const auto& [uid, memory] : model.memories) {
    const std::string of = absl::StrCat(memory.record.name, ": ");
    facts[of + "record"] = Words(memory.record);
    facts[of + "encoder"] = memory.encoder;
    std::map<std::string, std::vector<uint64_t>> subjects;
    std::map<std::string, uint64_t> live;
    for (const auto& [handle, row] : memory.rows) {
      facts[absl::StrCat(of, "row ", handle)] = EncodeToken(row);
      live[row.id] = handle;
      if (!row.subject.empty()) subjects[row.subject].push_back(handle);
    }
    facts[of + "counts"] = Words(memory.rows.size(), subjects.size(), memory.erased.size());
    for (const std::string& id : AllIds()) {
      facts[of + "id " + id] = live.contains(id)            ? absl::StrCat("live ", live[id])
                               : memory.erased.contains(id) ? "erased"
                                                            : "unknown";
    }
    for (const char* subject : kSubjects) {
      facts[of + "subject " + subject] = absl::StrJoin(subjects[subject], ",");
    }
  }
  for (const CertificateRecord& record : model.log) Add(record, facts);
  facts["log"] = absl::StrCat(model.log.size(), " ", model.checkpoint);
  for (const LogKey& key : model.keys) facts[absl::StrCat("key ", key.first_sequence)] = key.vkey;
  for (const Cosignature& line : model.cosignatures) {
    facts["cosignature"] = absl::StrCat(line.key_id, " ", line.size, " ", line.line);
  }
  for (const auto& [id, request] : model.requests) facts["request " + id] = Words(request);
  for (const auto& [id, entry] : model.cases) {
    facts["case " + id] = Words(entry.record);
    facts["personal part of " + id] = entry.record.personal ? entry.personal : "";
    if (entry.record.state == CaseState::kHeld) facts["held by " + id] = entry.subject;
  }
  for (const PendingErasure& pending : model.pending) {
    facts[absl::StrCat("pending ", pending.sequence)] = absl::StrCat(pending.keys);
  }
  return facts;
}

namespace {

// What a hold is on, as far as it is one of the subjects that there are.
absl::Status AddCases(TenantStore& store, Facts& facts) {
  for (const CaseKind kind : {CaseKind::kErasureRequest, CaseKind::kHold}) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<CaseRecord> cases, store.ListCases({.kind = kind}));
    for (const CaseRecord& record : cases) {
      facts["case " + record.id] = Words(record);
      std::string& personal = facts["personal part of " + record.id];
      if (!record.personal) continue;
      LETHE_ASSIGN_OR_RETURN(personal, store.GetCasePersonal(record.id));
    }
  }
  LETHE_ASSIGN_OR_RETURN(const std::vector<HeldSubject> held, store.ListHeldSubjects());
  for (const HeldSubject& hold : held) {
    for (const char* subject : kSubjects) {
      if (hold.key == store.HoldKeyOf(subject)) facts["held by " + hold.hold_id] = subject;
    }
  }
  return absl::OkStatus();
}

absl::Status AddMemory(TenantStore& store, const MemoryRecord& listed, Facts& facts) {
  LETHE_ASSIGN_OR_RETURN(const MemoryRecord memory, store.GetMemory(listed.uid));
  const std::string of = absl::StrCat(memory.name, ": ");
  facts[of + "record"] = Words(memory);
  absl::StatusOr<std::string> encoder = store.GetEncoder(memory.uid);
  if (!encoder.ok() && !absl::IsNotFound(encoder.status())) return encoder.status();
  facts[of + "encoder"] = encoder.ok() ? *std::move(encoder) : "";
  LETHE_RETURN_IF_ERROR(store.LoadTokens(memory.uid, [&](TokenRow& row) {
    facts[absl::StrCat(of, "row ", row.handle)] = EncodeToken(row);
    return absl::OkStatus();
  }));
  LETHE_ASSIGN_OR_RETURN(const MemoryCounts counts, store.CountMemory(memory.uid));
  facts[of + "counts"] = Words(counts.tokens, counts.subjects, counts.tombstones);
  LETHE_ASSIGN_OR_RETURN(const std::vector<IdLookup> lookups,
                         store.FindByIds(memory.uid, AllIds()));
  for (size_t i = 0; i < lookups.size(); ++i) {
    facts[of + "id " + AllIds()[i]] = lookups[i].state == IdState::kLive
                                          ? absl::StrCat("live ", lookups[i].handle)
                                      : lookups[i].state == IdState::kErased ? "erased"
                                                                             : "unknown";
  }
  for (const char* subject : kSubjects) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<uint64_t> handles,
                           store.FindBySubject(memory.uid, subject));
    facts[of + "subject " + subject] = absl::StrJoin(handles, ",");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Facts> FactsOf(TenantStore& store) {
  Facts facts;
  LETHE_ASSIGN_OR_RETURN(const TenantRecord tenant, store.GetTenant());
  facts["state"] = absl::StrCat(static_cast<int>(tenant.state));
  LETHE_ASSIGN_OR_RETURN(const uint64_t memories, store.CountMemories());
  facts["memories"] = absl::StrCat(memories);
  LETHE_ASSIGN_OR_RETURN(const std::vector<MemoryRecord> list, store.ListMemories("", 100));
  for (const MemoryRecord& memory : list) LETHE_RETURN_IF_ERROR(AddMemory(store, memory, facts));
  LETHE_RETURN_IF_ERROR(AddCases(store, facts));
  CertificateQuery query{.after_sequence = std::nullopt, .memory_name = "", .limit = 7};
  while (true) {
    LETHE_ASSIGN_OR_RETURN(const std::vector<CertificateRecord> records,
                           store.ListCertificates(query));
    if (records.empty()) break;
    query.after_sequence = records.back().sequence;
    for (const CertificateRecord& record : records) Add(record, facts);
  }
  LETHE_ASSIGN_OR_RETURN(const LogHead head, store.GetLogHead());
  facts["log"] = absl::StrCat(head.count, " ", head.checkpoint);
  LETHE_ASSIGN_OR_RETURN(const std::vector<LogKey> keys, store.GetLogKeys());
  for (const LogKey& key : keys) facts[absl::StrCat("key ", key.first_sequence)] = key.vkey;
  LETHE_ASSIGN_OR_RETURN(const std::vector<Cosignature> lines, store.GetCosignatures());
  for (const Cosignature& line : lines) {
    facts["cosignature"] = absl::StrCat(line.key_id, " ", line.size, " ", line.line);
  }
  for (const char* id : kRequests) {
    LETHE_ASSIGN_OR_RETURN(const std::optional<RequestRecord> request, store.FindRequest(id));
    if (request) facts[absl::StrCat("request ", id)] = Words(*request);
  }
  LETHE_ASSIGN_OR_RETURN(const std::vector<PendingErasure> pending, store.PendingErasures());
  for (const PendingErasure& erasure : pending) {
    facts[absl::StrCat("pending ", erasure.sequence)] = absl::StrCat(erasure.keys);
  }
  return facts;
}

std::string Difference(const Facts& wanted, const Facts& found) {
  for (const auto& [name, value] : wanted) {
    const auto other = found.find(name);
    if (other == found.end()) return absl::StrCat("'", name, "' is missing");
    if (other->second != value) {
      return absl::StrCat("'", name, "' is '", absl::CHexEscape(other->second.substr(0, 200)),
                          "', not '", absl::CHexEscape(value.substr(0, 200)), "'");
    }
  }
  for (const auto& [name, value] : found) {
    if (!wanted.contains(name)) return absl::StrCat("'", name, "' is there");
  }
  return "";
}

bool IsDone(const Model& model, const Step& step) {
  return step.idle ? step.idle(model) : model.done.contains(step.name);
}

void Apply(const Step& step, Model& model) {
  step.apply(model);
  if (!step.idle) model.done.insert(step.name);
}

void Acknowledge(const Step& step, Model& model) {
  Apply(step, model);
  if (!model.checkpoint.empty()) model.handed_out[model.log.size()] = model.checkpoint;
}

const Step* FindStep(const Chapter& chapter, const std::string& name) {
  for (const Step* step : {&DestroyKeys(), &AppendShredded()}) {
    if (step->name == name) return step;
  }
  const auto found = std::ranges::find(chapter.steps, name, &Step::name);
  return found == chapter.steps.end() ? nullptr : &*found;
}

void KeepFilesInRam() {
  constexpr char kFolder[] = "/dev/shm";
  if (::access(kFolder, W_OK) == 0) ::setenv("TMPDIR", kFolder, 1);
}

// --- Life

Life::Life(std::string dir, Model model) : dir_(std::move(dir)), model_(std::move(model)) {}

Life::~Life() = default;

bool Life::Wrong(const std::string& what) {
  if (problem_.empty()) problem_ = what;
  return false;
}

absl::Status Life::Make() {
  // What an attempt before left was never a tenant; the server removes it in the same way.
  store_.reset();
  std::filesystem::remove_all(dir_);
  std::filesystem::create_directory(dir_);
  LETHE_ASSIGN_OR_RETURN(store_, CreateTenantStore(dir_, TestTenant(), TestOptions(dir_)));
  return absl::OkStatus();
}

absl::Status Life::Copy() {
  const std::string path = dir_ + "/copy.db";
  std::filesystem::remove(path);  // what a crash left; the server empties its folder for copies
  const absl::StatusOr<TenantCopy> copy = store_->CopyTo(path);
  if (!copy.ok()) {
    if (!off() && std::filesystem::exists(path)) Wrong("a copy that failed is there");
    return copy.status();
  }
  if (copy->log.count != model_.log.size()) Wrong("the copy says another size of the log");
  return absl::OkStatus();
}

absl::Status Life::Restore() {
  const std::string dir = dir_ + "/restored";
  std::filesystem::remove_all(dir);
  std::filesystem::create_directory(dir);
  std::filesystem::copy(dir_ + "/copy.db", dir + "/tenant.db");
  const RestoreCertifier certify = [this](const RestoreReport&, const LogHead& head,
                                          std::span<const LogKey>) {
    model_.restored_size = head.count + 1;
    return NextCertificate(head);
  };
  LETHE_ASSIGN_OR_RETURN(const RestoreReport report,
                         RestoreTenantStore(dir, TestOptions(dir_), certify, 0));
  std::filesystem::rename(dir + "/tenant.db", dir_ + "/tenant.db");
  FinishRestore(TestOptions(dir_), report).IgnoreError();  // a later one says too much, no more
  return absl::OkStatus();
}

absl::Status Life::Read() {
  LETHE_ASSIGN_OR_RETURN(const Facts found, FactsOf(*store_));
  Compare("read", found);
  return absl::OkStatus();
}

bool Life::Compare(const std::string& when, const Facts& found) {
  const std::string difference = Difference(FactsOf(model_), found);
  if (difference.empty()) return true;
  wrong_ = found;
  return Wrong(absl::StrCat(when, ": ", difference));
}

void Life::Close() {
  store_.reset();
  closed();
}

// Roots are made from the bytes of the leaves.
bool Life::CheckLog() {
  std::vector<Bytes32> leaves;
  for (const CertificateRecord& record : model_.log) {
    leaves.push_back(OpenSslSha256(std::string(1, '\0') + record.leaf));
  }
  const auto note_of = [&](uint64_t size) {
    return TestNote(size, TreeRoot(std::span<const Bytes32>(leaves).first(size)));
  };
  if (!model_.checkpoint.empty() && model_.checkpoint != note_of(leaves.size())) {
    return Wrong("the checkpoint is not over the leaves");
  }
  for (const auto& [size, note] : model_.handed_out) {
    if (size > leaves.size() || note != note_of(size)) {
      return Wrong(absl::StrCat("the checkpoint of size ", size, " is over another log"));
    }
  }
  return true;
}

void Life::Resolve(const Facts& found) {
  const Step* const step = std::exchange(doubted_, nullptr);
  if (step == nullptr || found == FactsOf(model_)) return;
  Model after = model_;
  step->apply(after);
  if (found != FactsOf(after)) return;
  Apply(*step, model_);
  ++happened_;
}

bool Life::Open() {
  absl::Status status;
  for (int tries = 0; tries < kTries; ++tries) {
    if (tries > 0) {
      ++refused_;
      Close();
    }
    const std::optional<TenantGlance> glance = GlanceAtTenant(dir_, TestOptions(dir_).vault);
    absl::StatusOr<std::unique_ptr<TenantStore>> opened = OpenTenantStore(dir_, TestOptions(dir_));
    status = opened.status();
    if (!status.ok()) continue;
    store_ = *std::move(opened);
    const absl::StatusOr<Facts> found = FactsOf(*store_);
    status = found.status();
    if (!status.ok()) continue;
    Resolve(*found);
    if (!Compare("opened", *found)) return false;
    if (!CheckLog()) return false;
    if (glance.has_value() &&
        (glance->head.count != model_.log.size() || glance->head.checkpoint != model_.checkpoint ||
         glance->memories != model_.memories.size() || !model_.pending.empty() ||
         model_.state != TenantState::kOpen)) {
      return Wrong("the look at the closed file says something else");
    }
    // As a server does before it serves.
    status = store_->Checkpoint();
    if (!status.ok()) continue;
    if (model_.state != TenantState::kOpen) return true;
    return Take(DestroyKeys()) && Take(AppendShredded());
  }
  return Wrong(absl::StrCat("cannot be opened: ", status.ToString()));
}

// What was committed is cleaned up before it is answered.
bool Life::Clean() {
  if (unclean_.ok()) return true;
  unclean_ = absl::OkStatus();
  if (!off() && store_->Health().ok() && store_->Checkpoint().ok()) return true;
  Close();
  return Open();
}

bool Life::Judge(const Step& step, const absl::Status& status) {
  ++failed_;
  failing_ = &step;
  const bool indeterminate = IsIndeterminate(status);
  if (indeterminate) ++indeterminate_;
  if (!model_.made || step.while_closed) {
    Close();
    return true;
  }
  doubted_ = indeterminate || step.late_errors ? &step : nullptr;
  if (off() || store_ == nullptr || !store_->Health().ok()) {
    Close();
    return Open();
  }
  if (indeterminate) return Wrong("indeterminate, and the store goes on");
  const absl::StatusOr<Facts> found = FactsOf(*store_);
  if (!found.ok()) return Wrong("cannot be read: " + found.status().ToString());
  Resolve(*found);
  return Compare("failed and changed something", *found) && CompareAsKilled();
}

// The files as they stand are what a kill at this moment would leave.
bool Life::CompareAsKilled() {
  const std::string killed = dir_ + ".killed";
  std::filesystem::remove_all(killed);
  std::filesystem::copy(dir_, killed, std::filesystem::copy_options::recursive);
  const auto opened = OpenTenantStore(killed, TestOptions(killed));
  if (!opened.ok()) return Wrong("killed, cannot be opened: " + opened.status().ToString());
  const absl::StatusOr<Facts> found = FactsOf(**opened);
  if (!found.ok()) return Wrong("killed, cannot be read: " + found.status().ToString());
  return Compare("failed, and after a kill it has changed something", *found);
}

bool Life::Take(const Step& step) {
  for (int tries = 0;; ++tries) {
    if (step.while_closed && !IsDone(model_, step)) {
      doubted_ = nullptr;
      Close();
    } else if (store_ == nullptr && model_.made && !Open()) {
      return false;
    }
    if (IsDone(model_, step)) return true;
    begun(step);
    const absl::Status status = step.run(*this);
    if (!problem_.empty()) return false;
    if (status.ok()) {
      failing_ = nullptr;
      Acknowledge(step, model_);
      if (!Clean()) return false;
      acknowledged(step);
      return true;
    }
    if (!Judge(step, status)) {
      absl::StrAppend(&problem_, " (after '", step.name, "' answered ", status.ToString(), ")");
      return false;
    }
    if (tries == kTries) return Wrong(absl::StrCat(step.name, ": ", status.ToString()));
  }
}

bool Life::Live(const Chapter& chapter) {
  for (const Step& step : chapter.steps) {
    if (!Take(step)) return false;
  }
  Close();
  return true;
}

std::vector<Model> Life::Possible() const {
  std::vector<Model> models = {model_};
  if (failing_ != nullptr && !IsDone(model_, *failing_)) {
    failing_->apply(models.emplace_back(model_));
  }
  return models;
}

bool Life::Look() {
  if (!Open()) return false;
  Close();
  return true;
}

}  // namespace lethe::store
