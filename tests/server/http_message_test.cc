// Targets, routes and errors, without a socket.
#include "server/http/http_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/http/router.h"
#include "tests/server/service_testing.h"

namespace lethe::http {
namespace {

using service::HasCode;
using service::IsOk;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

TEST(HttpTargetTest, PathAndQueryAreTakenApart) {
  HttpRequest request;
  ASSERT_THAT(ParseTarget("/v1/a%2Fb?page_size=10&page_token=a%3Db+c&empty&=x", request), IsOk());
  EXPECT_EQ(request.path, "/v1/a%2Fb");
  EXPECT_THAT(request.query, ElementsAre(Pair("page_size", "10"), Pair("page_token", "a=b+c"),
                                         Pair("empty", ""), Pair("", "x")));
}

TEST(HttpTargetTest, WhatIsNoPathIsRefused) {
  for (const char* target :
       {"", "x", "*", "http://host/", "/a#b", "/a\\b", "/%", "/%4", "/%zz", "/%00", "/a%0d%0aX: y",
        "/%7f", "/../etc", "/a/./b", "/a/..", "/?a=%0a", "/?%"}) {
    HttpRequest request;
    EXPECT_THAT(ParseTarget(target, request), HasCode(absl::StatusCode::kInvalidArgument))
        << target;
  }
  HttpRequest request;
  std::string many = "/?";
  for (int i = 0; i < 40; ++i) many += "a=b&";
  EXPECT_THAT(ParseTarget(many, request), HasCode(absl::StatusCode::kInvalidArgument));
}

TEST(HttpHeaderTest, OnlyOneCounts) {
  HttpRequest request;
  request.headers = {{"a", "1"}, {"b", "2"}, {"b", "3"}};
  EXPECT_EQ(request.Header("a"), "1");
  EXPECT_EQ(request.Header("b"), "");
  EXPECT_EQ(request.HeaderCount("b"), 2u);
  EXPECT_EQ(request.Header("c"), "");
}

class RouterTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [method, pattern] : {std::pair("GET", "/"),
                                          {"GET", "/v1/tenants/{tenant}"},
                                          {"DELETE", "/v1/tenants/{tenant}"},
                                          {"POST", "/v1/tenants/{tenant}/memories/{memory}:insert"},
                                          {"GET", "/v1/tenants/{tenant}/memories/{memory}"},
                                          {"GET", "/log/{path...}"}}) {
      router_.Add({.method = method, .pattern = pattern});
    }
  }
  // "METHOD pattern", or the methods that are allowed.
  std::string Find(const std::string& method, const std::string& path) {
    request_ = HttpRequest();
    request_.method = method;
    request_.path = path;
    const absl::StatusOr<Router::Match> match = router_.Find(request_);
    if (!match.ok()) return std::string(match.status().message());
    if (match->route != nullptr) return match->route->method + " " + match->route->pattern;
    std::string allowed = "not";
    for (const std::string& one : match->allowed) allowed += " " + one;
    return allowed;
  }

  Router router_;
  HttpRequest request_;
};

TEST_F(RouterTest, VariablesAreDecodedAfterwards) {
  EXPECT_EQ(Find("POST", "/v1/tenants/a%2Fb/memories/m%3A:insert"),
            "POST /v1/tenants/{tenant}/memories/{memory}:insert");
  EXPECT_THAT(request_.variables, ElementsAre(Pair("memory", "m:"), Pair("tenant", "a/b")));
  EXPECT_EQ(Find("GET", "/log/a/b%2Fc/d"), "GET /log/{path...}");
  EXPECT_EQ(request_.Variable("path"), "a/b/c/d");
  EXPECT_EQ(request_.Variable("tenant"), "");
  EXPECT_EQ(Find("HEAD", "/v1/tenants/t"), "GET /v1/tenants/{tenant}");
}

TEST_F(RouterTest, WhatDoesNotMatchIsNotFound) {
  for (const char* path :
       {"/v1", "/v1/tenants", "/v1/tenants/", "/v1/tenants/t/", "/v1//tenants/t", "/V1/tenants/t",
        "/v1/tenants/t/memories/", "/v1/tenants/t/memories/:insert",
        "/v1/tenants/t/memories/m:Insert", "/v1/tenants/t/memories/m:insert:insert",
        "/v1/tenants/t:x", "/log", "/log/", "//"}) {
    EXPECT_EQ(Find("GET", path), "not") << path;
  }
  EXPECT_EQ(Find("POST", "/"), "not GET HEAD");
  EXPECT_EQ(Find("PUT", "/v1/tenants/t"), "not DELETE GET HEAD");
  EXPECT_EQ(Find("GET", "/v1/tenants/t/memories/m:insert"), "not POST");
  EXPECT_EQ(Find("get", "/"), "not GET HEAD");
}

TEST(HttpErrorTest, SaysWhatAndWhere) {
  const HttpResponse bad =
      ErrorResponse(absl::InvalidArgumentError("tokens[3].key[1]: \"quoted\" \xff"));
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(
      bad.body,
      "{\"error\":{\"code\":400,\"status\":\"INVALID_ARGUMENT\",\"message\":\"tokens[3].key[1]: "
      "\\\"quoted\\\" \xef\xbf\xbd\",\"details\":[{\"@type\":\"type.googleapis.com/"
      "google.rpc.BadRequest\",\"fieldViolations\":[{\"field\":\"tokens[3].key[1]\","
      "\"description\":\"\\\"quoted\\\" \xef\xbf\xbd\"}]}]}}\n");
  EXPECT_EQ(ErrorResponse(absl::NotFoundError("")).status, 404);
  EXPECT_EQ(ErrorResponse(absl::DataLossError("")).status, 500);
  EXPECT_THAT(ErrorResponse(absl::UnauthenticatedError("no")).headers,
              ElementsAre(Pair("WWW-Authenticate", "Bearer")));
  EXPECT_THAT(ErrorResponse(absl::InternalError("x")).headers, IsEmpty());
  EXPECT_THAT(ErrorResponse(absl::InternalError("x: y")).body, HasSubstr("\"details\":[]"));
}

}  // namespace
}  // namespace lethe::http
