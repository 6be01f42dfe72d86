#include "tests/core/life.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace lethe::svdd {
namespace {

constexpr int kSubjects = 5;

double LogUniform(double low, double high, std::mt19937_64& random) {
  return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
}

// Seconds of one cold solve, roughly: 8e-9 n k^2 with k tokens that carry weight, more where
// near-duplicates need the upper rungs. In high dimension almost every token is extreme.
double ColdSeconds(const LifePlan& plan, size_t n) {
  const auto tokens = static_cast<double>(n);
  const auto dimension = static_cast<double>(plan.dimension);
  double carriers = std::min(tokens, 2 * plan.capacity + 10 + 8 * dimension);
  if (plan.regime == KeyRegime::kLearned) carriers = tokens;
  const bool close = plan.regime == KeyRegime::kNoise1e6 || plan.regime == KeyRegime::kNoise1e9;
  return (close ? 5.0 : 1.0) * tokens * (8e-9 * carriers * carriers + 1e-8 * carriers * dimension);
}

}  // namespace

LifePlan LifePlan::Draw(uint64_t seed, size_t largest, double seconds) {
  std::mt19937_64 random(seed);
  LifePlan plan;
  plan.seed = seed;
  const size_t regime = std::uniform_int_distribution<size_t>(0, kKeyRegimes.size())(random);
  plan.regime = regime < kKeyRegimes.size() ? kKeyRegimes[regime] : KeyRegime::kMagnitudes;
  plan.dimension = static_cast<size_t>(LogUniform(1.0, 128.999, random));
  if (plan.regime == KeyRegime::kVitals && std::bernoulli_distribution(0.5)(random)) {
    plan.dimension = 7;
  }
  if (plan.regime == KeyRegime::kLearned) plan.dimension = std::max<size_t>(plan.dimension, 32);
  if (plan.regime == KeyRegime::kMagnitudes) {
    // Mostly without a margin, and kernel values of all sizes beside each other.
    plan.dimension = 1 + plan.dimension % 3;
    largest = std::min<size_t>(largest, 24);
  }
  plan.largest = static_cast<size_t>(LogUniform(1.0, static_cast<double>(largest) + 0.999, random));
  plan.capacity =
      LogUniform(1.0, std::clamp(static_cast<double>(plan.largest), 1.5, 500.0), random);
  if (plan.regime == KeyRegime::kMagnitudes) plan.capacity = std::min(plan.capacity, 3.5);
  if (std::bernoulli_distribution(0.4)(random)) plan.capacity = std::floor(plan.capacity);
  // Where nearly every token carries weight a solve is cubic in their number.
  while (ColdSeconds(plan, plan.largest) > 3 * seconds) plan.largest -= plan.largest / 8 + 1;
  plan.by_box = std::bernoulli_distribution(0.5)(random);
  plan.duplicates = static_cast<DuplicatesPolicy>(std::uniform_int_distribution(1, 3)(random));

  const auto kind = static_cast<kernel::KernelKind>(std::uniform_int_distribution(1, 3)(random));
  const KeyStream stream(plan.regime, plan.dimension, seed);
  const double width = LogUniform(0.1, 10.0, random);
  plan.kernel = {kind, width / stream.squared_distance()};
  if (kind == kernel::KernelKind::kLaplacian) {
    plan.kernel.parameter = width / std::sqrt(stream.squared_distance());
  }
  if (kind == kernel::KernelKind::kExpDot) {
    plan.kernel.parameter = width / stream.squared_norm();
  }

  // The life visits sizes up to the largest but is seldom there.
  const double cold = std::max(1e-9, ColdSeconds(plan, plan.largest) / 2);
  plan.operations = std::uniform_int_distribution<size_t>(30, 60)(random);
  if (cold > 0.05) plan.operations = 20;
  const double checks = std::max(2.0, seconds / (2.5 * cold));
  plan.check_every =
      static_cast<size_t>(std::max(1.0, std::ceil(static_cast<double>(plan.operations) / checks)));
  return plan;
}

