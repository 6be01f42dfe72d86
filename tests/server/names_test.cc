#include "server/service/names.h"

#include <string>

#include "tests/server/service_testing.h"

namespace lethe::service {
namespace {

TEST(NamesTest, TenantAndMemoryNames) {
  for (const std::string& good : {std::string("a"), std::string("7"), std::string("a-b"),
                                  std::string("icu-2012"), std::string(63, 'x')}) {
    EXPECT_THAT(CheckName("name", good), IsOk()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string("-a"), std::string("a-"), std::string("A"), std::string("a_b"),
        std::string("a b"), std::string("a/b"), std::string(".."), std::string("\xc3\xa9"),
        std::string(64, 'x'), std::string("a\0b", 3)}) {
    EXPECT_THAT(CheckName("name", bad), Fails(kInvalid, "name")) << bad;
  }
}

TEST(NamesTest, TokenIdsAreBoundedUtf8WithoutControlCharacters) {
  for (const std::string& good : {std::string("x"), std::string(256, 'x'), std::string("a b/c"),
                                  std::string("p\xc3\xa9ter"), std::string("\xf0\x9f\x90\x8d")}) {
    EXPECT_THAT(CheckTokenId("id", good), IsOk()) << good;
  }
  for (const std::string& bad :
       {std::string(), std::string(257, 'x'), std::string("a\nb"), std::string("a\0b", 3),
        std::string("\x7f"), std::string("\xc2\x85"),  // NEXT LINE
        std::string("\xff"), std::string("\xc0\xaf"), std::string("\xed\xa0\x80"),
        std::string("\xe2\x82")}) {
    EXPECT_THAT(CheckTokenId("id", bad), Fails(kInvalid, "id"));
  }
  // C2 A0 (no-break space) is text; C2 80 to C2 9F are controls.
  EXPECT_THAT(CheckTokenId("id", "\xc2\xa0"), IsOk());
}

TEST(NamesTest, SubjectsMayBeAbsent) {
  EXPECT_THAT(CheckSubject("subject", ""), IsOk());
  EXPECT_THAT(CheckSubject("subject", std::string(256, 's')), IsOk());
  EXPECT_THAT(CheckSubject("subject", std::string(257, 's')), Fails(kInvalid, "subject"));
  EXPECT_THAT(CheckSubject("subject", "a\tb"), Fails(kInvalid, "subject"));
}

TEST(NamesTest, Labels) {
  EXPECT_THAT(CheckLabelName("labels", "ward"), IsOk());
  EXPECT_THAT(CheckLabelName("labels", ""), Fails(kInvalid, "labels"));
  EXPECT_THAT(CheckLabelName("labels", std::string(129, 'l')), Fails(kInvalid, "labels"));
  EXPECT_THAT(CheckLabelValue("labels", ""), IsOk());
  EXPECT_THAT(CheckLabelValue("labels", std::string(129, 'l')), Fails(kInvalid, "labels"));
}

TEST(NamesTest, RequestIdsArePrintableAscii) {
  EXPECT_THAT(CheckRequestId("request_id", ""), IsOk());
  EXPECT_THAT(CheckRequestId("request_id", std::string(128, 'r')), IsOk());
  EXPECT_THAT(CheckRequestId("request_id", std::string(129, 'r')), Fails(kInvalid, "request_id"));
  EXPECT_THAT(CheckRequestId("request_id", "a\nb"), Fails(kInvalid, "request_id"));
  EXPECT_THAT(CheckRequestId("request_id", "\xc3\xa9"), Fails(kInvalid, "request_id"));
}

TEST(NamesTest, ErrorsDoNotRepeatTheText) {
  const std::string secret = "patient-Meier\n";
  EXPECT_EQ(std::string(CheckTokenId("id", secret).message()).find("Meier"), std::string::npos);
  EXPECT_EQ(std::string(CheckSubject("subject", secret).message()).find("Meier"),
            std::string::npos);
}

}  // namespace
}  // namespace lethe::service
