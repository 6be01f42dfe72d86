// kill_stream LETHED FOLDER ROUNDS SEED [TOKENS.csv]
//
// Kills a server with SIGKILL at random moments, of a stream of inserts and every third time of a
// forget, starts it again, and demands after each kill:
//   * nothing acknowledged is lost: every acknowledged token is there with the same content, no
//     acknowledged forget is undone, and its stored answer comes back by its request id;
//   * nothing is half there: the tokens present are a prefix of what was sent, in order;
//   * the state digest equals that of a second server, never killed, that was given the same.
// At the end the digest equals that of a fresh memory which was fed with the survivors only.
//
// TOKENS.csv: header, then id,subject,key...,value,value. Without it 1,500 tokens are made from the
// seed. Prints one `name=value` line a figure; exits 0 when all held, 1 when not, 2 when it could
// not try.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client.h"
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

class Trial {
 public:
  Trial(const std::string& lethed,
        const std::string& folder,
        uint64_t seed,
        std::vector<Token> tokens,
        std::mt19937_64 random)
      : seed_(seed),
        random_(random),
        tokens_(std::move(tokens)),
        erased_(tokens_.size(), false),
        server_(lethed, folder + "/killed"),
        reference_(lethed, folder + "/reference") {}

  void Run(uint64_t rounds) {
    Get(server_.Start(), "start");
    Get(reference_.Start(), "start the reference");
    for (ServerProcess* server : {&server_, &reference_}) {
      Client client = server->Connect();
      CreateMemories(client, tokens_.front().key.size());
    }
    for (uint64_t round = 0; round < rounds; ++round) {
      if (round % 3 == 2 && next_ > 0) {
        ForgetAndKill(round);
      } else {
        StreamAndKill(rounds - round);
      }
      CompareDigests(absl::StrCat("after kill ", round + 1));
      ++kills_;
    }
    Finish();
  }

  void Print() const {
    std::cout << "seed=" << seed_ << "\nkills=" << kills_
              << "\nkills_with_unacknowledged=" << in_flight_
              << "\nkills_during_stream=" << kills_ - forget_kills_
              << "\nkills_during_forget=" << forget_kills_ << "\ntokens=" << tokens_.size()
              << "\nacknowledged=" << acknowledged_ << "\nlost=" << lost_
              << "\nforgotten_subjects=" << forgotten_ << "\ndigests_equal=" << equal_ << "/"
              << compared_ << "\n";
  }

  // A trial in which no kill met work in progress shows nothing.
  bool Meaningful() const { return in_flight_ > 0; }

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
    if (sent > acknowledged) ++in_flight_;
    acknowledged_ += acknowledged - next_;