std::string LifePlan::Describe() const {
  return absl::StrCat("seed 0x", absl::Hex(seed), ": ", std::string(Name(regime)), ", d ",
                      dimension, ", n up to ", largest, ", capacity ", capacity,
                      by_box ? " by box" : "", ", kernel ", static_cast<int>(kernel.kind), " ",
                      kernel.parameter, ", duplicates ", static_cast<int>(duplicates), ", ",
                      operations, " operations compared every ", check_every);
}

Life::Life(const LifePlan& plan)
    : plan_(plan), random_(plan.seed + 1), keys_(plan.regime, plan.dimension, plan.seed) {
  const Capacity capacity = plan.by_box ? Capacity::FromBox(1 / plan.capacity).value()
                                        : Capacity::FromCapacity(plan.capacity).value();
  memory_ = ExactMemory::Create(
                {plan.kernel, capacity, plan.duplicates, static_cast<int>(plan.dimension), 2})
                .value();
  last_key_ = keys_.Next();
  far_query_ = keys_.Next();
  for (double& coordinate : far_query_) coordinate += 3.0;
}

LifeResult Life::Run() {
  result_.finished = true;
  target_ = plan_.largest;
  for (size_t step = 0; step < plan_.operations && result_.finished; ++step) {
    Step();
  }
  if (result_.finished) Compare();
  result_.counters = memory_->counters();
  if (result_.counters.updates != result_.operations) Fault("updates are not counted one by one");
  return std::move(result_);
}

void Life::Step() {
  const size_t n = alive_.size();
  if (Chance(0.15)) {
    // Somewhere else: below the capacity (warming), exactly at it, to nothing, or anywhere.
    const auto capacity = static_cast<size_t>(std::ceil(plan_.capacity));
    switch (Uniform(0, 5)) {
      case 0:
        target_ = Uniform(0, capacity);
        break;
      case 1:
        target_ = capacity;
        break;
      case 2:
        target_ = 0;
        break;
      default:
        target_ = static_cast<size_t>(
            LogUniform(1.0, static_cast<double>(plan_.largest) + 0.999, random_));
    }
    target_ = std::min(target_, plan_.largest);
  }
  if (n > 0 && Chance(0.15)) {
    ReplaceSome();
  } else if (n > 0 && Chance(0.12)) {
    EvictSome();
  } else if (n == 0 || Chance(n < target_ ? 0.75 : 0.25)) {
    size_t count = Chance(0.6) ? 1 : Uniform(0, 4);
    if (n < target_ && Chance(0.4)) count = target_ - n;
    Insert(std::min(count, plan_.largest + 4 - std::min(n, plan_.largest + 4)));
  } else {
    ForgetSome();
  }
}

void Life::ForgetSome() {
  const size_t n = alive_.size();
  if (n > target_ && Chance(0.4)) {
    Forget(Positions(n - target_), "forget_block");
  } else if (Chance(0.1)) {
    // A whole subject.
    const int subject = static_cast<int>(Uniform(0, kSubjects - 1));
    std::vector<size_t> positions;
    for (size_t i = 0; i < n; ++i) {
      if (subject_[alive_[i].handle] == subject) positions.push_back(i);
    }
    Forget(positions, "forget_subject");
  } else if (Chance(0.2)) {
    Forget({0}, "forget_first");
  } else if (Chance(0.03)) {
    Forget(Positions(n), "forget_all");
  } else if (Chance(0.4) && !memory_->snapshot()->supports.empty()) {
    // Something that carries weight, so that the active set changes.
    const auto& supports = memory_->snapshot()->supports;
    const TokenHandle handle = supports[Uniform(0, supports.size() - 1)].handle;
    const auto found = std::ranges::find(alive_, handle, &OwnedToken::handle);
    Forget({static_cast<size_t>(found - alive_.begin())}, "forget_support");
  } else {
    const size_t count = Chance(0.6) ? 1 : Uniform(0, 4);
    Forget(Positions(std::min(count, n)), count == 1 ? "forget_one" : "forget_batch");
  }
}

void Life::Insert(size_t count) {
  const size_t first = alive_.size();
  for (size_t i = 0; i < count; ++i) alive_.push_back(DrawToken());
  Finish(memory_->Insert(View(std::span(alive_).subspan(first))),
         count == 1 ? "insert_one" : "insert_batch");
}

