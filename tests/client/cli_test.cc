#include <gmock/gmock.h>

#include <regex>

#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

int Rpc(absl::StatusCode code) { return kExitRpcBase + static_cast<int>(code); }

// Of what a help lists under "Subcommands:".
std::vector<std::string> SubcommandsIn(const std::string& help) {
  std::vector<std::string> found;
  std::istringstream lines(help);
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ") && !line.starts_with("   ") && listed) {
      found.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else if (!line.starts_with(" ")) {
      listed = line == "Subcommands:";
    }
  }
  return found;
}

TEST_F(CliTest, EveryHelpFitsIntoEightyColumnsAndNamesItself) {
  std::vector<std::vector<std::string>> verbs = {{}};
  for (size_t i = 0; i < verbs.size(); ++i) {
    std::vector<std::string> words = verbs[i];
    std::string path = "lethe";
    for (const std::string& word : words) path += " " + word;
    words.push_back("--help");
    const CliResult result = Run(words);
    EXPECT_EQ(result.status, kExitOk);
    EXPECT_EQ(result.err, "");
    EXPECT_THAT(result.out, HasSubstr("Usage: " + path + " "));
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
    words.pop_back();
    for (const std::string& subcommand : SubcommandsIn(result.out)) {
      verbs.push_back(words);
      verbs.back().push_back(subcommand);
    }
  }
  EXPECT_GT(verbs.size(), 60u);
}

TEST_F(CliTest, WrongUsageExitsWithOneAndSaysNothingOnStandardOutput) {
  Fill({"a"});
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"frob"}, "no such command: frob"},
      {{"tenant", "frob"}, "no such command: frob"},
      {{"tenant"}, "A subcommand is required"},
      {{"tenant", "list", "--frob"}, "--frob"},
      {{"tenant", "list", "-o", "xml"}, "must be table, json or jsonl"},
      {{"tenant", "list", "--timeout", "soon"}, "--timeout: not a duration"},
      {{"tenant", "list", "--timeout", "-1s"}, "--timeout: must be above 0"},
      {{"tenant", "create"}, "which tenant?"},
      {{"memory", "get", "m"}, "which tenant?"},
      {{"memory", "get", "-t", "t"}, "which memory?"},
      {{"memory", "create", "m", "-t", "t", "--gamma", "1", "--key-dimension", "1"},
       "--key-dimension and --value-dimension are needed, or --encoder"},
      {{"memory", "create", "m", "-t", "t", "--capacity", "2", "--encoder", "no/such.bin"},
       "no/such.bin"},
      {{"memory", "create", "m", "-t", "t", "--capacity", "2", "--encoder",
        LETHE_SOURCE_DIR "/CMakePresets.json", "--gamma", "1"},
       "with --encoder give --kernel and its --gamma or --scale, or neither"},
      {{"query", "-t", "t", "-m", "m"}, "either --key or --file"},
      {{"query", "-t", "t", "-m", "m", "-k", "1,2", "-k", "1,x"},
       "--key number 2[1]: not a number"},
      {{"forget", "-t", "t", "-m", "m"}, "exactly one of --id, --subject and --everything"},
      {{"forget", "-t", "t", "-m", "m", "--id", "a", "--everything"}, "exactly one of"},
      {{"evict", "-t", "t", "-m", "m"}, "--budget is required"},
      {{"evict", "-t", "t", "-m", "m", "--budget", "0"}, "must be a number from 1 on"},
      {{"evict", "-t", "t", "-m", "m", "--budget=-3"}, "must be a number from 1 on"},
      {{"evict", "-t", "t", "-m", "m", "--budget", "ten"}, "must be a number from 1 on"},
      {{"evict", "--budget", "3"}, "which tenant?"},
      {{"edit", "-t", "t", "-m", "m"}, "--file is required"},
      {{"edit", "-t", "t", "-m", "m", "-f", "x.csv"}, "--key-columns is needed"},
      {{"edit", "-t", "t", "-m", "m", "-f", "-", "--format", "ndjson"}, "give --yes or --dry-run"},
      {{"insert", "-t", "t", "-m", "m"}, "either --token or --file is required"},
      {{"insert", "-t", "t", "-m", "m", "-f", "-"}, "give --format"},
      {{"insert", "-t", "t", "-m", "m", "-f", "x.csv"}, "--key-columns is needed"},
      {{"insert", "-t", "t", "-m", "m", "-f", "x.csv", "--key-columns", "a", "--delimiter", "ab"},
       "--delimiter"},
      {{"insert", "-f", "x.csv", "--batch", "0"}, "--batch: must be in 1 to 10000"},
      {{"certificate", "verify", "x", "--key", "nonsense"}, "--key: "},
      {{"certificate", "verify", "x"}, "--key VKEY or --key-file PATH"},
      {{"export", "t"}, "--to is required"},
      {{"export", "--to", "x"}, "which tenant?"},
      {{"export", "t", "--to", "x", "--first", "-1"}, "must be a whole number"},
      {{"log", "prove", "x", "-t", "t"}, "64 hex digits of an id, or a sequence number"},
      {{"log", "checkpoint"}, "which tenant?"},
      {{"log", "consistency", "x", "-t", "t"}, "must be a whole number"},
      {{"verify", "t"}, "which memory?"},
  };
  for (const auto& [arguments, message] : cases) {
    const CliResult result = Run(arguments);
    EXPECT_EQ(result.status, kExitUsage) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, AllOf(StartsWith("lethe: error: "), HasSubstr(message)));
  }
  EXPECT_EQ(Run({}).status, kExitUsage);
  EXPECT_THAT(server_->calls, IsEmpty()) << "wrong usage never reaches the server";
}

