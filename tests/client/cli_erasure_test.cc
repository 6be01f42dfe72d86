// lethe evict and lethe edit.
#include <gmock/gmock.h>

#include <regex>

#include "client/cli/exit_codes.h"
#include "client/cli/render.h"
#include "tests/client/cli_testing.h"

namespace lethe::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int Rpc(absl::StatusCode code) { return kExitRpcBase + static_cast<int>(code); }

TEST_F(CliTest, EvictShowsThePlanAndGoesOnWithConsentOnly) {
  Fill({"a", "b", "c", "d", "e"});
  CliResult result = RunIn({"evict", "--budget", "3"});
  EXPECT_EQ(result.status, kExitUsage);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, AllOf(HasSubstr("would take out   2\n"), HasSubstr("would retain     3"),
                                HasSubstr("budget reached   yes"), HasSubstr("--yes is needed")));
  EXPECT_EQ(server_->tenants["t"]["m"].tokens.size(), 5u);
  result = RunIn({"evict", "--budget", "3", "--dry-run", "-o", "json"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_EQ(Json::parse(result.out)["evicted"], 2);
  EXPECT_EQ(Json::parse(result.out)["certificate_id"], "");
  EXPECT_EQ(server_->tenants["t"]["m"].tokens.size(), 5u);

  terminal_ = true;
  EXPECT_EQ(RunIn({"evict", "--budget", "3"}, "no\n").status, kExitUsage);
  EXPECT_EQ(server_->tenants["t"]["m"].tokens.size(), 5u);
  result = RunIn({"evict", "--budget", "3"}, "y\n");
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_THAT(result.err, HasSubstr("Take them out for good? [y/N]"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("surplus copies  2"), HasSubstr("retained        3"),
                                HasSubstr("certificate"), HasSubstr("request salt"),
                                HasSubstr("keys destroyed  " + std::string(64, 'e') + "\n")));
  EXPECT_EQ(server_->tenants["t"]["m"].tokens.size(), 3u);
  terminal_ = false;

  result = RunIn({"evict", "--budget", "1", "--yes", "--request-id", "r7", "-o", "json"});
  EXPECT_EQ(result.status, kExitOk);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["retained"], 2);
  EXPECT_EQ(json["budget_reached"], false);
  EXPECT_EQ(json["request_id"], "r7");
  EXPECT_EQ(json["receipt"]["request_salt"], std::string(64, 'f'));
  EXPECT_EQ(json["destruction"]["stores"][1]["level"], "key-destroyed");
  result = RunIn({"evict", "--budget", "1", "--yes"});
  EXPECT_EQ(result.status, kExitOk);
  EXPECT_THAT(result.err, HasSubstr("nothing was changed: there is no certificate"));
  EXPECT_THAT(result.out, HasSubstr("budget reached  no, the rest has weight"));

  server_->failures["Evict"] = absl::InternalError("the eviction would change mu");
  EXPECT_EQ(RunIn({"evict", "--budget", "1", "--yes"}).status, Rpc(absl::StatusCode::kInternal));
  server_->failures["Evict"] = absl::UnavailableError("connection reset");
  result = RunIn({"evict", "--budget", "1", "--yes"});
  EXPECT_TRUE(std::regex_search(result.err, std::regex("--request-id [0-9a-f]{32} ")));
}

class EditTest : public CliTest {
 protected:
  EditTest() { Fill({"a", "b", "c"}); }
  const std::map<std::string, client::Token>& tokens() { return server_->tenants["t"]["m"].tokens; }
  CliResult Edit(const std::string& ndjson, std::vector<std::string> more = {}) {
    const std::string path = WriteFile("in.ndjson", ndjson);
    more.insert(more.begin(), {"edit", "-f", path});
    CliResult result = RunIn(more);
    const size_t place = result.err.find(folder_);
    if (place != std::string::npos) result.err.erase(place, folder_.size() + 1);
    return result;
  }
};