void Life::Forget(const std::vector<size_t>& positions, const std::string& kind) {
  const std::vector<TokenHandle> handles = HandlesAt(positions);
  // Drawn whatever is compared, so that a life does not depend on how often that is.
  const bool preview = Chance(0.15);
  if (preview && plan_.check_every <= 2) Preview(handles);
  Remove(handles);
  Finish(memory_->Forget(handles), kind);
}

void Life::Preview(const std::vector<TokenHandle>& handles) {
  const auto before = memory_->snapshot();
  const auto foreseen = memory_->Preview(handles);
  if (!foreseen.ok()) {
    Fault(absl::StrCat("preview: ", foreseen.status().ToString()));
    return;
  }
  if (memory_->snapshot() != before) Fault("a preview changed the memory");
  std::vector<OwnedToken> rest;
  for (const OwnedToken& token : alive_) {
    if (std::ranges::find(handles, token.handle) == handles.end()) rest.push_back(token);
  }
  if (!SameInEveryBit(**foreseen, *Fresh(before->options, rest)->snapshot(), {})) {
    Fault("a preview is not the refit");
  }
}

void Life::ReplaceSome() {
  const size_t n = alive_.size();
  const std::vector<size_t> positions = Positions(std::min(n, Chance(0.6) ? 1 : Uniform(0, 4)));
  const std::vector<TokenHandle> handles = HandlesAt(positions);
  std::vector<OwnedToken> tokens;
  const size_t count = Chance(0.7) ? positions.size() : Uniform(0, 4);
  for (size_t i = 0; i < count; ++i) {
    OwnedToken token = DrawToken();
    // Often only the value is edited.
    if (i < positions.size() && Chance(0.3)) token.key = alive_[positions[i]].key;
    tokens.push_back(std::move(token));
  }
  Remove(handles);
  alive_.insert(alive_.end(), tokens.begin(), tokens.end());
  Finish(memory_->Replace(handles, View(tokens)), "replace");
}

void Life::EvictSome() {
  const auto before = memory_->snapshot();
  const size_t n = alive_.size();
  const size_t budget = Uniform(0, n);
  const EvictionPlan plan = memory_->PlanEviction(budget);
  const size_t out = plan.reserve.size() + plan.surplus.size();
  if (plan.retained != n - out || (plan.retained < budget)) {
    Fault("an eviction plan that does not add up");
  }
  Remove(plan.reserve);
  Finish(memory_->Forget(plan.reserve), "evict_reserve");
  if (!result_.finished) return;
  // Nothing that is read may change, not in one bit. Only the lower end of mu's interval, which a
  // reserve token may set where there is no margin, can fall.
  const auto after = memory_->snapshot();
  Snapshot expected = *before;
  expected.counts.reserve -= plan.reserve.size();
  if (!plan.reserve.empty()) {
    if (after->mu_low.value_or(-INFINITY) > before->mu_low.value_or(-INFINITY)) {
      Fault("an eviction raised the lower end of mu");
    }
    expected.mu_low = after->mu_low;
  }
  if (!SameInEveryBit(expected, *after, {{last_key_}})) Fault("an eviction moved a weight");
  if (plan.surplus.empty()) return;
  Remove(plan.surplus);
  Finish(memory_->Forget(plan.surplus), "evict_surplus");
  if (!result_.finished) return;
  // Weights of copies are shared anew; readouts stay up to their rounding.
  const std::vector<double> query = last_key_;
  const Readout a = before->Query(query, false);
  const Readout b = memory_->snapshot()->Query(query, false);
  for (size_t k = 0; k < a.value.size(); ++k) {
    if (!(std::abs(a.value[k] - b.value[k]) <= 1e-12 * (1 + std::abs(a.value[k])))) {
      Fault(absl::StrCat("evicting surplus copies moved a readout by ", a.value[k] - b.value[k]));
    }
  }
}

