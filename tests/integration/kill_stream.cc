// kill_stream LETHED FOLDER ROUNDS SEED [TOKENS.csv]
// kill_stream LETHED FOLDER --minutes N --seed SEED
//
// Kills a server with SIGKILL at random moments, of a stream of inserts and every third time of a
// forget, an eviction or an edit, starts it again, and demands after each kill:
//   * nothing acknowledged is lost: every acknowledged token is there with the same content, no
//     acknowledged erasure is undone, and its stored answer comes back by its request id;
//   * nothing is half there: the tokens present are a prefix of what was sent, in order;
//   * the state digest equals that of a second server, never killed, that was given the same;
//   * the log is whole, and every checkpoint that was handed out is over its beginning.
// What an eviction took is inserted again, so that the stream goes on with all it had. At the end
// the digest equals that of a fresh memory which was fed with the survivors only, and every key
// that is alive is that of a row or was never used (log_rules.h).
//
// The second form is the soak: one trial after another, each with new tokens and servers, until the
// minutes are over.
//
// TOKENS.csv: header, then id,subject,key...,value,value. Without it 1,500 tokens are made from the
// seed. Prints one `name=value` line a figure; exits 0 when all held, 1 when not, 2 when it could
// not try.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "tests/integration/log_rules.h"
#include "tests/integration/server_process.h"