TEST_F(CliTest, RpcErrorsExitWithTheirCode) {
  Fill({"a"});
  for (int code = 1; code <= 16; ++code) {
    const auto status_code = static_cast<absl::StatusCode>(code);
    server_->failures["GetTenant"] = absl::Status(status_code, "tenant: some words");
    const CliResult result = Run({"tenant", "get", "t"});
    EXPECT_EQ(result.status, 64 + code);
    EXPECT_EQ(result.out, "");
    if (status_code == absl::StatusCode::kUnavailable) {
      EXPECT_EQ(result.err, "lethe: error: 127.0.0.1:7421: tenant: some words\n");
    } else if (status_code != absl::StatusCode::kDeadlineExceeded) {
      EXPECT_EQ(result.err, "lethe: error: tenant: some words\n");
    }
  }
}

TEST_F(CliTest, GlobalOptionsReachTheConnectionFromFlagsAndEnvironment) {
  Fill({"a"});
  Run({"tenant", "get", "t", "--address", "example:1", "--timeout", "1m30s"});
  ASSERT_TRUE(connected_.has_value());
  EXPECT_EQ(connected_->address, "example:1");
  EXPECT_EQ(connected_->deadline, absl::Seconds(90));
  Run({"--timeout", "2.5", "tenant", "get", "t"});
  EXPECT_EQ(connected_->deadline, absl::Milliseconds(2500));
  setenv("LETHE_ADDRESS", "example:2", 1);
  setenv("LETHE_TENANT", "t", 1);
  setenv("LETHE_MEMORY", "m", 1);
  EXPECT_EQ(Run({"memory", "get"}).status, kExitOk);
  EXPECT_EQ(connected_->address, "example:2");
  EXPECT_EQ(Run({"memory", "get", "-m", "none"}).status, Rpc(absl::StatusCode::kNotFound))
      << "a flag wins over the environment";
}

TEST_F(CliTest, NamesThatAreVerbsAreNames) {
  server_->tenants["memory"]["list"] = {};
  EXPECT_EQ(Run({"tenant", "get", "memory"}).status, kExitOk);
  EXPECT_EQ(Run({"memory", "get", "list", "-t", "memory"}).status, kExitOk);
}

TEST_F(CliTest, TenantsInThreeFormats) {
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(Run({"tenant", "create", name}).status, kExitOk);
  }
  EXPECT_EQ(Run({"tenant", "create", "a"}).status, Rpc(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(Run({"tenant", "list"}).out,
            "TENANT  MEMORIES  CERTIFICATES  CREATED\n"
            "a              0             0  2026-01-31T12:00:00Z\n"
            "b              0             0  2026-01-31T12:00:00Z\n"
            "c              0             0  2026-01-31T12:00:00Z\n");
  const Json list = Json::parse(Run({"tenant", "list", "-o", "json"}).out);
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[2]["name"], "c");
  std::istringstream lines(Run({"tenant", "list", "-o", "jsonl"}).out);
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(Json::parse(line), list[count]);
  }
  EXPECT_EQ(count, 3u);
  const Json one = Json::parse(Run({"tenant", "get", "b", "-o", "json"}).out);
  EXPECT_EQ(one["verification_key"], server_->vkey());
}