void Life::Finish(const absl::StatusOr<UpdateReport>& report, const std::string& kind) {
  ++result_.operations;
  ++result_.kinds[kind];
  if (!report.ok()) {
    result_.finished = false;
    Fault(absl::StrCat(kind, ": ", report.status().ToString()));
    return;
  }
  const auto state = memory_->snapshot();
  const SolverCounters& now = memory_->counters();
  const uint64_t refits = now.refits - before_.refits;
  const uint64_t proofs = now.proofs - before_.proofs;
  const bool climbed = proofs == 1 && report->precision_bits > 106;
  if (now.updates != before_.updates + 1 || proofs > 1 || refits > 1 ||
      now.climbs - before_.climbs != (climbed ? 1 : 0) ||
      now.fallbacks - before_.fallbacks != (report->method == Method::kFallback ? 1 : 0) ||
      (refits == 1 && report->method != Method::kCold) || report->after != state->counts ||
      report->precision_bits != state->proof.precision_bits) {
    Fault(absl::StrCat(kind, ": the counters do not add up"));
  }
  before_ = now;
  if (state->proof.decided_by_solver != (state->phase == Phase::kActive)) {
    ++result_.uncertified;
    Fault(absl::StrCat(kind, ": published without a proof"));
  }
  if (result_.operations % plan_.check_every == 0) Compare();
}

void Life::Compare() {
  const auto state = memory_->snapshot();
  const std::string fault = KktFault(*state, alive_);
  if (!fault.empty()) {
    ++result_.uncertified;
    Fault(fault);
  }
  const std::vector<std::vector<double>> queries = {far_query_, last_key_};
  const auto compare = [&](const Snapshot& other, const char* what) {
    const bool partition = SamePartition(*state, other);
    const bool digest = SameInEveryBit(*state, other, queries);
    ++result_.comparisons;
    result_.equal_partition += partition ? 1 : 0;
    result_.equal_digest += digest ? 1 : 0;
    if (!partition) {
      Fault(absl::StrCat("partition differs from ", what));
    } else if (!digest) {
      Fault(absl::StrCat("bits differ from ", what));
    }
  };
  compare(*Fresh(state->options, alive_)->snapshot(), "a fresh memory");
  compare(*memory_->Refit(), "Refit()");
}

void Life::Fault(const std::string& what) {
  if (!result_.fault.empty()) return;
  result_.fault =
      absl::StrCat("operation ", result_.operations, ", ", alive_.size(), " tokens: ", what);
}

OwnedToken Life::DrawToken() {
  // Some keys come again bit for bit whatever the regime, some with their value.
  OwnedToken token{next_++, keys_.Next(), {}};
  std::normal_distribution<double> normal;
  token.value = {normal(random_), normal(random_)};
  if (!alive_.empty() && Chance(0.05)) {
    const OwnedToken& other = alive_[Uniform(0, alive_.size() - 1)];
    token.key = other.key;
    if (Chance(0.7)) token.value = other.value;
  }
  if (plan_.regime == KeyRegime::kCopies && plan_.seed % 2 == 0) token.value = {1.0, token.key[0]};
  subject_[token.handle] = static_cast<int>(Uniform(0, kSubjects - 1));
  last_key_ = token.key;
  return token;
}

std::vector<size_t> Life::Positions(size_t count) {
  std::vector<size_t> all(alive_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::shuffle(all.begin(), all.end(), random_);
  all.resize(count);
  return all;
}

std::vector<TokenHandle> Life::HandlesAt(const std::vector<size_t>& positions) const {
  std::vector<TokenHandle> handles;
  for (const size_t position : positions) handles.push_back(alive_[position].handle);
  return handles;
}

void Life::Remove(const std::vector<TokenHandle>& handles) {
  std::vector<TokenHandle> sorted = handles;
  std::sort(sorted.begin(), sorted.end());
  std::erase_if(alive_, [&](const OwnedToken& token) {
    return std::binary_search(sorted.begin(), sorted.end(), token.handle);
  });
  for (const TokenHandle handle : handles) subject_.erase(handle);
}

size_t Life::Uniform(size_t low, size_t high) {
  return std::uniform_int_distribution<size_t>(low, high)(random_);
}

bool Life::Chance(double probability) { return std::bernoulli_distribution(probability)(random_); }

}  // namespace lethe::svdd
