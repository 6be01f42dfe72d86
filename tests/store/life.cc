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
constexpr std::array<const char*, 7> kRequests = {"r0", "r1", "r2", "r3", "r4", "r5", "r6"};

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
std::string Words(uint64_t tokens, uint64_t subjects, uint64_t tombstones) {
  return absl::StrCat(tokens, " ", subjects, " ", tombstones);
}

// --- What steps are made of

// A row of an insert: its id, its subject.
struct NewRow {
  std::string id;
  std::string subject;
};

std::vector<TokenRow> RowsFor(const ModelMemory& memory, const std::vector<NewRow>& wanted) {
  std::vector<TokenRow> rows;
  uint64_t handle = memory.record.next_handle;
  for (const NewRow& row : wanted) {
    rows.push_back(TestRow(handle, row.id, row.subject));
    // A chain of overflow pages.
    if (row.id == "long") rows.back().payload = std::string(9000, 'l');
    handle += 1 + row.id.size();  // gaps
  }
  return rows;
}

void PutRows(ModelMemory& memory, const std::vector<TokenRow>& rows) {
  for (const TokenRow& row : rows) {
    memory.erased.erase(row.id);
    memory.rows[row.handle] = row;
    memory.record.next_handle = row.handle + 1;
  }
}

std::vector<uint64_t> HandlesOf(const ModelMemory& memory, const std::vector<std::string>& ids) {
  std::vector<uint64_t> handles;
  for (const auto& [handle, row] : memory.rows) {
    if (std::ranges::find(ids, row.id) != ids.end()) handles.push_back(handle);
  }
  return handles;
}

// Takes the rows out; the number of keys that are to be destroyed for it.
uint64_t TakeRows(Model& model, ModelMemory& memory, const std::vector<uint64_t>& handles) {
  std::set<std::string> subjects;
  uint64_t keys = 0;
  for (const uint64_t handle : handles) {
    const TokenRow& row = memory.rows.at(handle);
    if (row.subject.empty() || subjects.insert(row.subject).second) ++keys;
    memory.erased.insert(row.id);
    model.erased_rows.insert({memory.record.uid, handle});
    memory.rows.erase(handle);
  }
  return keys;
}

CertificateAppend NextOf(const Model& model, uint64_t memory = 0) {
  const MemoryRecord record = TestMemory(memory);
  return NextCertificate(HeadOf(model.log), memory == 0 ? "" : record.uid,
                         memory == 0 ? "" : record.name);
}

CertificateAppend HandOverOf(const Model& model) {
  CertificateAppend append = NextOf(model);
  append.next_vkey = "another key";
  return append;
}

void Append(Model& model, const CertificateAppend& append) {
  model.log.push_back(append.record);
  model.checkpoint = append.checkpoint;
  model.cosignatures.clear();
  if (append.next_vkey) {
    model.keys.push_back({.first_sequence = model.log.size(), .vkey = *append.next_vkey});
  }
}

absl::Status Committed(Life& life, const absl::StatusOr<EraseResult>& result) {
  if (result.ok()) life.Unclean(result->checkpoint);
  return result.status();
}

Step CreateMemory(uint64_t number) {
  return {.name = absl::StrCat("create memory ", number),
          .run = [=](Life& life) { return life.store().CreateMemory(TestMemory(number)); },
          .apply =
              [=](Model& model) {
                const MemoryRecord record = TestMemory(number);
                model.memories[record.uid] = {.record = record, .rows = {}, .erased = {}};
              }};
}

Step Insert(uint64_t memory, const std::vector<NewRow>& rows) {
  const std::string uid = TestMemory(memory).uid;
  return {.name = absl::StrCat("insert ", rows.front().id, " into memory ", memory),
          .run =
              [=](Life& life) {
                return life.store().InsertTokens(uid, RowsFor(life.model().memories.at(uid), rows));
              },
          .apply =
              [=](Model& model) {
                ModelMemory& found = model.memories.at(uid);
                PutRows(found, RowsFor(found, rows));
              }};
}

