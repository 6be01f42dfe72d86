// JobStore: what it keeps, and a fault of every kind at the I/O of a life. By default a sample;
// LETHE_FAULTS=all strikes every position. LETHE_TEST_SEED repeats a run.
#include "store/job_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/store/fault_vfs.h"
#include "tests/store/store_testing.h"

namespace lethe::store {
namespace {

uint64_t Seed() {
  static const uint64_t seed = [] {
    const char* fixed = std::getenv("LETHE_TEST_SEED");
    const uint64_t drawn =
        fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    std::cout << "LETHE_TEST_SEED=" << drawn << std::endl;
    return drawn;
  }();
  return seed;
}

// What anybody can see of a job.
struct View {
  int state = 0;
  std::string lease;
  std::string facts;
  uint64_t handles = 0;
  std::vector<std::string> files;  // contents
  bool operator==(const View&) const = default;
};
using Model = std::map<std::string, View>;

std::string IdOf(int number) { return absl::StrCat(std::string(31, 'a'), number); }

// A data folder with its jobs, as a server has it.
class Folder {
 public:
  explicit Folder(const std::string& path) : path_(path) {
    std::filesystem::create_directories(path + "/vault");
    std::filesystem::create_directories(path + "/temporary");
  }
  absl::Status Open() {
    records.clear();
    files.clear();
    store.reset();
    const JobStore::Place place{
        .folder = path_ + "/jobs",
        .vault = path_ + "/vault/jobs",
        .new_path = [this] { return absl::StrCat(path_, "/temporary/", ++temporary_); },
        .kms = MakeFileKms};
    const absl::StatusOr<bool> there = JobStore::IsThere(place);
    if (!there.ok()) return there.status();
    if (!*there) {
      if (absl::Status made = JobStore::Create(place); !made.ok()) return made;
    }
    absl::StatusOr<JobStore::Opened> opened = JobStore::Open(place);
    if (!opened.ok()) return opened.status();
    store = std::move(opened->store);
    lost = opened->lost;
    for (JobRecord& record : opened->jobs) records[record.id] = record;
    for (const JobFile& file : opened->files) files[file.job].push_back(file);
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Content(const JobRecord& record, const JobFile& file) {
    std::string content;
    const absl::Status status = store->ReadFile(record, file, [&](absl::string_view piece) {
      content.append(piece.data(), piece.size());
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
    return content;
  }
  absl::StatusOr<Model> See() {
    Model model;
    for (const auto& [id, record] : records) {
      View view{.state = record.state,
                .lease = record.lease,
                .facts = record.facts,
                .handles = record.handles,
                .files = {}};
      for (const JobFile& file : files[record.number]) {
        absl::StatusOr<std::string> content = Content(record, file);
        if (!content.ok()) return content.status();
        view.files.push_back(*std::move(content));
      }
      if (record.handles != 0 && store->Snapshot(record.number)->size() != record.handles) {
        return absl::DataLossError("the snapshot has another size");
      }
      model[id] = std::move(view);
    }
    return model;
  }
  absl::Status PutFile(const std::string& id, JobFileKind kind, const std::string& content) {
    JobRecord record = records.at(id);
    const uint64_t sequence = record.next_file++;
    auto writer = store->NewFile(record, sequence, 1000);
    if (!writer.ok()) return writer.status();
    if (absl::Status status = (*writer)->Append(content); !status.ok()) return status;
    if (absl::Status status = (*writer)->Commit(); !status.ok()) return status;
    const JobFile file{.job = record.number,
                       .sequence = sequence,
                       .kind = kind,
                       .bytes = (*writer)->bytes(),
                       .sha256 = (*writer)->sha256(),
                       .step = 1};
    absl::Status status = store->UpdateWithFile(record, file, {});
    if (status.ok() || IsIndeterminate(status)) (*writer)->Keep();
    if (!status.ok()) return status;
    records[id] = record;
    files[record.number].push_back(file);
    return absl::OkStatus();
  }
  size_t FilesOnDisk() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(path_ + "/jobs/files"), {}));
  }
  const std::string& path() const { return path_; }