TEST_F(CliTest, EmptyListsAreEmptyData) {
  EXPECT_EQ(Run({"tenant", "list"}).out, "");
  EXPECT_EQ(Run({"tenant", "list"}).err, "lethe: no tenants\n");
  EXPECT_EQ(Run({"tenant", "list", "-q"}).err, "");
  EXPECT_EQ(Json::parse(Run({"tenant", "list", "-o", "json"}).out), Json::array());
}

TEST_F(CliTest, CreatesMemoriesOfEveryKind) {
  Run({"tenant", "create", "t"});
  const auto create = [this](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"memory", "create", "-t", "t", "--key-dimension", "3", "--value-dimension", "1"});
    return Run(more);
  };
  EXPECT_EQ(create({"a", "--gamma", "0.5", "--capacity", "10"}).status, kExitOk);
  EXPECT_EQ(create({"b", "--kernel", "laplacian", "--gamma", "2", "--box", "0.1", "--duplicates",
                    "newest-first"})
                .status,
            kExitOk);
  EXPECT_EQ(create({"c", "--kernel", "exp_dot", "--scale", "0.25", "--box", "1"}).status, kExitOk);
  auto& memories = server_->tenants["t"];
  EXPECT_EQ(memories["a"].config,
            (client::MemoryConfig{.kernel = client::Kernel::Rbf(0.5),
                                  .capacity = 10,
                                  .duplicates = client::DuplicatesPolicy::kShared,
                                  .key_dimension = 3,
                                  .value_dimension = 1}));
  EXPECT_EQ(memories["b"].config,
            (client::MemoryConfig{.kernel = client::Kernel::Laplacian(2),
                                  .box = 0.1,
                                  .duplicates = client::DuplicatesPolicy::kNewestFirst,
                                  .key_dimension = 3,
                                  .value_dimension = 1}));
  EXPECT_EQ(memories["c"].config.kernel, client::Kernel::ExpDot(0.25));
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {"d", "--capacity", "10"},
           {"d", "--gamma", "1"},
           {"d", "--gamma", "1", "--capacity", "10", "--box", "0.1"},
           {"d", "--scale", "1", "--capacity", "10"},
           {"d", "--kernel", "exp_dot", "--gamma", "1", "--capacity", "10"},
           {"d", "--kernel", "cosine", "--gamma", "1", "--capacity", "10"},
           {"d", "--gamma", "one", "--capacity", "10"}}) {
    EXPECT_EQ(create(bad).status, kExitUsage);
  }
  EXPECT_EQ(memories.count("d"), 0u);
  EXPECT_THAT(Run({"memory", "list", "-t", "t"}).out,
              HasSubstr("a       empty       0      0        0  2026-01-31T12:00:00Z\n"));
  const CliResult described = Run({"memory", "describe", "a", "-t", "t", "--refit"});
  EXPECT_THAT(described.out, HasSubstr("mu between      0.25 and inf\n"));
  EXPECT_THAT(described.out, HasSubstr("verdict         bit-identical\n"));
}

TEST_F(CliTest, DeletingNeedsYes) {
  Fill({"a", "b"});
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
           {"memory", "delete", "m", "-t", "t"}, {"tenant", "delete", "t"}}) {
    CliResult result = Run(verb);
    EXPECT_EQ(result.status, kExitUsage);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("nothing was changed; --yes is needed"));
    terminal_ = true;
    EXPECT_EQ(Run(verb, "n\n").status, kExitUsage);
    EXPECT_EQ(Run(verb, "").status, kExitUsage) << "the end of the input is no yes";
    EXPECT_THAT(server_->calls, Not(Contains("DeleteMemory")));
    EXPECT_THAT(server_->calls, Not(Contains("DeleteTenant")));
    terminal_ = false;
  }
  std::vector<std::string> yes = {"memory", "delete", "m", "-t", "t", "--yes", "-o", "jsonl"};
  const Json deleted = Json::parse(Run(yes).out);
  EXPECT_EQ(deleted["erased_tokens"], 2);
  EXPECT_EQ(deleted["destruction"]["certificate_id"], std::string(64, 'e'));
  EXPECT_EQ(deleted["destruction"]["stores"].size(), 4u);
  terminal_ = true;
  EXPECT_EQ(Run({"tenant", "delete", "t"}, "yes\n").status, kExitOk);
  EXPECT_TRUE(server_->tenants.empty());
}