namespace lethe::tests {
namespace {

using client::Client;
using client::MemoryName;
using client::Token;

constexpr size_t kValues = 2;
constexpr size_t kInsertBatch = 2000;
const MemoryName kMemory{"killed", "stream"};
const MemoryName kSurvivors{"killed", "survivors"};

class Wrong : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void Demand(bool holds, const std::string& what) {
  if (!holds) throw Wrong(what);
}

template <typename T>
T Get(absl::StatusOr<T> result, const std::string& doing) {
  if (!result.ok()) throw std::runtime_error(absl::StrCat(doing, ": ", result.status().ToString()));
  return *std::move(result);
}

void Get(const absl::Status& status, const std::string& doing) {
  if (!status.ok()) throw std::runtime_error(absl::StrCat(doing, ": ", status.ToString()));
}

std::vector<Token> ReadTokens(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::vector<Token> tokens;
  std::getline(file, line);
  while (std::getline(file, line)) {
    const std::vector<std::string> field = absl::StrSplit(line, ',');
    if (field.size() < 3 + kValues) throw std::runtime_error(absl::StrCat(path, ": ", line));
    Token token{.id = field[0], .subject = field[1]};
    for (size_t i = 2; i < field.size(); ++i) {
      double number = 0.0;
      if (!absl::SimpleAtod(field[i], &number)) throw std::runtime_error(path + ": " + field[i]);
      (i + kValues < field.size() ? token.key : token.value).push_back(number);
    }
    tokens.push_back(std::move(token));
  }
  if (tokens.empty()) throw std::runtime_error(path + ": no tokens");
  return tokens;
}

// Some keys repeat, so that groups of equal keys are cut by kills too.
std::vector<Token> MakeTokens(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<Token> tokens;
  for (int i = 0; i < 1500; ++i) {
    Token token{.id = absl::StrCat("t", i), .subject = absl::StrCat("s", i / 12)};
    if (i % 50 == 49) {
      token.key = tokens.back().key;
    } else {
      for (int k = 0; k < 4; ++k) token.key.push_back(normal(random));
    }
    for (size_t k = 0; k < kValues; ++k) token.value.push_back(normal(random));
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void CreateMemories(Client& client, size_t key_dimension) {
  Get(client.CreateTenant(kMemory.tenant), "create tenant");
  for (const MemoryName& name : {kMemory, kSurvivors}) {
    Get(client.CreateMemory(
            name, {.kernel = client::Kernel::Rbf(1.0 / static_cast<double>(key_dimension)),
                   .capacity = 40,
                   .key_dimension = static_cast<uint32_t>(key_dimension),
                   .value_dimension = static_cast<uint32_t>(kValues)}),
        "create memory");
  }
}

// Inserts and demands that every outcome is `outcome`.
void InsertAll(Client& client,
               const MemoryName& name,
               const std::vector<Token>& tokens,
               client::InsertOutcome outcome) {
  for (size_t from = 0; from < tokens.size(); from += kInsertBatch) {
    const size_t to = std::min(from + kInsertBatch, tokens.size());
    const client::InsertResult result = Get(
        client.Insert(name, std::vector<Token>(tokens.begin() + static_cast<std::ptrdiff_t>(from),
                                               tokens.begin() + static_cast<std::ptrdiff_t>(to))),
        "insert");
    Demand(result.tokens.size() == to - from, "an insert left tokens unanswered");
    for (const client::InsertedToken& token : result.tokens) {
      Demand(token.outcome == outcome,
             absl::StrCat("token ", token.id, ": expected ", client::ToString(outcome), ", got ",
                          client::ToString(token.outcome)));
    }
  }
}

// Kills the server a while after `acknowledged` reached `count`; kills anyway after two seconds.
class Killer {
 public:
  Killer(ServerProcess& server, uint64_t count, absl::Duration then)
      : thread_([this, &server, count, then] {
          const absl::Time latest = absl::Now() + absl::Seconds(2);
          while (acknowledged < count && absl::Now() < latest)
            absl::SleepFor(absl::Microseconds(200));
          absl::SleepFor(then);
          server.Kill();
        }) {}
  ~Killer() { thread_.join(); }
  Killer(const Killer&) = delete;
  Killer& operator=(const Killer&) = delete;

  std::atomic<uint64_t> acknowledged = 0;

 private:
  std::thread thread_;
};

// Counted over all trials.
struct Figures {
  uint64_t trials = 0;
  uint64_t kills = 0;
  uint64_t in_flight = 0;
  uint64_t forgets = 0;
  uint64_t evictions = 0;
  uint64_t edits = 0;
  uint64_t tokens = 0;
  uint64_t evicted = 0;
  uint64_t edited = 0;
  uint64_t acknowledged = 0;
  uint64_t lost = 0;
  uint64_t equal = 0;
  uint64_t compared = 0;
  uint64_t certificates = 0;
  uint64_t checkpoints = 0;
  uint64_t keys = 0;
  uint64_t keys_destroyed = 0;

  void Print(uint64_t seed) const {
    std::cout << "seed=" << seed << "\ntrials=" << trials << "\nkills=" << kills
              << "\nkills_with_unacknowledged=" << in_flight
              << "\nkills_during_stream=" << kills - forgets - evictions - edits
              << "\nkills_during_forget=" << forgets << "\nkills_during_evict=" << evictions
              << "\nkills_during_edit=" << edits << "\ntokens=" << tokens
              << "\nacknowledged=" << acknowledged << "\nlost=" << lost
              << "\nforgotten_subjects=" << forgets << "\nevicted_tokens=" << evicted
              << "\nedited_tokens=" << edited << "\ndigests_equal=" << equal << "/" << compared
              << "\ncertificates=" << certificates << "\ncheckpoints_kept=" << checkpoints
              << "\nkeys_alive=" << keys << "\nkeys_destroyed=" << keys_destroyed << "\n";
  }
};

class Trial {
 public:
  Trial(const std::string& lethed,
        const std::string& folder,
        std::vector<Token> tokens,
        std::mt19937_64 random,
        Figures& figures)
      : random_(random),
        tokens_(std::move(tokens)),
        data_(folder + "/killed"),
        server_(lethed, data_),
        reference_(lethed, folder + "/reference"),
        figures_(figures) {}

  void Run(uint64_t rounds) {
    Get(server_.Start(), "start");
    Get(reference_.Start(), "start the reference");
    ++figures_.trials;
    figures_.tokens += tokens_.size();
    for (ServerProcess* server : {&server_, &reference_}) {
      Client client = server->Connect();
      CreateMemories(client, tokens_.front().key.size());
    }
    for (uint64_t round = 0; round < rounds; ++round) {
      if (round % 3 != 2 || live_.empty()) {
        StreamAndKill(rounds - round);
      } else if (round % 9 == 2) {
        ForgetAndKill(round);
      } else if (round % 9 == 5) {
        EvictAndKill(round);
      } else {
        EditAndKill(round);
      }
      CompareDigests(absl::StrCat("after kill ", round + 1));
      CheckLog();
      ++figures_.kills;
    }
    Finish();
  }

 private:
  uint64_t Uniform(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }

  void StreamAndKill(uint64_t rounds_left) {
    const size_t batch = Uniform(1, 40);
    // About as much a round that the last one reaches the end.
    const size_t limit = std::min(
        next_ + Uniform(1, 1 + 2 * (tokens_.size() - next_) / (rounds_left + 1)), tokens_.size());
    const uint64_t messages = (limit - next_ + batch - 1) / batch;
    const uint64_t stop_after = Uniform(0, messages - 1);
    const std::shared_ptr<client::Connection> connection =
        client::MakeConnection({.address = server_.address(), .max_attempts = 1});
    const std::unique_ptr<client::InsertStream> stream = connection->OpenInsertStream(kMemory);
    // At full speed the server commits many messages together; with pauses, few.
    const absl::Duration pause = absl::Microseconds(Uniform(0, 1) * Uniform(0, 1000));
    size_t sent = next_;
    size_t acknowledged = next_;
    uint64_t rejected = 0;
    {
      Killer killer(server_, stop_after, absl::Microseconds(Uniform(0, 1) * Uniform(0, 5000)));
      std::thread writer([&] {
        uint64_t sequence = 0;
        while (sent < limit) {
          client::InsertBatch message;
          message.sequence = ++sequence;
          const size_t end = std::min(sent + batch, limit);
          for (size_t i = sent; i < end; ++i) message.tokens.push_back(tokens_[i]);
          sent = end;
          if (!stream->Write(message)) return;
          absl::SleepFor(pause);
        }
        stream->WritesDone();
      });
      const size_t first = next_;
      while (const std::optional<client::InsertAck> ack = stream->Read()) {
        rejected += ack->rejected;
        acknowledged = std::min(first + ack->acknowledged_sequence * batch, limit);
        killer.acknowledged = ack->acknowledged_sequence;
      }
      writer.join();
    }
    stream->Finish().IgnoreError();
    Demand(rejected == 0, "a good token was rejected");
    if (sent > acknowledged) ++figures_.in_flight;
    figures_.acknowledged += acknowledged - next_;

    Get(server_.Start(), "start after a kill");
    const uint64_t present = Present(server_);
    if (present < live_.size() + (acknowledged - next_)) {
      figures_.lost += live_.size() + (acknowledged - next_) - present;
    }
    Demand(figures_.lost == 0, "acknowledged tokens are lost");
    const std::vector<Token> arrived = Slice(next_, next_ + (present - live_.size()));
    next_ += arrived.size();
    Demand(next_ <= sent, "there are tokens that were never sent");
    live_.insert(live_.end(), arrived.begin(), arrived.end());
    Client restarted = server_.Connect();
    InsertAll(restarted, kMemory, live_, client::InsertOutcome::kUnchanged);
    Demand(Present(server_) == present, "tokens that were there before were inserted again");
    Client reference = reference_.Connect();
    InsertAll(reference, kMemory, arrived, client::InsertOutcome::kInserted);
  }

  // Sends an erasure of any kind, kills the server meanwhile, asks again after the restart, and
  // does the same on the reference; returns the answer. `left` is the number of tokens that should
  // be there after an acknowledged one.
  template <typename Request, typename Call, typename Left>
  auto EraseAndKill(const Request& request, const Call& call, const Left& left) {
    using Result = typename std::invoke_result_t<Call, Client&, const Request&>::value_type;
    absl::StatusOr<Result> first = absl::UnknownError("not called");
    {
      Client client = server_.Connect({.max_attempts = 1});
      Killer killer(server_, 0, absl::Microseconds(Uniform(0, 20000)));
      first = call(client, request);
    }
    Get(server_.Start(), "start after a kill");
    Client client = server_.Connect();
    if (!first.ok()) {
      ++figures_.in_flight;
    } else {
      Demand(Present(server_) == left(*first), "an acknowledged erasure was undone");
    }
    const Result again = Get(call(client, request), "ask again");
    if (first.ok()) {
      Demand(again.replayed, "the answer to an acknowledged request was not kept");
      Demand(again.certificate_id == first->certificate_id && again.after == first->after &&
                 again.state_digest == first->state_digest,
             "the kept answer differs from the acknowledged one");
    }
    Client reference = reference_.Connect();
    const Result there = Get(call(reference, request), "the same on the reference");
    Demand(there.after == again.after && left(there) == left(again),
           "the two servers erased different numbers of tokens");
    Demand(there.state_digest == again.state_digest, "the two servers report different digests");
    Demand(Present(server_) == left(again), "another number of tokens is left than was said");
    return again;
  }

  void ForgetAndKill(uint64_t round) {
    const std::string subject = live_[Uniform(0, live_.size() - 1)].subject;
    const client::ForgetRequest request{
        .name = kMemory, .subject = subject, .request_id = absl::StrCat("forget-", round)};
    const uint64_t before = live_.size();
    EraseAndKill(
        request, [](Client& c, const client::ForgetRequest& r) { return c.Forget(r); },
        [before](const client::ForgetResult& result) { return before - result.erased; });
    std::erase_if(live_, [&](const Token& token) { return token.subject == subject; });
    ++figures_.forgets;
  }

  void EvictAndKill(uint64_t round) {
    const client::EvictRequest request{.name = kMemory,
                                       .budget = Uniform(1, live_.size()),
                                       .request_id = absl::StrCat("evict-", round)};
    const client::EvictResult result = EraseAndKill(
        request, [](Client& c, const client::EvictRequest& r) { return c.Evict(r); },
        [](const client::EvictResult& r) { return r.retained; });
    Demand(result.evicted + result.retained == live_.size(), "an eviction does not add up");
    CompareDigests("after an eviction");
    // Which ones went is told by inserting all of them again; they come back as the newest.
    Client client = server_.Connect();
    Client reference = reference_.Connect();
    const std::vector<bool> gone = InsertMissing(client);
    Demand(InsertMissing(reference) == gone, "the two servers evicted different tokens");
    std::vector<Token> kept;
    std::vector<Token> back;
    for (size_t i = 0; i < live_.size(); ++i) (gone[i] ? back : kept).push_back(live_[i]);
    Demand(back.size() == result.evicted, "other tokens are gone than the answer says");
    live_ = std::move(kept);
    live_.insert(live_.end(), back.begin(), back.end());
    figures_.evicted += back.size();
    ++figures_.evictions;
  }

  void EditAndKill(uint64_t round) {
    client::EditRequest request{.name = kMemory, .request_id = absl::StrCat("edit-", round)};
    std::vector<Token> rest = live_;
    for (uint64_t count = Uniform(1, 6); count > 0 && !rest.empty(); --count) {
      const auto place = rest.begin() + static_cast<std::ptrdiff_t>(Uniform(0, rest.size() - 1));
      Token token = *place;
      rest.erase(place);
      token.payload = request.request_id;
      token.value[0] += 1.0;
      if (Uniform(0, 1) == 0) token.key[0] += 0.125;
      request.tokens.push_back(std::move(token));
    }
    const uint64_t before = live_.size();
    const client::EditResult result = EraseAndKill(
        request, [](Client& c, const client::EditRequest& r) { return c.Edit(r); },
        [before](const client::EditResult&) { return before; });
    Demand(result.edited == request.tokens.size(), "an edit left tokens out");
    live_ = std::move(rest);
    live_.insert(live_.end(), request.tokens.begin(), request.tokens.end());
    Client client = server_.Connect();
    InsertAll(client, kMemory, live_, client::InsertOutcome::kUnchanged);
    figures_.edited += result.edited;
    ++figures_.edits;
  }

  // Inserts live_; tells which were not there.
  std::vector<bool> InsertMissing(Client& client) {
    std::vector<bool> missing;
    for (size_t from = 0; from < live_.size(); from += kInsertBatch) {
      const std::vector<Token> batch(
          live_.begin() + static_cast<std::ptrdiff_t>(from),
          live_.begin() + static_cast<std::ptrdiff_t>(std::min(from + kInsertBatch, live_.size())));
      for (const client::InsertedToken& token :
           Get(client.Insert(kMemory, batch), "insert").tokens) {
        Demand(token.outcome != client::InsertOutcome::kRejected, "a token was rejected");
        missing.push_back(token.outcome == client::InsertOutcome::kInserted);
      }
    }
    return missing;
  }

  void Finish() {
    FinishStream();
    // The clients are gone by now: a server that ends waits a while for open connections.
    Get(server_.Stop(), "stop");
    Get(reference_.Stop(), "stop the reference");
    uint64_t live = 0;
    uint64_t destroyed = 0;
    const std::string wrong = CheckKeys(data_, kMemory.tenant, live, destroyed);
    Demand(wrong.empty(), wrong);
    figures_.keys += live;
    figures_.keys_destroyed += destroyed;
    figures_.certificates += rules_.certificates();
    figures_.checkpoints += rules_.checkpoints();
  }

  void FinishStream() {
    Client client = server_.Connect();
    Client reference = reference_.Connect();
    const std::vector<Token> rest = Slice(next_, tokens_.size());
    InsertAll(client, kMemory, rest, client::InsertOutcome::kInserted);
    InsertAll(reference, kMemory, rest, client::InsertOutcome::kInserted);
    next_ = tokens_.size();
    live_.insert(live_.end(), rest.begin(), rest.end());
    CompareDigests("at the end");
    InsertAll(reference, kSurvivors, live_, client::InsertOutcome::kInserted);
    ++figures_.compared;
    Demand(Get(reference.Describe(kSurvivors), "describe").state_digest ==
               Get(client.Describe(kMemory), "describe").state_digest,
           "the digest differs from that of a memory fed with the survivors only");
    ++figures_.equal;
  }

  void CompareDigests(const std::string& when) {
    Client client = server_.Connect();
    Client reference = reference_.Connect();
    ++figures_.compared;
    Demand(Get(client.Describe(kMemory), "describe").state_digest ==
               Get(reference.Describe(kMemory), "describe").state_digest,
           absl::StrCat("digests differ ", when));
    ++figures_.equal;
  }

  void CheckLog() {
    Client client = server_.Connect();
    const std::string wrong = rules_.Check(client);
    Demand(wrong.empty(), wrong);
  }

  static uint64_t Present(const ServerProcess& server) {
    Client client = server.Connect();
    const client::Partition partition = Get(client.GetMemory(kMemory), "get memory").partition;
    return partition.margin + partition.error + partition.reserve;
  }

  std::vector<Token> Slice(size_t from, size_t to) const {
    return std::vector<Token>(tokens_.begin() + static_cast<std::ptrdiff_t>(from),
                              tokens_.begin() + static_cast<std::ptrdiff_t>(to));
  }

  std::mt19937_64 random_;
  const std::vector<Token> tokens_;
  std::vector<Token> live_;  // what should be there, in order
  size_t next_ = 0;          // tokens_[0, next_) went in
  const std::string data_;
  ServerProcess server_;
  ServerProcess reference_;
  LogRules rules_{kMemory.tenant};
  Figures& figures_;
};

struct Arguments {
  std::string lethed;
  std::string folder;
  uint64_t rounds = 0;
  uint64_t minutes = 0;  // above 0: the soak
  uint64_t seed = 0;
  std::string tokens;
};

std::optional<Arguments> Parse(const std::vector<std::string>& words) {
  if (words.size() < 4) return std::nullopt;
  Arguments arguments{.lethed = words[0], .folder = words[1]};
  const bool soak = words[2] == "--minutes";
  if (soak) {
    const bool good = words.size() == 6 && absl::SimpleAtoi(words[3], &arguments.minutes) &&
                      arguments.minutes > 0 && words[4] == "--seed" &&
                      absl::SimpleAtoi(words[5], &arguments.seed);
    return good ? std::optional(arguments) : std::nullopt;
  }
  if (words.size() == 5) arguments.tokens = words[4];
  const bool good = words.size() <= 5 && absl::SimpleAtoi(words[2], &arguments.rounds) &&
                    arguments.rounds > 0 && absl::SimpleAtoi(words[3], &arguments.seed);
  return good ? std::optional(arguments) : std::nullopt;
}

void RunTrials(const Arguments& arguments, Figures& figures) {
  std::mt19937_64 random(arguments.seed);
  if (arguments.minutes == 0) {
    std::vector<Token> tokens =
        arguments.tokens.empty() ? MakeTokens(random) : ReadTokens(arguments.tokens);
    Trial(arguments.lethed, arguments.folder, std::move(tokens), random, figures)
        .Run(arguments.rounds);
    return;
  }
  constexpr uint64_t kRounds = 27;  // three of each kind of erasure
  const absl::Time end = absl::Now() + absl::Minutes(static_cast<int64_t>(arguments.minutes));
  for (uint64_t trial = 0; absl::Now() < end; ++trial) {
    const std::string folder = absl::StrCat(arguments.folder, "/", trial);
    std::filesystem::create_directories(folder);
    random.seed(arguments.seed + trial);
    std::vector<Token> tokens = MakeTokens(random);
    Trial(arguments.lethed, folder, std::move(tokens), random, figures).Run(kRounds);
    std::filesystem::remove_all(folder);
  }
}

int Main(const std::vector<std::string>& words) {
  const std::optional<Arguments> arguments = Parse(words);
  if (!arguments.has_value()) {
    std::cerr << "usage: kill_stream LETHED FOLDER ROUNDS SEED [TOKENS.csv]\n"
                 "       kill_stream LETHED FOLDER --minutes N --seed SEED\n";
    return 2;
  }
  Figures figures;
  try {
    RunTrials(*arguments, figures);
  } catch (const Wrong& wrong) {
    figures.Print(arguments->seed);
    std::cerr << "wrong: " << wrong.what() << "\n";
    return 1;
  }
  figures.Print(arguments->seed);
  // A trial in which no kill met work in progress shows nothing.
  if (figures.in_flight == 0) {
    std::cerr << "wrong: no kill met work in progress, so nothing was tried\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace lethe::tests

int main(int argc, char** argv) {
  try {
    return lethe::tests::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << "kill_stream: " << error.what() << "\n";
    return 2;
  }
}