  std::unique_ptr<JobStore> store;
  std::map<std::string, JobRecord> records;
  std::map<uint64_t, std::vector<JobFile>> files;
  uint64_t lost = 0;

 private:
  const std::string path_;
  int temporary_ = 0;
};

JobRecord NewRecord(int number) {
  JobRecord record;
  record.id = IdOf(number);
  record.tenant_uid = std::string(32, 'b');
  record.memory_uid = std::string(32, 'c');
  record.spec = "spec";
  record.state = 1;
  record.facts = "new";
  return record;
}

// Where it fails, it is still to be done.
absl::Status FinishRemovals(Folder& folder) {
  const absl::Status status = folder.store->FinishRemovals();
  EXPECT_TRUE(status.ok() || folder.store->removals_pending()) << Struck();
  return status;
}

struct Step {
  std::string name;
  std::function<absl::Status(Folder&)> act;
  std::function<void(Model&)> effect;
};

std::vector<Step> Life() {
  const auto create = [](int number) {
    return Step{absl::StrCat("create ", number),
                [number](Folder& folder) {
                  absl::StatusOr<JobRecord> record = folder.store->Create(NewRecord(number));
                  if (record.ok()) folder.records[record->id] = *record;
                  return record.status();
                },
                [number](Model& model) {
                  model[IdOf(number)] = {.state = 1, .lease = "", .facts = "new"};
                }};
  };
  const auto change = [](int number, const std::string& lease, const std::string& facts) {
    return Step{absl::StrCat("change ", number),
                [=](Folder& folder) {
                  JobRecord record = folder.records.at(IdOf(number));
                  record.lease = lease;
                  record.facts = facts;
                  const absl::Status status = folder.store->Update({&record, 1});
                  if (status.ok()) folder.records[record.id] = record;
                  return status;
                },
                [=](Model& model) {
                  model[IdOf(number)].lease = lease;
                  model[IdOf(number)].facts = facts;
                }};
  };
  const auto put = [](int number, JobFileKind kind, const std::string& content) {
    return Step{absl::StrCat("file of ", number),
                [=](Folder& folder) { return folder.PutFile(IdOf(number), kind, content); },
                [=](Model& model) { model[IdOf(number)].files.push_back(content); }};
  };
  const Step snapshot{"snapshot",
                      [](Folder& folder) {
                        JobRecord record = folder.records.at(IdOf(1));
                        const std::vector<uint64_t> handles = {3, 4, 5, 9};
                        record.first_handle = 3;
                        record.last_handle = 9;
                        record.handles = handles.size();
                        const absl::Status status =
                            folder.store->UpdateWithSnapshot(record, handles);
                        if (status.ok()) folder.records[record.id] = record;
                        return status;
                      },
                      [](Model& model) { model[IdOf(1)].handles = 4; }};
  const Step over{"start over",
                  [](Folder& folder) {
                    std::vector<JobRecord> records = {folder.records.at(IdOf(1))};
                    records[0].lease.clear();
                    records[0].first_handle = records[0].last_handle = records[0].handles = 0;
                    absl::Status status = folder.store->UpdateWithout(
                        records, [](size_t) { return absl::OkStatus(); });
                    if (!status.ok()) return status;
                    folder.records[records[0].id] = records[0];
                    folder.files[records[0].number].clear();
                    return FinishRemovals(folder);
                  },
                  [](Model& model) {
                    View& view = model[IdOf(1)];
                    view.lease.clear();
                    view.handles = 0;
                    view.files.clear();
                  }};
  const Step remove{"remove",
                    [](Folder& folder) {
                      const JobRecord record = folder.records.at(IdOf(2));
                      absl::Status status = folder.store->Remove({&record, 1});
                      if (!status.ok()) return status;
                      folder.records.erase(record.id);
                      folder.files.erase(record.number);
                      return FinishRemovals(folder);
                    },
                    [](Model& model) { model.erase(IdOf(2)); }};
  return {create(1),
          create(2),
          change(1, "lease", "leased"),
          snapshot,
          put(1, JobFileKind::kCheckpoint, std::string(5000, 'x')),
          put(2, JobFileKind::kCheckpoint, "of the other"),
          over,
          put(1, JobFileKind::kArtefact, "artefact"),
          remove,
          change(1, "", "done")};
}

class JobStoreTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    static const bool once = [] {
      // The disk of the machine has no part in it.
      if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 1);
      InstallFaultVfs();
      return true;
    }();
    (void)once;
  }

  // Lives a life in which one call fails; what is acknowledged must be there, and what failed is
  // there whole or not at all. Returns how many calls the kind could have struck.
  uint64_t Live(const FaultPlan& plan) {
    TempFolder temp;
    Folder folder(temp.path());
    StartFaults(plan);
    Model model;
    uint64_t positions = 0;
    const auto settle = [&] {
      folder.store.reset();
      positions = std::max(positions, Settle());
    };
    // With whatever fault is left in force, unless the power is off.
    const auto reopen = [&]() -> bool {
      for (int tries = 0; tries < 3; ++tries) {
        if (PowerIsOff()) settle();
        if (const absl::Status opened = folder.Open(); opened.ok()) return true;
        folder.store.reset();
      }
      return false;
    };
    if (!reopen()) {
      ADD_FAILURE() << "cannot be opened: " << Struck() << " at " << plan.at;
      settle();
      return positions;
    }
    for (const Step& step : Life()) {
      Model after = model;
      step.effect(after);
      absl::Status status = step.act(folder);
      for (int tries = 0; !status.ok() && tries < 4; ++tries) {
        ++failed_;
        if (!reopen()) {
          ADD_FAILURE() << step.name << ": cannot be opened again: " << Struck() << " at "
                        << plan.at;
          settle();
          return positions;
        }
        const absl::StatusOr<Model> seen = folder.See();
        if (!seen.ok() || (*seen != model && *seen != after)) {
          ADD_FAILURE() << step.name << ": " << seen.status().message() << ": " << Struck()
                        << " at " << plan.at;
          settle();
          return positions;
        }
        status = *seen == after ? absl::OkStatus() : step.act(folder);
      }
      EXPECT_TRUE(status.ok()) << step.name << ": " << status.message();
      model = after;
    }
    settle();
    EXPECT_TRUE(folder.Open().ok());
    const absl::StatusOr<Model> seen = folder.See();
    EXPECT_TRUE(seen.ok() && *seen == model) << Struck() << " at " << plan.at;
    EXPECT_EQ(folder.FilesOnDisk(), 1u);
    EXPECT_FALSE(folder.store->removals_pending());
    EXPECT_EQ(folder.lost, 0u);
    folder.store.reset();
    return positions;
  }

  void StrikeEvery(FaultKind kind, uint64_t step) {
    const char* how = std::getenv("LETHE_FAULTS");
    if (how != nullptr && std::string(how) == "all") step = 1;
    const uint64_t positions = Live({.kind = kind, .at = 0, .seed = 0});
    ASSERT_GT(positions, 20u);
    failed_ = 0;
    std::mt19937_64 random(Seed());
    uint64_t struck = 0;
    for (uint64_t at = 1 + random() % step; at <= positions && !HasFailure(); at += step) {
      Live({.kind = kind, .at = at, .seed = Seed()});
      ++struck;
    }
    std::cout << positions << " positions, " << struck << " struck, " << failed_ << " steps failed"
              << std::endl;
    EXPECT_GT(failed_, 0u);
  }

  uint64_t failed_ = 0;
};