TEST_F(EditTest, ReplacesContentAsOneChangeWithConsentOnly) {
  const std::string lines =
      "{\"id\":\"a\",\"key\":[7,8],\"value\":[9],\"subject\":\"s9\"}\n\n"
      "{\"id\":\"b\",\"key\":[1,2],\"value\":[3],\"subject\":\"s1\"}\n";
  CliResult result = Edit(lines);
  EXPECT_EQ(result.status, kExitUsage);
  EXPECT_THAT(result.err, AllOf(HasSubstr("would edit       1\n"),
                                HasSubstr("unchanged        1\n"), HasSubstr("--yes is needed")));
  EXPECT_EQ(tokens().at("a").key, (std::vector<double>{1, 2}));
  result = Edit(lines, {"--dry-run", "-o", "json"});
  EXPECT_EQ(Json::parse(result.out)["edited"], 1);
  EXPECT_EQ(tokens().at("a").key, (std::vector<double>{1, 2}));
  result = Edit(lines, {"--yes", "-o", "json", "--request-id", "r"});
  EXPECT_EQ(result.status, kExitOk) << result.err;
  EXPECT_EQ(Json::parse(result.out)["edited"], 1);
  EXPECT_EQ(Json::parse(result.out)["unchanged"], 1);
  EXPECT_EQ(Json::parse(result.out)["request_id"], "r");
  EXPECT_EQ(Json::parse(result.out)["destruction"]["certificate_id"], std::string(64, 'e'));
  EXPECT_EQ(tokens().at("a"),
            (client::Token{.id = "a", .key = {7, 8}, .value = {9}, .subject = "s9"}));
  ASSERT_EQ(server_->log.size(), 1u);
  EXPECT_EQ(server_->log[0].kind, "edit");
  result = Edit(lines, {"--yes"});
  EXPECT_THAT(result.err, HasSubstr("nothing was changed: there is no certificate"));

  // CSV, and standard input.
  const std::string csv = WriteFile("in.csv", "i,x,y,v\nc,5,6,7\n");
  EXPECT_EQ(RunIn({"edit", "-f", csv, "--id-column", "i", "--key-columns", "x,y", "--value-columns",
                   "v", "--yes"})
                .status,
            kExitOk);
  EXPECT_EQ(tokens().at("c").key, (std::vector<double>{5, 6}));
  EXPECT_EQ(RunIn({"edit", "-f", "-", "--format", "ndjson", "--yes"},
                  "{\"id\":\"c\",\"key\":[8,9],\"value\":[1]}\n")
                .status,
            kExitOk);
  EXPECT_EQ(tokens().at("c").key, (std::vector<double>{8, 9}));
}

TEST_F(EditTest, AnyBadLineStopsAllOfIt) {
  const std::string good = "{\"id\":\"a\",\"key\":[7,8],\"value\":[9]}\n";
  CliResult result = Edit(good + "{\"key\":[1,2]}\n", {"--yes"});
  EXPECT_EQ(result.status, kExitFile);
  EXPECT_EQ(result.err, "lethe: error: in.ndjson: line 2: there is no id\n");
  result = Edit(good + "{\"id\":\"b\",\"key\":[1,null]}\n", {"--yes"});
  EXPECT_EQ(result.status, kExitFile);
  EXPECT_THAT(result.err, HasSubstr("line 2, key[1]: the number is missing"));
  EXPECT_EQ(Edit("", {"--yes"}).status, kExitFile);
  std::string many;
  for (int i = 0; i <= 10000; ++i) many += good;
  result = Edit(many, {"--yes"});
  EXPECT_EQ(result.status, kExitFile);
  EXPECT_THAT(result.err, HasSubstr("more than 10,000 tokens"));
  EXPECT_THAT(server_->calls, IsEmpty());

  // What the server refuses is named by its line.
  result = Edit("\n" + good + "\n{\"id\":\"nobody\",\"key\":[1,2],\"value\":[3]}\n", {"--yes"});
  EXPECT_EQ(result.status, Rpc(absl::StatusCode::kNotFound));
  EXPECT_EQ(result.err, "lethe: error: in.ndjson: line 4: id: there is no token with this id\n");
  result = Edit(good + "{\"id\":\"b\",\"key\":[1]}\n", {"--yes"});
  EXPECT_EQ(result.status, Rpc(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(result.err, "lethe: error: in.ndjson: line 2: key: has another dimension\n");
  server_->failures["Edit"] = absl::UnavailableError("connection reset");
  result = Edit(good, {"--yes"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("connection reset"), HasSubstr("--request-id ")));
  EXPECT_EQ(tokens().at("a").key, (std::vector<double>{1, 2}));
}

}  // namespace
}  // namespace lethe::cli
