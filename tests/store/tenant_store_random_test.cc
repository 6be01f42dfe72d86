// Random sequences of operations against a model of std::map, with refused operations and reopening
// in between. The seed is printed; LETHE_TEST_SEED repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

struct ModelMemory {
  MemoryRecord record;
  std::map<uint64_t, TokenRow> tokens;
  std::set<std::string> erased;
};

struct Model {
  std::map<std::string, ModelMemory> memories;  // by uid
  std::vector<CertificateRecord> log;
  std::map<std::string, RequestRecord> requests;
};

class RandomOperations : public ::testing::TestWithParam<Engine> {
 protected:
  void Run(uint64_t seed, int steps);
  void Step();
  void Insert(ModelMemory& memory);
  void Erase(ModelMemory& memory);
  void Delete(ModelMemory& memory);
  void Compare();
  void CompareMemory(const ModelMemory& memory);

  uint64_t Draw(uint64_t below) { return random_() % below; }
  ModelMemory* AnyMemory() {
    if (model_.memories.empty()) return nullptr;
    return &std::next(model_.memories.begin(),
                      static_cast<std::ptrdiff_t>(Draw(model_.memories.size())))
                ->second;
  }
  std::optional<RequestRecord> MaybeRequest() {
    if (Draw(2) == 0) return std::nullopt;
    return TestRequest(absl::StrCat("request-", next_request_++));
  }
  CertificateAppend Certificate(const ModelMemory& memory) {
    return NextCertificate(HeadOf(model_.log), memory.record.uid, memory.record.name);
  }

  std::mt19937_64 random_;
  std::unique_ptr<TenantStore> store_;
  Model model_;
  uint64_t next_memory_ = 1;
  uint64_t next_request_ = 1;
};

void RandomOperations::Insert(ModelMemory& memory) {
  std::vector<TokenRow> rows;
  std::set<std::string> ids;
  for (const auto& [handle, row] : memory.tokens) ids.insert(row.id);
  bool clash = false;
  uint64_t handle = memory.record.next_handle;
  for (uint64_t count = 1 + Draw(6); count > 0; --count) {
    // Few ids, so that many are taken or were erased before.
    const std::string id = absl::StrCat("id-", Draw(60));
    if (!ids.insert(id).second) {
      if (Draw(20) != 0) continue;
      clash = true;
    }
    handle += Draw(3);
    rows.push_back(RandomRow(random_, handle++, id));
  }
  if (rows.empty()) return;
  const absl::Status status = store_->InsertTokens(memory.record.uid, rows);
  if (clash) {
    EXPECT_CODE(status, absl::StatusCode::kAlreadyExists);
    return;
  }
  ASSERT_OK(status);
  memory.record.next_handle = handle;
  for (TokenRow& row : rows) {
    memory.erased.erase(row.id);
    memory.tokens[row.handle] = std::move(row);
  }
}

void RandomOperations::Erase(ModelMemory& memory) {
  EraseRequest request{memory.record.uid, {}, Certificate(memory), MaybeRequest()};
  for (const auto& [handle, row] : memory.tokens) {
    if (Draw(4) == 0) request.handles.push_back(handle);
  }
  if (request.handles.empty()) return;
  std::shuffle(request.handles.begin(), request.handles.end(), random_);
  // Every other time some come back under new handles with other content.
  uint64_t next_handle = memory.record.next_handle;
  if (Draw(2) == 0) {
    for (uint64_t handle : request.handles) {
      if (Draw(2) != 0) continue;
      next_handle += Draw(3);
      request.replacements.push_back(
          RandomRow(random_, next_handle++, memory.tokens.at(handle).id));
    }
  }
  if (Draw(6) == 0) {
    request.certificate.verify = [](const WrittenCertificate&) { return absl::AbortedError("no"); };
    EXPECT_CODE(store_->EraseTokens(request), absl::StatusCode::kAborted);
    return;
  }
  auto result = store_->EraseTokens(request);
  ASSERT_OK(result);
  EXPECT_OK(result->checkpoint);
  EXPECT_EQ(result->erased, request.handles.size());
  for (uint64_t handle : request.handles) {
    memory.erased.insert(memory.tokens.at(handle).id);
    memory.tokens.erase(handle);
  }
  if (!request.replacements.empty()) memory.record.next_handle = next_handle;
  for (const TokenRow& row : request.replacements) {
    memory.erased.erase(row.id);
    memory.tokens[row.handle] = row;
  }
  model_.log.push_back(request.certificate.record);
  if (request.request) model_.requests[request.request->request_id] = *request.request;
}

void RandomOperations::Delete(ModelMemory& memory) {
  DeleteMemoryRequest request{memory.record.uid, Certificate(memory), MaybeRequest()};
  auto result = store_->DeleteMemory(request);
  ASSERT_OK(result);
  EXPECT_EQ(result->erased, memory.tokens.size());
  model_.log.push_back(request.certificate->record);
  if (request.request) model_.requests[request.request->request_id] = *request.request;
  model_.memories.erase(memory.record.uid);
}

