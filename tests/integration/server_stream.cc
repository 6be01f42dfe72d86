// server_stream LETHED FOLDER [TOKENS [SEED]]: InsertStream through a server of its own against
// what the store alone takes; run by hand (tests/show/server.sh).
//
// TOKENS tokens (20,000 a turn, five turns) of 16 + 16 numbers, a payload of 100 bytes, labels of
// 20 and one of 500 subjects: through the client's writer with its defaults (messages of 200
// tokens, 8 on the way), where each is checked, solved for, sealed and durable before it is
// acknowledged; and the same rows into the store in this process, sealed and durable, in batches of
// one message and in batches of all that may be on the way, of which the faster counts. The
// kernel is wide, so that nearly all tokens are redundant, as in a long stream.
//
// Prints one `name=value` line a figure: tokens a second of each, and the ratio (the median of the
// turns, least and largest beside it). Exits 0 when it measured.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "tests/bench/store_bench.h"
#include "tests/integration/measure.h"
#include "tests/integration/server_process.h"

namespace lethe::tests {
namespace {

using bench::WallSeconds;
using client::Client;
using client::MemoryName;

constexpr size_t kTurns = 5;
constexpr uint64_t kSubjects = 500;
constexpr uint32_t kDimension = 16;

// Tokens a second.
double Stream(Client& client, const MemoryName& name, const std::vector<store::TokenRow>& rows) {
  std::vector<client::Token> tokens;
  tokens.reserve(rows.size());
  for (const store::TokenRow& row : rows) {
    tokens.push_back({.id = row.id,
                      .key = row.key,
                      .value = row.value,
                      .subject = row.subject,
                      .payload = row.payload,
                      .labels = {{"label", std::string(15, 'l')}}});
  }
  Must(client.CreateMemory(name, {.kernel = client::Kernel::Rbf(0.05 / kDimension),
                                  .capacity = 40,
                                  .key_dimension = kDimension,
                                  .value_dimension = kDimension}),
       "create memory");
  const double begin = WallSeconds();
  const auto writer = client.WriteTokens(name);
  for (client::Token& token : tokens) Must(writer->Write(std::move(token)), "write");
  const client::InsertSummary summary = Must(writer->Close(), "close");
  const double seconds = WallSeconds() - begin;
  if (summary.totals.inserted != rows.size()) {
    Must(absl::DataLossError("not every token was inserted"), "stream");
  }
  return static_cast<double>(rows.size()) / seconds;
}

double Store(bench::OurStore& store, std::span<const store::TokenRow> rows, size_t batch) {
  const double begin = WallSeconds();
  for (size_t i = 0; i < rows.size(); i += batch) {
    store.Insert(rows.subspan(i, std::min(batch, rows.size() - i)));
  }
  return static_cast<double>(rows.size()) / (WallSeconds() - begin);
}

int Run(const std::string& lethed, const std::string& folder, size_t tokens, uint64_t seed) {
  const client::InsertWriterOptions defaults;
  const size_t message = defaults.batch_tokens;
  const size_t underway = defaults.batch_tokens * defaults.window;
  ServerProcess server(lethed, folder);
  Must(server.Start(), "start");
  Client client = server.Connect();
  Must(client.CreateTenant("stream"), "create tenant");
  bench::OurStore one(folder + ".one");
  bench::OurStore many(folder + ".many");
  bench::Rows source(seed, kSubjects);
  std::vector<double> stream;
  std::vector<double> store_one;
  std::vector<double> store_many;
  std::vector<double> ratios;
  for (size_t turn = 0; turn < kTurns; ++turn) {
    const std::vector<store::TokenRow> rows = source.Next(tokens);
    stream.push_back(Stream(client, {"stream", absl::StrCat("m", turn)}, rows));
    store_one.push_back(Store(one, rows, message));
    store_many.push_back(Store(many, rows, underway));
    ratios.push_back(stream.back() / std::max(store_one.back(), store_many.back()));
  }
  Must(server.Stop(), "stop");
  std::printf("tokens=%zu\nturns=%zu\n", tokens, kTurns);
  std::printf("stream_rate=%.0f\nstore_rate_%zu=%.0f\nstore_rate_%zu=%.0f\n", Quantile(stream, 0.5),
              message, Quantile(store_one, 0.5), underway, Quantile(store_many, 0.5));
  std::printf("ratio=%.2f\nleast_ratio=%.2f\nlargest_ratio=%.2f\n", Quantile(ratios, 0.5),
              Quantile(ratios, 0.0), Quantile(ratios, 1.0));
  return 0;
}

}  // namespace
}  // namespace lethe::tests

int main(int argc, char** argv) {
  if (argc < 3 || argc > 5) {
    std::fprintf(stderr, "server_stream LETHED FOLDER [TOKENS [SEED]]\n");
    return 2;
  }
  const size_t tokens = argc > 3 ? std::stoul(argv[3]) : 20000;
  return lethe::tests::Run(argv[1], argv[2], tokens, argc > 4 ? std::stoull(argv[4]) : 1);
}