Step Erase(uint64_t memory,
           const std::vector<std::string>& ids,
           const std::string& request,
           const std::vector<NewRow>& replacements = {}) {
  const std::string uid = TestMemory(memory).uid;
  return {.name = absl::StrCat(replacements.empty() ? "erase " : "edit ", ids.front(),
                               " of memory ", memory),
          .run =
              [=](Life& life) {
                const ModelMemory& found = life.model().memories.at(uid);
                return Committed(life,
                                 life.store().EraseTokens(
                                     {uid, HandlesOf(found, ids), NextOf(life.model(), memory),
                                      TestRequest(request), RowsFor(found, replacements)}));
              },
          .apply =
              [=](Model& model) {
                ModelMemory& found = model.memories.at(uid);
                const std::vector<TokenRow> rows = RowsFor(found, replacements);
                const uint64_t keys = TakeRows(model, found, HandlesOf(found, ids));
                PutRows(found, rows);
                model.pending.push_back({.sequence = model.log.size(), .keys = keys});
                model.requests[request] = TestRequest(request);
                Append(model, NextOf(model, memory));
              }};
}

Step DeleteMemory(uint64_t memory, const std::string& request) {
  const std::string uid = TestMemory(memory).uid;
  return {.name = absl::StrCat("delete memory ", memory),
          .run =
              [=](Life& life) {
                return Committed(life, life.store().DeleteMemory({uid, NextOf(life.model(), memory),
                                                                  TestRequest(request)}));
              },
          .apply =
              [=](Model& model) {
                ModelMemory& found = model.memories.at(uid);
                std::vector<uint64_t> handles;
                for (const auto& [handle, row] : found.rows) handles.push_back(handle);
                const uint64_t keys = TakeRows(model, found, handles);
                model.memories.erase(uid);
                model.pending.push_back({.sequence = model.log.size(), .keys = keys});
                model.requests[request] = TestRequest(request);
                Append(model, NextOf(model, memory));
              }};
}

bool NothingPending(const Model& model) { return model.pending.empty(); }

const Step& DestroyKeys() {
  static const auto* const step =
      new Step{.name = "destroy keys",
               .run = [](Life& life) -> absl::Status {
                 const auto destroyed =
                     life.store().DestroyPendingKeys(life.model().pending.back().sequence);
                 return destroyed.ok() ? destroyed->evidence : destroyed.status();
               },
               .apply = [](Model& model) { model.shredded = model.erased_rows; },
               .idle = NothingPending};
  return *step;
}

const Step& AppendShredded() {
  static const auto* const step =
      new Step{.name = "append shredded",
               .run =
                   [](Life& life) {
                     return life.store().AppendShredded(NextOf(life.model()),
                                                        life.model().pending.back().sequence);
                   },
               .apply =
                   [](Model& model) {
                     model.pending.clear();
                     Append(model, NextOf(model));
                   },
               .idle = NothingPending};
  return *step;
}

Step Read(int number) {
  return {.name = absl::StrCat("read ", number), .run = [](Life& life) { return life.Read(); }};
}

Chapter Beginning() {
  Step make{.name = "make",
            .run = [](Life& life) { return life.Make(); },
            .apply = [](Model& model) { model.made = true; }};
  Step start{.name = "start the log",
             .run = [](Life& life) { return life.store().StartLog(TestStart()); },
             .apply =
                 [](Model& model) {
                   model.checkpoint = TestStart().checkpoint;
                   model.keys = {{.first_sequence = 0, .vkey = TestStart().vkey}};
                 }};
  Step request{.name = "record a request",
               .run = [](Life& life) { return life.store().RecordRequest(TestRequest("r0")); },
               .apply = [](Model& model) { model.requests["r0"] = TestRequest("r0"); }};
  return {"the beginning",
          {make, start, CreateMemory(1), CreateMemory(2),
           Insert(1, {{"a", "x"}, {"b", "x"}, {"c", "x"}, {"d", "y"}}),
           Insert(1, {{"e", "y"}, {"f", ""}, {"g", ""}, {"long", ""}}),
           Insert(2, {{"h", "z"}, {"a", "x"}, {"b", ""}}), request, Read(1)}};
}

