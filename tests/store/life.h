// The life of a tenant, written down: what it does, in chapters, and what must then be true of it.
// A model, which knows the interface and nothing of the store, says what is there. The tests strike
// the store with faults and kills while it lives a chapter, and hold it against the model.
//
// The rules, after every fault:
//   * what was acknowledged is there, with the same bytes;
//   * what failed, and was not called indeterminate, has changed nothing, also if the process is
//     killed then;
//   * what was indeterminate has happened whole or not at all, and then stays as it is;
//   * sequences are dense and linked, the checkpoint is over the leaves, and each checkpoint that
//   was
//     handed out is over the first of them (roots are made from the leaves here);
//   * the tokens are those inserted without those certified as erased; an id that was erased and
//   not
//     inserted again is a tombstone;
//   * what was left unfinished can be finished (life_judge.h has the rules about keys);
//   * the chapter can be lived to its end.
#ifndef LETHE_TESTS_STORE_LIFE_H_
#define LETHE_TESTS_STORE_LIFE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/tenant_store.h"

namespace lethe::store {

struct ModelMemory {
  MemoryRecord record;
  std::map<uint64_t, TokenRow> rows;  // by handle
  std::set<std::string> erased;       // ids
  std::string encoder = {};
};

using RowName = std::pair<std::string, uint64_t>;  // memory uid, handle

// An erasure request or a hold, with what is sealed of it.
struct ModelCase {
  CaseRecord record;
  std::string personal;
  std::string subject;
};

struct Model {
  bool made = false;
  TenantState state = TenantState::kOpen;
  std::map<std::string, ModelMemory> memories;  // by uid
  std::vector<CertificateRecord> log;
  std::vector<LogKey> keys;
  std::map<std::string, RequestRecord> requests;
  std::map<std::string, ModelCase> cases;  // by id
  std::vector<PendingErasure> pending;
  std::vector<Cosignature> cosignatures;  // of the present size
  std::string checkpoint;
  std::map<uint64_t, std::string> handed_out;  // checkpoints by size
  std::set<std::string> done;                  // steps
  std::set<RowName> erased_rows;               // all of them, ever
  std::set<RowName> shredded;                  // those whose keys were answered to be gone
  std::shared_ptr<const Model> copy;           // what the copy of the file holds
  uint64_t restored_size = 0;                  // of the log, after the last restore; 0: not known
};

// Everything that can be asked of a store, one line a fact.
using Facts = std::map<std::string, std::string>;
Facts FactsOf(const Model& model);
// The status of the first question that was not answered.
absl::StatusOr<Facts> FactsOf(TenantStore& store);
// The first facts in which the two differ, in words; empty when they are equal.
std::string Difference(const Facts& wanted, const Facts& found);

class Life;

struct Step {
  std::string name;
  std::function<absl::Status(Life& life)> run;
  std::function<void(Model& model)> apply = [](Model&) {};  // what OK means
  // Of a step that can be taken again and again: that there is nothing to do. Others are taken
  // once.
  std::function<bool(const Model& model)> idle;
  // An error that is not called indeterminate may come after it has happened.
  bool late_errors = false;
  // Taken while the store is closed, and again until it succeeds.
  bool while_closed = false;
};

struct Chapter {
  std::string name;
  std::vector<Step> steps;
};

// From making the tenant to its end. Each chapter opens and closes the store.
std::vector<Chapter> TheLife();

// The two that finish what erasures left pending.
const Step& DestroyKeys();
const Step& AppendShredded();

bool IsDone(const Model& model, const Step& step);
// The step has happened.
void Apply(const Step& step, Model& model);
// And was acknowledged, with the checkpoint that it left.
void Acknowledge(const Step& step, Model& model);
// A step of the chapter, or one of those that finish what is pending; null for another name.
const Step* FindStep(const Chapter& chapter, const std::string& name);

// Lets temporary folders lie in RAM where the system has a place for it: no disk has a part in
// these tests, and they make very many files.
void KeepFilesInRam();

// A store that lives a chapter under a model.
class Life {
 public:
  // `dir` is the tenant's folder, in which its vault lies too.
  Life(std::string dir, Model model);
  ~Life();
  Life(const Life&) = delete;
  Life& operator=(const Life&) = delete;

  // Takes the steps of the chapter that are not done and closes the store. A step that fails is
  // judged and, where it has not happened, taken again. False after a problem.
  bool Live(const Chapter& chapter);
  // The step that a kill may have cut off: whether it has happened is found out by the next
  // opening.
  void Doubt(const Step& step) { doubted_ = &step; }
  // Opens the store, holds it against the model, finishes what is pending, closes it.
  bool Look();
  // Closes the store as it is.
  void Stop() { store_.reset(); }
  // The model, and the one in which the step that failed last has happened all the same.
  std::vector<Model> Possible() const;

  const Model& model() const { return model_; }
  TenantStore& store() { return *store_; }
  // Empty: every rule held.
  const std::string& problem() const { return problem_; }
  // What was found where it was not what the model says.
  const Facts& wrong() const { return wrong_; }
  uint64_t refused() const { return refused_; }              // openings
  uint64_t failed() const { return failed_; }                // steps
  uint64_t indeterminate() const { return indeterminate_; }  // of those
  uint64_t happened() const { return happened_; }            // of those

  // What steps do beside calling the store.
  absl::Status Make();
  absl::Status Read();
  absl::Status Copy();
  absl::Status Restore();
  // The step has happened, and something is still to be done before it is answered.
  void Unclean(const absl::Status& status) { unclean_.Update(status); }

  // Called before a step is taken, and when it is to be acknowledged.
  std::function<void(const Step& step)> begun = [](const Step&) {};
  std::function<void(const Step& step)> acknowledged = [](const Step&) {};
  // Whether the device is gone until the store is closed.
  std::function<bool()> off = [] { return false; };
  // Called when the store was closed, whatever its end.
  std::function<void()> closed = [] {};

 private:
  bool Open();
  void Close();
  bool Clean();
  bool Take(const Step& step);
  bool Judge(const Step& step, const absl::Status& status);
  // Whether the step in doubt has happened.
  void Resolve(const Facts& found);
  bool CheckLog();
  // Keeps the first problem; false.
  bool Wrong(const std::string& what);
  // Whether what was found is what the model says.
  bool Compare(const std::string& when, const Facts& found);
  bool CompareAsKilled();

  std::string dir_;
  Model model_;
  std::unique_ptr<TenantStore> store_;
  const Step* doubted_ = nullptr;
  const Step* failing_ = nullptr;
  absl::Status unclean_;
  std::string problem_;
  Facts wrong_;
  uint64_t refused_ = 0;
  uint64_t failed_ = 0;
  uint64_t indeterminate_ = 0;
  uint64_t happened_ = 0;
};

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_LIFE_H_
