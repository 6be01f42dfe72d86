#include "server/service/memory_state.h"

#include <algorithm>
#include <utility>

#include "audit/encoding.h"
#include "audit/state_digest.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::service {

std::string TokenBytes(const TokenInput& token) {
  const std::vector<std::pair<std::string, std::string>> labels(token.labels.begin(),
                                                                token.labels.end());
  return audit::EncodeToken({.id = token.id,
                             .key = token.key,
                             .value = token.value,
                             .subject = token.subject,
                             .payload = token.payload,
                             .labels = labels});
}

audit::Digest PlainLeafOf(const TokenInput& token) { return audit::PlainLeaf(TokenBytes(token)); }

absl::StatusOr<std::unique_ptr<MemoryState>> MemoryState::Create(const svdd::MemoryOptions& options,
                                                                 const audit::Digest& config,
                                                                 KktChecker checker,
                                                                 UpdateFault fault,
                                                                 ServiceCounters* counters) {
  LETHE_ASSIGN_OR_RETURN(std::unique_ptr<svdd::ExactMemory> exact,
                         svdd::ExactMemory::Create(options));
  return std::unique_ptr<MemoryState>(
      new MemoryState(std::move(exact), config, std::move(checker), std::move(fault), counters));
}

MemoryState::MemoryState(std::unique_ptr<svdd::ExactMemory> exact,
                         const audit::Digest& config,
                         KktChecker checker,
                         UpdateFault fault,
                         ServiceCounters* counters)
    : exact_(std::move(exact)),
      config_(config),
      checker_(std::move(checker)),
      fault_(std::move(fault)),
      key_dimension_(static_cast<size_t>(exact_->snapshot()->options.key_dimension)),
      counters_(counters) {}

absl::Status MemoryState::Replace(std::span<const svdd::TokenHandle> handles,
                                  std::span<const AcceptedToken> tokens) {
  LETHE_RETURN_IF_ERROR(Solve(handles, tokens));
  if (!handles.empty()) Drop(handles);
  for (const AcceptedToken& token : tokens) Add(token);
  return absl::OkStatus();
}

absl::Status MemoryState::Solve(std::span<const svdd::TokenHandle> handles,
                                std::span<const AcceptedToken> tokens) {
  if (fault_) LETHE_RETURN_IF_ERROR(fault_());
  std::vector<svdd::NewToken> batch;
  batch.reserve(tokens.size());
  for (const AcceptedToken& token : tokens) {
    batch.push_back(
        {.handle = token.handle, .key = token.content.key, .value = token.content.value});
  }
  const absl::StatusOr<svdd::UpdateReport> report = handles.empty() ? exact_->Insert(batch)
                                                    : tokens.empty()
                                                        ? exact_->Forget(handles)
                                                        : exact_->Replace(handles, batch);
  LETHE_RETURN_IF_ERROR(report.status());
  const svdd::Snapshot& after = *exact_->snapshot();
  if (after.phase == svdd::Phase::kActive && !after.proof.decided_by_solver) {
    return absl::InternalError("the state is not proven and is not served");
  }
  return absl::OkStatus();
}

void MemoryState::Add(const AcceptedToken& token) {
  const absl::Status in_tree = tree_.Insert(
      token.handle, token.plain_leaf, audit::BlindedLeaf(token.salt, TokenBytes(token.content)));
  LETHE_CHECK(in_tree.ok());
  handles_.push_back(token.handle);
  rows_.push_back({.id = token.content.id, .subject = token.content.subject});
  keys_.insert(keys_.end(), token.content.key.begin(), token.content.key.end());
  LETHE_CHECK(handle_by_id_.emplace(token.content.id, token.handle).second);
  if (!token.content.subject.empty()) ++tokens_by_subject_[token.content.subject];
}

void MemoryState::Drop(std::span<const svdd::TokenHandle> handles) {
  // One pass moves the survivors together, however many go.
  size_t kept = 0;
  size_t next = 0;
  for (size_t i = 0; i < handles_.size(); ++i) {
    if (next < handles.size() && handles[next] == handles_[i]) {
      ++next;
      LETHE_CHECK(tree_.Erase(handles_[i]).ok());
      handle_by_id_.erase(rows_[i].id);
      if (const auto subject = tokens_by_subject_.find(rows_[i].subject);
          subject != tokens_by_subject_.end() && --subject->second == 0) {
        tokens_by_subject_.erase(subject);
      }
      continue;
    }
    if (kept != i) {
      handles_[kept] = handles_[i];
      rows_[kept] = std::move(rows_[i]);
      std::copy_n(keys_.begin() + static_cast<std::ptrdiff_t>(i * key_dimension_), key_dimension_,
                  keys_.begin() + static_cast<std::ptrdiff_t>(kept * key_dimension_));
    }
    ++kept;
  }
  LETHE_CHECK(next == handles.size());
  handles_.resize(kept);
  rows_.resize(kept);
  keys_.resize(kept * key_dimension_);
}