Chapter HandOver() {
  Step hand_over{
      .name = "hand over the key",
      .run = [](Life& life) { return life.store().AppendCertificate(HandOverOf(life.model())); },
      .apply = [](Model& model) { Append(model, HandOverOf(model)); }};
  const auto signature = [](const Model& model) {
    return Cosignature{.key_id = "wkey", .size = model.log.size(), .line = "a line\n"};
  };
  Step cosign{
      .name = "put a cosignature",
      .run = [=](Life& life) { return life.store().PutCosignature(signature(life.model())); },
      .apply = [=](Model& model) { model.cosignatures = {signature(model)}; }};
  return {"a hand-over", {hand_over, cosign, Read(3), Erase(3, {"j"}, "r6")}};
}

Chapter End() {
  Step begin{.name = "begin to close",
             .run = [](Life& life) { return Committed(life, life.store().BeginClose()); },
             .apply =
                 [](Model& model) {
                   model.state = TenantState::kClosing;
                   for (const auto& [uid, memory] : model.memories) {
                     for (const auto& [handle, row] : memory.rows) {
                       model.erased_rows.insert({uid, handle});
                     }
                   }
                   model.memories.clear();
                   model.requests.clear();
                   model.pending.clear();
                 }};
  Step destroy{.name = "destroy all keys",
               .run = [](Life& life) -> absl::Status {
                 const auto destroyed = life.store().DestroyAllKeys();
                 return destroyed.ok() ? destroyed->evidence : destroyed.status();
               },
               .apply = [](Model& model) { model.shredded = model.erased_rows; }};
  Step finish{.name = "finish closing",
              .run = [](Life& life) { return life.store().FinishClose(NextOf(life.model())); },
              .apply =
                  [](Model& model) {
                    Append(model, NextOf(model));
                    model.state = TenantState::kClosed;
                  },
              .late_errors = true};
  return {"the end", {begin, destroy, finish, Read(4)}};
}

}  // namespace

std::vector<Chapter> TheLife() {
  Step check{.name = "append a check",
             .run = [](Life& life) { return life.store().AppendCertificate(NextOf(life.model())); },
             .apply = [](Model& model) { Append(model, NextOf(model)); }};
  Step checkpoint{.name = "empty the log",
                  .run = [](Life& life) { return life.store().Checkpoint(); }};
  return {Beginning(),
          {"a token",
           {Erase(1, {"f"}, "r1"), DestroyKeys(), AppendShredded(),
            Insert(1, {{"f", ""}, {"i", "x"}}), checkpoint}},
          {"a part of a subject",
           {Erase(1, {"b", "long"}, "r2"), DestroyKeys(), AppendShredded(), check}},
          {"a subject and an edit",
           {Erase(1, {"d", "e"}, "r3"), Erase(1, {"a", "g"}, "r4", {{"a", "x"}, {"g", "y"}}),
            DestroyKeys(), AppendShredded(), Read(2)}},
          {"a memory",
           {DeleteMemory(2, "r5"), DestroyKeys(), AppendShredded(), CreateMemory(3),
            Insert(3, {{"j", "z"}, {"k", ""}})}},
          HandOver(),
          End()};
}

// --- Facts

Facts FactsOf(const Model& model) {
  Facts facts;
  facts["state"] = absl::StrCat(static_cast<int>(model.state));
  facts["memories"] = absl::StrCat(model.memories.size());
  for (const auto& [uid, memory] : model.memories) {
    const std::string of = absl::StrCat(memory.record.name, ": ");
    facts[of + "record"] = Words(memory.record);
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
  for (const PendingErasure& pending : model.pending) {
    facts[absl::StrCat("pending ", pending.sequence)] = absl::StrCat(pending.keys);
  }
  return facts;
}

namespace {

absl::Status AddMemory(TenantStore& store, const MemoryRecord& listed, Facts& facts) {
  LETHE_ASSIGN_OR_RETURN(const MemoryRecord memory, store.GetMemory(listed.uid));
  const std::string of = absl::StrCat(memory.name, ": ");
  facts[of + "record"] = Words(memory);
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
    const std::optional<TenantGlance> glance = GlanceAtTenant(dir_);
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
  if (!model_.made) {
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
  return Compare("failed and changed something", *found);
}

bool Life::Take(const Step& step) {
  for (int tries = 0;; ++tries) {
    if (store_ == nullptr && model_.made && !Open()) return false;
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