TEST_F(JobStoreTest, AnErrorAtAnyCall) { StrikeEvery(FaultKind::kError, 11); }
TEST_F(JobStoreTest, AShortWriteAtAnyCall) { StrikeEvery(FaultKind::kShort, 5); }
TEST_F(JobStoreTest, ALostSyncAtAnyCall) { StrikeEvery(FaultKind::kLostSync, 3); }
TEST_F(JobStoreTest, APowerCutAtAnyCall) { StrikeEvery(FaultKind::kPowerCut, 7); }

TEST_F(JobStoreTest, SnapshotsAreExact) {
  TempFolder temp;
  Folder folder(temp.path());
  StartFaults({});
  ASSERT_TRUE(folder.Open().ok());
  ASSERT_TRUE(folder.store->Create(NewRecord(1)).ok());
  std::mt19937_64 random(Seed());
  for (int round = 0; round < 30; ++round) {
    std::set<uint64_t> handles;
    const uint64_t spread = uint64_t{1} << (random() % 60 + 3);
    for (int i = 0; i < 40; ++i) {
      const uint64_t first = 1 + random() % spread;
      for (uint64_t j = 0; j <= random() % 6; ++j) handles.insert(first + j);
    }
    const std::vector<uint64_t> list(handles.begin(), handles.end());
    ASSERT_TRUE(folder.Open().ok());
    JobRecord record = folder.records.at(IdOf(1));
    record.handles = list.size();
    ASSERT_TRUE(folder.store->UpdateWithSnapshot(record, list).ok());
    EXPECT_EQ(*folder.store->Snapshot(record.number), list);
    for (int i = 0; i < 50; ++i) {
      std::set<uint64_t> asked;
      bool holds = false;
      for (int j = 0; j < 3; ++j) {
        const uint64_t handle =
            random() % 3 == 0 ? list[random() % list.size()] + random() % 2 : random() % spread;
        asked.insert(handle);
        holds = holds || handles.contains(handle);
      }
      const std::vector<uint64_t> question(asked.begin(), asked.end());
      const uint64_t numbers[] = {record.number};
      EXPECT_EQ(folder.store->SnapshotsThatHold(numbers, question)[0],
                holds ? JobStore::Holding::kYes : JobStore::Holding::kNo);
    }
  }
}