std::optional<MemoryState::Found> MemoryState::FindId(absl::string_view id) const {
  const auto found = handle_by_id_.find(id);
  if (found == handle_by_id_.end()) return std::nullopt;
  const audit::TokenTree::Leaves* leaves = tree_.Find(found->second);
  LETHE_CHECK(leaves != nullptr);
  return Found{.handle = found->second, .plain_leaf = leaves->plain};
}

uint64_t MemoryState::CountOf(absl::string_view subject) const {
  const auto found = tokens_by_subject_.find(subject);
  return found == tokens_by_subject_.end() ? 0 : found->second;
}

void MemoryState::VisitSubjects(
    absl::FunctionRef<bool(absl::string_view subject, uint64_t tokens)> visit) const {
  for (const auto& [subject, tokens] : tokens_by_subject_) {
    if (!visit(subject, tokens)) return;
  }
}

svdd::KktReport MemoryState::Judge(const svdd::Snapshot& snapshot) const {
  if (snapshot.phase != svdd::Phase::kActive) return {.labels_match_weights = true};
  return checker_(snapshot, keys_, handles_);
}

absl::Status MemoryState::Check() {
  const std::shared_ptr<const svdd::Snapshot> snapshot = exact_->snapshot();
  last_check_ = Judge(*snapshot);
  if (snapshot->phase == svdd::Phase::kActive && !last_check_.ok()) {
    return absl::InternalError("the state failed its independent check and is not served");
  }
  return absl::OkStatus();
}

std::shared_ptr<const Published> MemoryState::Publish(uint64_t version) {
  auto state = std::make_shared<Published>();
  state->config = config_;
  state->snapshot = exact_->snapshot();
  state->support_leaves = SupportLeaves(*state->snapshot, /*blinded=*/false);
  state->support_ids.reserve(state->snapshot->supports.size());
  for (const svdd::SupportToken& support : state->snapshot->supports) {
    state->support_ids.push_back(rows_[IndexOf(support.handle)].id);
  }
  state->plain_root = tree_.plain_root();
  state->tokens = handles_.size();
  state->subjects = tokens_by_subject_.size();
  state->last_check = last_check_;
  state->counters = exact_->counters();
  counters_->Add(counted_, state->counters);
  counted_ = state->counters;
  state->version = version;
  return state;
}

audit::Digest MemoryState::BlindedStateOf(const svdd::Snapshot& snapshot) {
  return StateDigestOf(config_, snapshot, SupportLeaves(snapshot, /*blinded=*/true),
                       handles_.size(), tree_.blinded_root());
}

absl::StatusOr<MemoryState::Foreseen> MemoryState::Foresee(
    std::span<const svdd::TokenHandle> handles) {
  LETHE_ASSIGN_OR_RETURN(const std::shared_ptr<const svdd::Snapshot> after,
                         exact_->Preview(handles));
  // The tree gives the root after the erasure; inserting the same leaves again restores it.
  std::vector<audit::TokenTree::Leaves> taken;
  taken.reserve(handles.size());
  for (const svdd::TokenHandle handle : handles) {
    const audit::TokenTree::Leaves* leaves = tree_.Find(handle);
    LETHE_CHECK(leaves != nullptr);
    taken.push_back(*leaves);
    LETHE_CHECK(tree_.Erase(handle).ok());
  }
  const audit::Digest root = tree_.plain_root();
  for (size_t i = 0; i < handles.size(); ++i) {
    LETHE_CHECK(tree_.Insert(handles[i], taken[i].plain, taken[i].blinded).ok());
  }
  const std::vector<audit::Digest> leaves = SupportLeaves(*after, /*blinded=*/false);
  return Foreseen{.partition = after->counts,
                  .state_digest = audit::Hex(StateDigestOf(
                      config_, *after, leaves, handles_.size() - handles.size(), root))};
}

std::vector<audit::Digest> MemoryState::SupportLeaves(const svdd::Snapshot& snapshot,
                                                      bool blinded) const {
  std::vector<audit::Digest> leaves;
  leaves.reserve(snapshot.supports.size());
  for (const svdd::SupportToken& support : snapshot.supports) {
    const audit::TokenTree::Leaves* found = tree_.Find(support.handle);
    LETHE_CHECK(found != nullptr);
    leaves.push_back(blinded ? found->blinded : found->plain);
  }
  return leaves;
}

size_t MemoryState::IndexOf(svdd::TokenHandle handle) const {
  const auto found = std::lower_bound(handles_.begin(), handles_.end(), handle);
  LETHE_CHECK(found != handles_.end() && *found == handle);
  return static_cast<size_t>(found - handles_.begin());
}

}  // namespace lethe::service
