// The steps of a tenant's life and its chapters.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "store/anchor.h"
#include "tests/store/life.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

// Handles are noted in blocks; the first is noted with the first insert, up to handle 7.
constexpr uint64_t kNotedHandles = 8 + kHandleBlock;

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

Step CreateMemory(uint64_t number, const std::string& encoder = "") {
  return {.name = absl::StrCat("create memory ", number),
          .run = [=](Life& life) { return life.store().CreateMemory(TestMemory(number), encoder); },
          .apply =
              [=](Model& model) {
                const MemoryRecord record = TestMemory(number);
                model.memories[record.uid] = {
                    .record = record, .rows = {}, .erased = {}, .encoder = encoder};
              }};
}

Step DeleteEmptyMemory(uint64_t memory) {
  const std::string uid = TestMemory(memory).uid;
  return {.name = absl::StrCat("delete empty memory ", memory),
          .run =
              [=](Life& life) {
                return Committed(life, life.store().DeleteMemory({uid, std::nullopt, {}}));
              },
          .apply = [=](Model& model) { model.memories.erase(uid); }};
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

// Cases: an erasure request is number 1, a hold number 2.
std::string CaseId(uint64_t number) { return TestMemory(100 + number).uid; }

ModelCase FirstOf(uint64_t number) {
  const bool hold = number == 2;
  ModelCase made{.record = {.number = number,
                            .id = CaseId(number),
                            .kind = hold ? CaseKind::kHold : CaseKind::kErasureRequest,
                            .state = hold ? CaseState::kHeld : CaseState::kPending,
                            .received_micros = 10,
                            .due_micros = 20,
                            .wake_micros = 15,
                            .facts = "facts",
                            .personal = true},
                 .personal = absl::StrCat("who asked ", number),
                 .subject = hold ? "x" : ""};
  if (hold) made.record.wake_micros.reset();
  return made;
}

Step MakeCase(uint64_t number) {
  return {.name = absl::StrCat("make case ", number),
          .run =
              [=](Life& life) {
                const ModelCase made = FirstOf(number);
                return life.store()
                    .CreateCase({.record = made.record,
                                 .personal = made.personal,
                                 .subject = made.subject,
                                 .request = TestRequest(absl::StrCat("case ", number))})
                    .status();
              },
          .apply =
              [=](Model& model) {
                const std::string key = absl::StrCat("case ", number);
                model.requests[key] = TestRequest(key);
                model.cases[CaseId(number)] = FirstOf(number);
              }};
}

Step ChangeCase(uint64_t number) {
  const auto change = [](ModelCase& entry) {
    entry.record.state = CaseState::kInProgress;
    entry.record.callback_micros = 30;
    entry.record.facts = std::string(9000, 'f');  // a chain of overflow pages
    entry.personal = "who asked, and where to call";
  };
  return {
      .name = absl::StrCat("change case ", number),
      .run =
          [=](Life& life) {
            ModelCase entry = life.model().cases.at(CaseId(number));
            change(entry);
            return life.store().UpdateCase({.record = entry.record, .personal = entry.personal});
          },
      .apply = [=](Model& model) { change(model.cases.at(CaseId(number))); }};
}

Step EndCase(uint64_t number, CaseState state) {
  return {.name = absl::StrCat("end case ", number),
          .run =
              [=](Life& life) {
                CaseRecord record = life.model().cases.at(CaseId(number)).record;
                record.state = state;
                return life.store().UpdateCase(
                    {.record = record, .personal = {}, .end_personal = true});
              },
          .apply =
              [=](Model& model) {
                CaseRecord& record = model.cases.at(CaseId(number)).record;
                record.state = state;
                record.personal = false;
              }};
}

Step DestroyEndedKeys() {
  return {.name = "destroy ended keys", .run = [](Life& life) -> absl::Status {
            const auto destroyed = life.store().DestroyEndedKeys();
            return destroyed.ok() ? destroyed->evidence : destroyed.status();
          }};
}

Step FinishEndedKeys() {
  return {.name = "finish ended keys",
          .run = [](Life& life) { return life.store().FinishEndedKeys(); },
          .apply =
              [](Model& model) {
                for (auto& [id, entry] : model.cases) {
                  if (entry.record.personal) continue;
                  entry.record.wake_micros.reset();
                  entry.record.callback_micros.reset();
                }
              }};
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

// What a restore makes of the copy and of what has happened since.
void RestoreModel(Model& model) {
  std::map<std::string, ModelMemory> restored;
  for (const auto& [uid, copied] : model.copy->memories) {
    if (!model.memories.contains(uid)) continue;
    ModelMemory& memory = restored[uid] = copied;
    memory.record.next_handle = std::max(copied.record.next_handle, kNotedHandles);
    std::set<std::string> subjects;  // whose key is gone
    for (const auto& [handle, row] : copied.rows) {
      if (!model.erased_rows.contains({uid, handle})) continue;
      memory.rows.erase(handle);
      memory.erased.insert(row.id);
      if (!row.subject.empty()) subjects.insert(row.subject);
    }
    std::erase_if(memory.rows,
                  [&](const auto& entry) { return subjects.contains(entry.second.subject); });
  }
  // What is lost is lost with its key, but for a row whose subject is there under the same key.
  const auto keeps_key = [&](const std::string& uid, const std::string& subject) {
    return !subject.empty() && restored.contains(uid) &&
           std::ranges::any_of(restored[uid].rows,
                               [&](const auto& entry) { return entry.second.subject == subject; });
  };
  const auto lose_others = [&](const std::map<std::string, ModelMemory>& memories) {
    for (const auto& [uid, memory] : memories) {
      for (const auto& [handle, row] : memory.rows) {
        const RowName name(uid, handle);
        if (restored.contains(uid) && restored[uid].rows.contains(handle)) continue;
        if (keeps_key(uid, row.subject)) continue;
        if (model.erased_rows.insert(name).second) model.shredded.insert(name);
      }
    }
  };
  lose_others(model.memories);
  lose_others(model.copy->memories);
  model.memories = std::move(restored);
  model.requests = model.copy->requests;
  // What ended since stays ended, and no more than that is known of it.
  std::map<std::string, ModelCase> cases = model.copy->cases;
  for (auto& [id, entry] : cases) {
    CaseRecord& record = entry.record;
    if (!record.personal || model.cases.at(id).record.personal) continue;
    record.state = record.kind == CaseKind::kHold ? CaseState::kReleased : CaseState::kFailed;
    record.personal = false;
    record.wake_micros.reset();
    record.callback_micros.reset();
  }
  model.cases = std::move(cases);
  // One for this restore, and one for each that did not come to its end behind the anchor.
  do Append(model, NextOf(model));
  while (model.log.size() < model.restored_size);
}

Step CopyFile() {
  return {.name = "copy the file",
          .run = [](Life& life) { return life.Copy(); },
          .apply = [](Model& model) { model.copy = std::make_shared<const Model>(model); }};
}

Step RestoreFile() {
  return {.name = "restore the copy",
          .run = [](Life& life) { return life.Restore(); },
          .apply = RestoreModel,
          .while_closed = true};
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
  return {"a hand-over", {hand_over, cosign, Read(3), Erase(3, {"j"}, "r9")}};
}

// A new key-encryption key. No fact of the model changes by it: every row opens as before, whatever
// comes in between. That the old one is gone can be asked of the store.
Chapter NewKek() {
  Step change{.name = "change the key-encryption key", .run = [](Life& life) -> absl::Status {
                LETHE_ASSIGN_OR_RETURN(const KeysRewrapped changed, life.store().RotateKeys());
                LETHE_ASSIGN_OR_RETURN(const KeysRewrapped left, life.store().FinishRotation());
                LETHE_ASSIGN_OR_RETURN(const auto ended, life.store().EndedEpochs());
                const bool whole = changed.keys > 0 && left.keys == 0 &&
                                   left.epoch == changed.epoch && !ended.empty() &&
                                   ended.back() + 1 == changed.epoch;
                return whole ? absl::OkStatus()
                             : absl::FailedPreconditionError("answered before it was whole");
              }};
  Step named{.name = "forget ended epochs", .run = [](Life& life) -> absl::Status {
               LETHE_ASSIGN_OR_RETURN(const auto ended, life.store().EndedEpochs());
               return ended.empty() ? absl::OkStatus()
                                    : life.store().ForgetEndedEpochs(ended.back());
             }};
  return {"a new key-encryption key",
          {Erase(3, {"k"}, "r6"), DestroyKeys(), change, Read(6), AppendShredded(), named,
           Insert(3, {{"k", "z"}})}};
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
                   model.cases.clear();
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

bool NothingPending(const Model& model) { return model.pending.empty(); }

}  // namespace

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

std::vector<Chapter> TheLife() {
  Step check{.name = "append a check",
             .run = [](Life& life) { return life.store().AppendCertificate(NextOf(life.model())); },
             .apply = [](Model& model) { Append(model, NextOf(model)); }};
  Step checkpoint{.name = "empty the log",
                  .run = [](Life& life) { return life.store().Checkpoint(); }};
  std::vector<Chapter> chapters = {
      Beginning(),
      {"a token",
       {Erase(1, {"f"}, "r1"), DestroyKeys(), AppendShredded(), Insert(1, {{"f", ""}, {"i", "x"}}),
        checkpoint}},
      {"a part of a subject",
       {Erase(1, {"b", "long"}, "r2"), DestroyKeys(), AppendShredded(), check}},
      {"a subject and an edit",
       {Erase(1, {"d", "e"}, "r3"), Erase(1, {"a", "g"}, "r4", {{"a", "x"}, {"g", "y"}}),
        DestroyKeys(), AppendShredded(), Read(2)}},
      {"an erasure request and a hold",
       {MakeCase(1), MakeCase(2), ChangeCase(1), EndCase(1, CaseState::kCompleted),
        DestroyEndedKeys(), FinishEndedKeys(), Read(7)}},
      {"a copy",
       {CopyFile(), Erase(1, {"c"}, "r7"), DestroyKeys(), AppendShredded(), Insert(1, {{"d", "y"}}),
        EndCase(2, CaseState::kReleased), DestroyEndedKeys(), FinishEndedKeys(),
        Erase(1, {"f"}, "r8")}},
      {"a restore", {RestoreFile(), Read(5), Insert(1, {{"d", "y"}, {"c", "x"}})}},
      {"a memory",
       {DeleteMemory(2, "r5"), DestroyKeys(), AppendShredded(), CreateMemory(3),
        Insert(3, {{"j", "z"}, {"k", ""}})}},
      {"encoders",
       {CreateMemory(4, "an encoder"), CreateMemory(5, "another"), DeleteEmptyMemory(4),
        DestroyEndedKeys(), FinishEndedKeys(), Insert(5, {{"a", ""}}), DeleteMemory(5, "r10"),
        DestroyKeys(), AppendShredded(), DestroyEndedKeys(), FinishEndedKeys(),
        CreateMemory(6, "the last")}},
      NewKek(),
      HandOver(),
      End()};
  // Some steps are alike; a step is known by its name.
  int number = 0;
  for (Chapter& chapter : chapters) {
    for (Step& step : chapter.steps) {
      if (!step.idle) step.name = absl::StrCat(++number, " ", step.name);
    }
  }
  return chapters;
}

}  // namespace lethe::store