    Get(server_.Start(), "start after a kill");
    const uint64_t present = Present(server_);
    const uint64_t before = next_;
    next_ = present + ErasedBefore(tokens_.size());
    if (next_ < acknowledged) lost_ += acknowledged - next_;
    Demand(next_ >= acknowledged, "acknowledged tokens are lost");
    Demand(next_ <= sent, "there are tokens that were never sent");
    Client restarted = server_.Connect();
    InsertAll(restarted, kMemory, Retained(0), client::InsertOutcome::kUnchanged);
    Demand(Present(server_) == present, "tokens that were there before were inserted again");
    Client reference = reference_.Connect();
    InsertAll(reference, kMemory, Retained(before), client::InsertOutcome::kInserted);
  }

  void ForgetAndKill(uint64_t round) {
    const std::string subject = tokens_[Uniform(0, next_ - 1)].subject;
    client::ForgetRequest request{
        .name = kMemory, .subject = subject, .request_id = absl::StrCat("forget-", round)};
    absl::StatusOr<client::ForgetResult> first = absl::UnknownError("not called");
    {
      Client client = server_.Connect({.max_attempts = 1});
      Killer killer(server_, 0, absl::Microseconds(Uniform(0, 20000)));
      first = client.Forget(request);
    }
    ++forget_kills_;
    Get(server_.Start(), "start after a kill");
    Client client = server_.Connect();
    if (!first.ok()) {
      ++in_flight_;
    } else {
      Demand(Present(server_) == next_ - ErasedBefore(next_) - first->erased,
             "an acknowledged forget was undone");
    }
    const client::ForgetResult again = Get(client.Forget(request), "forget again");
    if (first.ok()) {
      Demand(again.replayed, "the answer to an acknowledged forget was not kept");
      Demand(again.certificate_id == first->certificate_id && again.erased == first->erased &&
                 again.state_digest == first->state_digest,
             "the kept answer differs from the acknowledged one");
    }
    Client reference = reference_.Connect();
    const client::ForgetResult there = Get(reference.Forget(request), "forget on the reference");
    Demand(there.erased == again.erased, "the two servers erased different numbers of tokens");
    Demand(there.state_digest == again.state_digest, "the two servers report different digests");
    for (size_t i = 0; i < next_; ++i) {
      if (tokens_[i].subject == subject) erased_[i] = true;
    }
    ++forgotten_;
  }

  void Finish() {
    FinishStream();
    // The clients are gone by now: a server that ends waits a while for open connections.
    Get(server_.Stop(), "stop");
    Get(reference_.Stop(), "stop the reference");
  }

  void FinishStream() {
    Client client = server_.Connect();
    Client reference = reference_.Connect();
    std::vector<Token> rest(tokens_.begin() + static_cast<std::ptrdiff_t>(next_), tokens_.end());
    InsertAll(client, kMemory, rest, client::InsertOutcome::kInserted);
    InsertAll(reference, kMemory, rest, client::InsertOutcome::kInserted);
    next_ = tokens_.size();
    CompareDigests("at the end");
    InsertAll(reference, kSurvivors, Retained(0), client::InsertOutcome::kInserted);
    ++compared_;
    Demand(Get(reference.Describe(kSurvivors), "describe").state_digest ==
               Get(client.Describe(kMemory), "describe").state_digest,
           "the digest differs from that of a memory fed with the survivors only");
    ++equal_;
  }

  void CompareDigests(const std::string& when) {
    Client client = server_.Connect();
    Client reference = reference_.Connect();
    ++compared_;
    Demand(Get(client.Describe(kMemory), "describe").state_digest ==
               Get(reference.Describe(kMemory), "describe").state_digest,
           absl::StrCat("digests differ ", when));
    ++equal_;
  }

  static uint64_t Present(const ServerProcess& server) {
    Client client = server.Connect();
    const client::Partition partition = Get(client.GetMemory(kMemory), "get memory").partition;
    return partition.margin + partition.error + partition.reserve;
  }

  uint64_t ErasedBefore(size_t end) const {
    return static_cast<uint64_t>(
        std::count(erased_.begin(), erased_.begin() + static_cast<std::ptrdiff_t>(end), true));
  }

  // The tokens from `from` that should be there.
  std::vector<Token> Retained(size_t from) const {
    std::vector<Token> retained;
    for (size_t i = from; i < next_; ++i) {
      if (!erased_[i]) retained.push_back(tokens_[i]);
    }
    return retained;
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
  const std::vector<Token> tokens_;
  std::vector<bool> erased_;  // by index in tokens_
  size_t next_ = 0;           // tokens_[0, next_) went in, those erased since left out again
  ServerProcess server_;
  ServerProcess reference_;

  uint64_t kills_ = 0;
  uint64_t in_flight_ = 0;
  uint64_t forget_kills_ = 0;
  uint64_t acknowledged_ = 0;
  uint64_t lost_ = 0;
  uint64_t forgotten_ = 0;
  uint64_t equal_ = 0;
  uint64_t compared_ = 0;
};

int Main(int argc, char** argv) {
  uint64_t rounds = 0;
  uint64_t seed = 0;
  if (argc < 5 || argc > 6 || !absl::SimpleAtoi(argv[3], &rounds) || rounds == 0 ||
      !absl::SimpleAtoi(argv[4], &seed)) {
    std::cerr << "usage: kill_stream LETHED FOLDER ROUNDS SEED [TOKENS.csv]\n";
    return 2;
  }
  std::mt19937_64 random(seed);
  std::vector<Token> tokens = argc == 6 ? ReadTokens(argv[5]) : MakeTokens(random);
  Trial trial(argv[1], argv[2], seed, std::move(tokens), random);
  try {
    trial.Run(rounds);
  } catch (const Wrong& wrong) {
    trial.Print();
    std::cerr << "wrong: " << wrong.what() << "\n";
    return 1;
  }
  trial.Print();
  if (!trial.Meaningful()) {
    std::cerr << "wrong: no kill met work in progress, so nothing was tried\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace lethe::tests

int main(int argc, char** argv) {
  try {
    return lethe::tests::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "kill_stream: " << error.what() << "\n";
    return 2;
  }
}