TEST_F(JobStoreTest, AFileThatWasTamperedWithIsRefused) {
  TempFolder temp;
  Folder folder(temp.path());
  StartFaults({});
  ASSERT_TRUE(folder.Open().ok());
  folder.records[IdOf(1)] = *folder.store->Create(NewRecord(1));
  const std::string content = std::string(kJobPieceBytes, 'a') + std::string(kJobPieceBytes, 'b');
  ASSERT_TRUE(folder.PutFile(IdOf(1), JobFileKind::kCheckpoint, content).ok());
  ASSERT_TRUE(folder.PutFile(IdOf(1), JobFileKind::kCheckpoint, content).ok());
  const JobRecord record = folder.records.at(IdOf(1));
  const std::vector<JobFile> files = folder.files.at(record.number);
  EXPECT_EQ(*folder.Content(record, files[0]), content);
  const std::string path = absl::StrCat(folder.path(), "/jobs/files/", record.id, "-");
  const auto refused = [&](const JobFile& file) {
    return absl::IsDataLoss(folder.Content(record, file).status());
  };
  JobFile longer = files[0];
  longer.bytes = kJobPieceBytes;
  EXPECT_TRUE(refused(longer)) << "a piece that is not the last one is no end";
  // One file in the place of another.
  std::filesystem::copy_file(path + "1", path + "2",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(refused(files[1]));
  std::filesystem::resize_file(path + "1", std::filesystem::file_size(path + "1") - 1);
  EXPECT_TRUE(refused(files[0]));
  std::filesystem::resize_file(path + "1", std::filesystem::file_size(path + "1") + 2);
  EXPECT_TRUE(refused(files[0]));
}

// Jobs.db and its keys belong together; what Create left half made does not count.
TEST_F(JobStoreTest, HalfOfItIsNotNothing) {
  TempFolder temp;
  Folder folder(temp.path());
  StartFaults({});
  ASSERT_TRUE(folder.Open().ok());
  folder.records[IdOf(1)] = *folder.store->Create(NewRecord(1));
  folder.store.reset();
  const std::string file = folder.path() + "/jobs/jobs.db";
  const std::string keys = folder.path() + "/vault/jobs/keys.db";
  for (const std::string& half : {file, keys}) {
    std::filesystem::rename(half, folder.path() + "/away");
    EXPECT_EQ(folder.Open().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(std::filesystem::exists(half));
    std::filesystem::rename(folder.path() + "/away", half);
  }
  ASSERT_TRUE(folder.Open().ok());
  EXPECT_TRUE(folder.records.contains(IdOf(1)));
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/jobs/unfinished"));
  folder.store.reset();
  // As a crash leaves it before the rows are in their place: there is no job yet.
  std::filesystem::rename(file, folder.path() + "/jobs/jobs.db.new");
  std::ofstream(folder.path() + "/jobs/unfinished").close();
  ASSERT_TRUE(folder.Open().ok());
  EXPECT_TRUE(folder.records.empty());
}

TEST_F(JobStoreTest, AClosedStoreLetsTheFilesGo) {
  TempFolder temp;
  Folder folder(temp.path());
  StartFaults({});
  ASSERT_TRUE(folder.Open().ok());
  const JobRecord record = *folder.store->Create(NewRecord(1));
  folder.records[record.id] = record;
  ASSERT_TRUE(folder.PutFile(record.id, JobFileKind::kArtefact, "content").ok());
  const JobFile file = folder.files.at(record.number).front();
  const std::unique_ptr<JobStore> closed = std::move(folder.store);
  auto writer = closed->NewFile(record, 9, 1000);
  ASSERT_TRUE(writer.ok());
  closed->Close();
  ASSERT_TRUE(folder.Open().ok());
  EXPECT_EQ((*writer)->Append(std::string(kJobPieceBytes + 1, 'x')).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      closed->ReadFile(record, file, [](absl::string_view) { return absl::OkStatus(); }).code(),
      absl::StatusCode::kUnavailable);
  EXPECT_EQ(*folder.Content(folder.records.at(record.id), file), "content");
}

TEST_F(JobStoreTest, TextsAreOfTheirJobAlone) {
  TempFolder temp;
  Folder folder(temp.path());
  StartFaults({});
  ASSERT_TRUE(folder.Open().ok());
  const JobRecord one = *folder.store->Create(NewRecord(1));
  const JobRecord other = *folder.store->Create(NewRecord(2));
  const auto sealed = folder.store->SealText(one, 0, "text");
  ASSERT_TRUE(sealed.ok());
  EXPECT_EQ(sealed->find("text"), std::string::npos);
  EXPECT_EQ(*folder.store->OpenText(one, *sealed), "text");
  EXPECT_TRUE(absl::IsDataLoss(folder.store->OpenText(other, *sealed).status()));
}

// What is not in the rows is not on the disk either: keys of no job end with the next opening.
TEST_F(JobStoreTest, AnOlderFileBringsNothingToLife) {
  TempFolder temp;
  Folder folder(temp.path());
  StartFaults({});
  ASSERT_TRUE(folder.Open().ok());
  for (int number : {1, 2}) {
    folder.records[IdOf(number)] = *folder.store->Create(NewRecord(number));
    ASSERT_TRUE(folder.PutFile(IdOf(number), JobFileKind::kArtefact, "content").ok());
  }
  ASSERT_TRUE(folder.store->Checkpoint().ok());
  const std::string file = folder.path() + "/jobs/jobs.db";
  folder.store.reset();
  std::filesystem::copy_file(file, folder.path() + "/copy");
  ASSERT_TRUE(folder.Open().ok());
  const JobRecord record = folder.records.at(IdOf(1));
  ASSERT_TRUE(folder.store->Remove({&record, 1}).ok());
  ASSERT_TRUE(folder.store->FinishRemovals().ok());
  EXPECT_EQ(folder.FilesOnDisk(), 1u);
  folder.store.reset();
  std::filesystem::rename(folder.path() + "/copy", file);
  ASSERT_TRUE(folder.Open().ok());
  EXPECT_EQ(folder.lost, 1u);
  EXPECT_FALSE(folder.records.contains(IdOf(1)));
  EXPECT_TRUE(folder.See().ok());
}

}  // namespace
}  // namespace lethe::store
