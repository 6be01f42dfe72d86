// What the client sends and reads, without a connection.
#include "client/convert.h"

#include <gtest/gtest.h>

#include <optional>

namespace lethe::client::convert {
namespace {

TEST(ConvertTest, AQuerySendsItsLocalChunk) {
  QueryRequest request{.name = {"t", "m"}, .queries = {{1.5}}};
  EXPECT_FALSE(ToWire(request).has_local());
  request.local = LocalChunk{.keys = {{2.5}, {3.5}}, .values = {{4.5}, {5.5}}};
  v1::QueryRequest wire = ToWire(request);
  ASSERT_EQ(wire.local().keys_size(), 2);
  ASSERT_EQ(wire.local().values_size(), 2);
  EXPECT_EQ(wire.local().keys(1).values(0), 3.5);
  EXPECT_EQ(wire.local().values(1).values(0), 5.5);
  EXPECT_FALSE(wire.local().has_scale());
  EXPECT_FALSE(wire.local().has_gate());
  EXPECT_FALSE(wire.local().causal());
  request.local->scale = 0.5;
  request.local->gate = 8.0;
  request.local->causal = true;
  wire = ToWire(request);
  EXPECT_EQ(wire.local().scale(), 0.5);
  EXPECT_EQ(wire.local().gate(), 8.0);
  EXPECT_TRUE(wire.local().causal());
}

TEST(ConvertTest, AnAnswerHasTheShareOfAChunkWhereThereIsOne) {
  v1::QueryResponse wire;
  wire.add_results();
  wire.add_results()->set_local_share(0.75);
  const QueryResult result = FromWire(wire);
  EXPECT_EQ(result.answers[0].local_share, std::nullopt);
  EXPECT_EQ(result.answers[1].local_share, 0.75);
}

}  // namespace
}  // namespace lethe::client::convert