TEST_F(CliTest, QueriesByKeyAndFile) {
  Fill({"a", "b"});
  const CliResult table = RunIn({"query", "-k", "-1.5,2", "--key", "1,2", "--key=3e0,.5"});
  EXPECT_EQ(table.status, kExitOk) << table.err;
  EXPECT_EQ(table.out,
            "QUERY  READOUT     DECISION  POSITION\n"
            "    0  -0.5 2             -  undefined\n"
            "    1  0.333333 2         1  inside\n"
            "    2  1 2                3  inside\n");
  EXPECT_EQ(RunIn({"query", "-k", "1,2", "--top", "2"}).out,
            "QUERY  READOUT     DECISION  POSITION  TOKENS (SHARE)\n"
            "    0  0.333333 2         1  inside    a (0.5)\n"
            "                                       b (0.5)\n");
  const Json json = Json::parse(RunIn({"query", "-k", "1,2", "-o", "json", "--top", "1"}).out);
  EXPECT_EQ(json[0]["readout"][0].get<double>(), 1.0 / 3.0) << "every digit";
  EXPECT_EQ(json[0]["tokens"][0]["id"], "a");
  std::string csv = "y,x\n";
  for (int i = 0; i < 1201; ++i) csv += "7," + std::to_string(i) + "\n";
  const std::string path = WriteFile("q.csv", csv);
  const CliResult lines = RunIn({"query", "-f", path, "--key-columns", "x,y", "-o", "jsonl"});
  EXPECT_EQ(lines.status, kExitOk) << lines.err;
  std::istringstream stream(lines.out);
  int count = 0;
  for (std::string line; std::getline(stream, line); ++count) {
    ASSERT_EQ(Json::parse(line)["decision"], count);
  }
  EXPECT_EQ(count, 1201);
  const CliResult ndjson =
      RunIn({"query", "-f", "-", "--format", "ndjson"}, "{\"key\":[1,2]}\n{\"key\":[1]}\n");
  EXPECT_EQ(ndjson.status, Rpc(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(ndjson.err, "lethe: error: queries[1]: has 1 values\n");
  const CliResult bad = RunIn({"query", "-f", "-", "--format", "ndjson"}, "{\"key\":[1,2]\n");
  EXPECT_EQ(bad.status, kExitFile);
  EXPECT_EQ(bad.err, "lethe: error: standard input: line 1, column 13: not JSON\n");
}

TEST_F(CliTest, AQueryTakesAChunkBesideTheMemory) {
  Fill({"a"});
  const std::string path =
      WriteFile("chunk", "{\"key\":[1,2],\"value\":[3]}\n{\"key\":[4,5],\"value\":[6]}\n");
  const CliResult asked =
      RunIn({"query", "-k", "1,2", "--local", path, "--scale", "0.5", "--gate", "8", "-o", "json"});
  EXPECT_EQ(asked.status, kExitOk) << asked.err;
  EXPECT_EQ(Json::parse(asked.out)[0]["local_share"], 0.125);
  ASSERT_TRUE(server_->chunk.has_value());
  EXPECT_EQ(server_->chunk->keys, (std::vector<std::vector<double>>{{1, 2}, {4, 5}}));
  EXPECT_EQ(server_->chunk->values, (std::vector<std::vector<double>>{{3}, {6}}));
  EXPECT_EQ(server_->chunk->scale, 0.5);
  EXPECT_EQ(server_->chunk->gate, 8.0);
  EXPECT_FALSE(
      Json::parse(RunIn({"query", "-k", "1,2", "-o", "json"}).out)[0].contains("local_share"));
  EXPECT_FALSE(server_->chunk.has_value());
  EXPECT_EQ(RunIn({"query", "-k", "1,2", "--gate", "8"}).status, kExitUsage);
  EXPECT_EQ(RunIn({"query", "-k", "1,2", "--local", path, "--gate", "0"}).status, kExitUsage);
  std::string many;
  for (int i = 0; i < 1025; ++i) many += "{\"key\":[1,2],\"value\":[3]}\n";
  const CliResult bad = RunIn({"query", "-k", "1,2", "--local", WriteFile("many", many)});
  EXPECT_EQ(bad.status, kExitFile);
  EXPECT_THAT(bad.err, HasSubstr("has more than 1024 lines"));
}

TEST_F(CliTest, ForgetShowsThePlanFirst) {
  Fill({"a", "b", "c"});
  CliResult result = RunIn({"forget", "--subject", "s0"});
  EXPECT_EQ(result.status, kExitUsage);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "The plan:\n"
            "  would erase      2\n"
            "  held             0\n"
            "  not found        0\n"
            "  already erased   0\n"
            "  partition now    3 margin, 0 error, 0 reserve\n"
            "  partition after  1 margin, 0 error, 0 reserve\n"
            "lethe: error: nothing was changed; --yes is needed to go on\n");
  EXPECT_THAT(server_->calls, ElementsAre("Forget(dry_run)"));
  result = RunIn({"forget", "--subject", "s0", "--dry-run", "-o", "jsonl"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(Json::parse(result.out)["matched"], 2);
  EXPECT_EQ(server_->tenants["t"]["m"].tokens.size(), 3u);
  terminal_ = true;
  EXPECT_EQ(RunIn({"forget", "--subject", "s0"}, "no\n").status, kExitUsage);
  EXPECT_EQ(server_->tenants["t"]["m"].tokens.size(), 3u);
  result = RunIn({"forget", "--subject", "s0"}, "y\n");
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_THAT(result.err, HasSubstr("Forget for good? [y/N] "));
  EXPECT_EQ(server_->tenants["t"]["m"].tokens.size(), 1u);
}

TEST_F(CliTest, ForgetPrintsCountsAndCertificate) {
  Fill({"a", "b", "c"});
  const Json json = Json::parse(
      RunIn({"forget", "--id", "a", "--id", "zzz", "-y", "--request-id", "r1", "-o", "json"}).out);
  EXPECT_EQ(json["matched"], 1);
  EXPECT_EQ(json["erased"], 1);
  EXPECT_EQ(json["not_found"], 1);
  EXPECT_EQ(json["verdict"], "proven");
  EXPECT_EQ(json["request_id"], "r1");
  EXPECT_EQ(json["certificate_id"], server_->log.at(0).id);
  EXPECT_EQ(json["destruction"]["certificate_id"], std::string(64, 'e'));
  ASSERT_EQ(json["destruction"]["stores"].size(), 4u);
  EXPECT_EQ(json["destruction"]["stores"][3], (Json{{"store", "backups"},
                                                    {"level", "unreadable-without-key"},
                                                    {"evidence", "copies of the data"}}));
  EXPECT_EQ(json["destruction"]["exceptions"], Json({"artefact x is not covered"}));
  EXPECT_FALSE(Json::parse(RunIn({"forget", "--id", "zzz", "-y", "-o", "json"}).out)
                   .contains("destruction"));
  const CliResult table = RunIn({"forget", "--everything", "--yes"});
  EXPECT_THAT(table.out, HasSubstr("erased          2\n"));
  EXPECT_THAT(table.out, HasSubstr("before          2 margin, 0 error, 0 reserve\n"));
  EXPECT_THAT(table.out, HasSubstr("certificate     " + server_->log.at(1).id + "\n"));
  EXPECT_THAT(table.out, HasSubstr("not covered     artefact x is not covered\n"));
  EXPECT_THAT(table.out, HasSubstr("subject salt    " + absl::StrCat(std::string(64, 'f'), "\n")));
  EXPECT_TRUE(std::regex_search(table.out, std::regex("request id      [0-9a-f]{32}\n")));
  EXPECT_THAT(table.out, HasSubstr("keys destroyed  " + std::string(64, 'e') +
                                   "\n  tokens           rows-deleted\n"
                                   "  keys             key-destroyed\n"
                                   "  write-ahead-log  truncated\n"
                                   "  backups          unreadable-without-key\n"));
}

TEST_F(CliTest, LinesOfDigestsFitIntoEightyColumns) {
  Fill({"a", "b", "c"});
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"evict", "--budget", "2"},
                                             {"evict", "--budget", "2", "--yes"},
                                             {"forget", "--id", "a"},
                                             {"forget", "--id", "a", "--yes"},
                                             {"memory", "describe", "--refit"},
                                             {"memory", "get"},
                                             {"certificate", "list"},
                                             {"certificate", "show", "0"},
                                             {"certificate", "verify", "0", "--key", "KEY"},
                                             {"memory", "delete", "--yes"},
                                             {"tenant", "delete", "t", "--yes", "--out", "OUT"}}) {
    std::vector<std::string> words = arguments;
    if (words.back() == "KEY") words.back() = server_->vkey();
    // Without a folder it prints the certificate itself, whose line is as long as it is.
    if (words.back() == "OUT") words.back() = folder_ + "/out";
    const CliResult result = RunIn(words);
    const std::string text = result.out + result.err;
    SCOPED_TRACE(text);
    EXPECT_NE(text, "");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST_F(CliTest, AForgetWithoutAnswerTellsHowToAskAgain) {
  Fill({"a"});
  server_->failures["Forget"] = absl::UnavailableError("connection reset");
  const CliResult result = RunIn({"forget", "--id", "a", "--yes"});
  EXPECT_EQ(result.status, Rpc(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(std::regex_search(result.err, std::regex("--request-id [0-9a-f]{32} ")));
}

TEST_F(CliTest, Version) {
  EXPECT_TRUE(std::regex_match(Run({"version"}).out, std::regex("lethe \\d+\\.\\d+\\.\\d+\n")));
}

class InsertTest : public CliTest {
 protected:
  InsertTest() { Fill({}); }
  CliResult Insert(const std::string& csv, std::vector<std::string> more = {}) {
    const std::string path = WriteFile("in.csv", csv);
    more.insert(more.begin(), {"insert", "-f", path, "--id-columns", "p,h", "--key-columns", "x,y",
                               "--value-columns", "v", "--subject-column", "p", "--label-columns",
                               "w", "-o", "jsonl"});
    CliResult result = RunIn(more);
    const size_t place = result.err.find(folder_);
    if (place != std::string::npos) result.err.erase(place, folder_.size() + 1);
    return result;
  }
  const std::map<std::string, client::Token>& tokens() { return server_->tenants["t"]["m"].tokens; }
};

TEST_F(InsertTest, ReadsAFileInBatches) {
  std::string csv = "p,h,x,y,v,w\n";
  for (int i = 0; i < 1000; ++i) csv += "p1," + std::to_string(i) + ",1,2,3,north\n";
  const CliResult result = Insert(csv, {"--batch", "7"});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_EQ(result.err, "") << "no progress without a terminal";
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["inserted"], 1000);
  EXPECT_EQ(json["rejected"], 0);
  EXPECT_GT(json["tokens_per_second"], 0.0);
  EXPECT_EQ(json["verdict"], "proven");
  EXPECT_EQ(tokens().size(), 1000u);
  EXPECT_EQ(tokens().at("p1:42"), (client::Token{.id = "p1:42",
                                                 .key = {1, 2},
                                                 .value = {3},
                                                 .subject = "p1",
                                                 .labels = {{"w", "north"}}}));
  EXPECT_EQ(Json::parse(Insert(csv).out)["unchanged"], 1000) << "the same file again";
}

TEST_F(InsertTest, StopsAtABadLineAndKeepsWhatCameBefore) {
  const CliResult result = Insert("p,h,x,y,v,w\na,1,1,2,3,\na,2,1,oops,3,\na,3,1,2,3,\n");
  EXPECT_EQ(result.status, kExitFile);
  EXPECT_EQ(result.err,
            "lethe: in.csv: line 3, column \"y\": not a number\n"
            "lethe: error: " +
                folder_ + "/in.csv: stopped at the first bad line; --on-error skip goes on\n");
  EXPECT_EQ(Json::parse(result.out)["inserted"], 1);
  EXPECT_EQ(Json::parse(result.out)["bad_lines"], 1);
  EXPECT_EQ(tokens().size(), 1u);
}

TEST_F(InsertTest, SkipsBadLinesAndNamesTheFirstTwenty) {
  std::string csv = "p,h,x,y,v,w\n";
  for (int i = 0; i < 30; ++i) csv += "a," + std::to_string(i) + ",1,oops,3,\n";
  csv += "a,x,1,2,3,\n";
  const CliResult result = Insert(csv, {"--on-error", "skip"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(Json::parse(result.out)["bad_lines"], 30);
  EXPECT_EQ(Json::parse(result.out)["inserted"], 1);
  EXPECT_THAT(result.err, HasSubstr("line 21, "));
  EXPECT_THAT(result.err, Not(HasSubstr("line 22, ")));
  EXPECT_THAT(result.err, HasSubstr("lethe: 10 more lines were refused\n"));
}

TEST_F(InsertTest, MissingNumbersStopOrAreSkippedAndCounted) {
  const std::string csv = "p,h,x,y,v,w\na,1,,2,3,\na,2,1,NA,3,\na,3,1,2,3,\n";
  EXPECT_EQ(Insert(csv).status, kExitFile);
  const CliResult result = Insert(csv, {"--missing", "skip"});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_EQ(Json::parse(result.out)["missing_skipped"], 2);
  EXPECT_EQ(Json::parse(result.out)["inserted"], 1);
}

TEST_F(InsertTest, ARejectedTokenNamesItsLine) {
  server_->rejected_id = "a:2";
  const std::string csv = "p,h,x,y,v,w\na,1,1,2,3,\n\na,2,1,2,3,\na,3,1,2,3,\n";
  CliResult result = Insert(csv, {"--on-error", "skip", "--batch", "2"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(result.err, "lethe: in.csv: line 4: rejected: key: has another dimension\n");
  EXPECT_EQ(Json::parse(result.out)["rejected"], 1);
  result = Insert(csv);
  EXPECT_EQ(result.status, kExitFile);
}

TEST_F(InsertTest, FileProblemsExitWithTwo) {
  EXPECT_EQ(RunIn({"insert", "-f", folder_ + "/none.csv", "--key-columns", "x"}).status, kExitFile);
  std::filesystem::create_directory(folder_ + "/d.csv");
  EXPECT_EQ(RunIn({"insert", "-f", folder_ + "/d.csv", "--key-columns", "x"}).status, kExitFile);
  EXPECT_EQ(Insert("p,h,x,y,v\n").status, kExitFile) << "no column w";
  EXPECT_EQ(Insert("").status, kExitFile);
}

TEST_F(InsertTest, ReadsNdjsonFromStandardInput) {
  const CliResult result = RunIn({"insert", "-f", "-", "--format", "ndjson"},
                                 "{\"id\":\"a\",\"key\":[1,2],\"value\":[3]}\n{\"key\":[4,5]}\n");
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_THAT(result.out, StartsWith("inserted           2\nunchanged          0\n"));
  ASSERT_EQ(tokens().size(), 2u);
}

TEST_F(InsertTest, AnEmptyIdInNdjsonIsRefusedByItsLine) {
  const CliResult result =
      RunIn({"insert", "-f", "-", "--format", "ndjson"},
            "{\"id\":\"a\",\"key\":[1,2],\"value\":[3]}\n{\"id\":\"\",\"key\":[4,5]}\n");
  EXPECT_EQ(result.status, kExitFile);
  EXPECT_THAT(result.err, HasSubstr("line 2, id: is empty\n"));
  EXPECT_EQ(tokens().size(), 1u);
}

TEST_F(InsertTest, ServerErrorsExitWithTheirCode) {
  server_->tenants["t"].erase("m");
  EXPECT_EQ(Insert("p,h,x,y,v,w\na,1,1,2,3,\n").status, Rpc(absl::StatusCode::kNotFound));
}

TEST_F(InsertTest, ProgressIsDrawnOnATerminalUnlessQuiet) {
  terminal_ = true;
  const std::string csv = "p,h,x,y,v,w\na,1,1,2,3,\n";
  EXPECT_THAT(Insert(csv).err, AllOf(HasSubstr("] 100 %"), testing::EndsWith("\r\033[K")));
  EXPECT_EQ(Insert(csv, {"--quiet"}).err, "");
}

}  // namespace
}  // namespace lethe::cli