void RandomOperations::Step() {
  ModelMemory* memory = AnyMemory();
  const uint64_t choice = Draw(100);
  if (memory == nullptr || choice < 4) {
    MemoryRecord record = TestMemory(next_memory_++);
    record.name = absl::StrCat("name-", Draw(4));
    bool taken = false;
    for (const auto& [uid, other] : model_.memories) taken |= other.record.name == record.name;
    const absl::Status status = store_->CreateMemory(record);
    EXPECT_CODE(status, taken ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kOk);
    if (!taken) model_.memories[record.uid].record = record;
  } else if (choice < 60) {
    Insert(*memory);
  } else if (choice < 90) {
    Erase(*memory);
  } else if (choice < 93) {
    Delete(*memory);
  } else {
    const std::optional<RequestRecord> request = MaybeRequest();
    if (!request) return;
    ASSERT_OK(store_->RecordRequest(*request));
    model_.requests[request->request_id] = *request;
  }
}

void RandomOperations::CompareMemory(const ModelMemory& memory) {
  const std::string& uid = memory.record.uid;
  std::vector<TokenRow> expected;
  std::map<std::string, std::vector<uint64_t>> subjects;
  std::map<std::string, uint64_t> live;
  for (const auto& [handle, row] : memory.tokens) {
    expected.push_back(row);
    live[row.id] = handle;
    if (!row.subject.empty()) subjects[row.subject].push_back(handle);
  }
  EXPECT_EQ(LoadAll(*store_, uid), expected);
  auto record = store_->GetMemoryByName(memory.record.name);
  ASSERT_OK(record);
  EXPECT_EQ(record->uid, uid);
  EXPECT_EQ(record->next_handle, memory.record.next_handle);
  std::vector<std::string> ids;
  for (int i = 0; i < 60; ++i) ids.push_back(absl::StrCat("id-", i));
  auto lookups = store_->FindByIds(uid, ids);
  ASSERT_OK(lookups);
  for (size_t i = 0; i < ids.size(); ++i) {
    const IdLookup& lookup = (*lookups)[i];
    const IdState state = live.contains(ids[i])            ? IdState::kLive
                          : memory.erased.contains(ids[i]) ? IdState::kErased
                                                           : IdState::kUnknown;
    EXPECT_EQ(lookup.state, state) << ids[i];
    EXPECT_EQ(lookup.handle, state == IdState::kLive ? live[ids[i]] : 0) << ids[i];
  }
  for (int i = 0; i < 5; ++i) {
    const std::string subject = absl::StrCat("subject-", i);
    EXPECT_EQ(*store_->FindBySubject(uid, subject), subjects[subject]);
    if (subjects[subject].empty()) subjects.erase(subject);
  }
  auto counts = store_->CountMemory(uid);
  ASSERT_OK(counts);
  EXPECT_EQ(counts->tokens, memory.tokens.size());
  EXPECT_EQ(counts->subjects, subjects.size());
  EXPECT_EQ(counts->tombstones, memory.erased.size());
}

void RandomOperations::Compare() {
  EXPECT_EQ(*store_->CountMemories(), model_.memories.size());
  for (const auto& [uid, memory] : model_.memories) CompareMemory(memory);
  const std::vector<CertificateRecord> log = WholeLog(*store_, 50);
  EXPECT_EQ(log, model_.log);
  ExpectLogIsChained(log);
  for (const auto& [id, request] : model_.requests) EXPECT_EQ(*store_->FindRequest(id), request);
}

void RandomOperations::Run(uint64_t seed, int steps) {
  SCOPED_TRACE(absl::StrCat("LETHE_TEST_SEED=", seed));
  random_.seed(seed);
  TempFolder folder;
  auto created = GetParam().create(folder.path(), TestTenant());
  ASSERT_OK(created);
  store_ = std::move(*created);
  for (int i = 0; i < steps && !HasFailure(); ++i) {
    Step();
    if (Draw(15) != 0) continue;
    if (Draw(2) == 0) {
      store_.reset();
      auto opened = GetParam().open(folder.path());
      ASSERT_OK(opened);
      store_ = std::move(*opened);
    }
    Compare();
  }
  Compare();
  store_.reset();
}

TEST_P(RandomOperations, AgreeWithTheModel) {
  const char* fixed = std::getenv("LETHE_TEST_SEED");
  if (fixed != nullptr) {
    Run(std::strtoull(fixed, nullptr, 10), 250);
    return;
  }
  std::random_device entropy;
  for (uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{entropy()}}) {
    std::cout << "LETHE_TEST_SEED=" << seed << std::endl;
    model_ = Model();
    Run(seed, 250);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines,
                         RandomOperations,
                         ::testing::ValuesIn(AllEngines()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lethe::store
