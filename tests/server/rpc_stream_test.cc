// InsertStream and QueryStream.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/rpc_testing.h"

namespace lethe::rpc {
namespace {

using grpc::StatusCode;
using InsertStreamCall =
    grpc::ClientReaderWriter<v1::InsertStreamRequest, v1::InsertStreamResponse>;

class StreamTest : public RpcTest {
 protected:
  static v1::InsertStreamRequest MessageOf(uint64_t sequence, int count, bool first = false) {
    v1::InsertStreamRequest request;
    if (first) {
      request.set_tenant("t");
      request.set_memory("m");
    }
    request.set_sequence(sequence);
    Fill(service::Spiral(count, absl::StrCat("s", sequence, "x")), request.mutable_tokens());
    return request;
  }

  // Reads acknowledgements until one covers `sequence`; adds up the counts. False when the stream
  // ends before.
  static bool ReadUpTo(InsertStreamCall& stream, uint64_t sequence, v1::InsertStreamResponse* sum) {
    v1::InsertStreamResponse ack;
    while (stream.Read(&ack)) {
      EXPECT_GE(ack.acknowledged_sequence(), sum->acknowledged_sequence());
      sum->set_acknowledged_sequence(ack.acknowledged_sequence());
      sum->set_inserted(sum->inserted() + ack.inserted());
      sum->set_unchanged(sum->unchanged() + ack.unchanged());
      sum->set_rejected(sum->rejected() + ack.rejected());
      sum->mutable_rejections()->MergeFrom(ack.rejections());
      sum->set_phase(ack.phase());
      *sum->mutable_partition() = ack.partition();
      sum->set_verdict(ack.verdict());
      if (ack.acknowledged_sequence() >= sequence) return true;
    }
    return false;
  }

  uint64_t Tokens() {
    const auto partition = harness_->GetMemory("t", "m")->partition;
    return partition.margin + partition.error + partition.reserve;
  }
};

TEST_F(StreamTest, AcknowledgesInOrderWhatIsDurable) {
  Context context;
  auto stream = memories_->InsertStream(&context);
  v1::InsertStreamResponse sum;
  for (uint64_t sequence = 5; sequence <= 50; sequence += 5) {
    ASSERT_TRUE(stream->Write(MessageOf(sequence, 3, sequence == 5)));
    ASSERT_TRUE(ReadUpTo(*stream, sequence, &sum));
    EXPECT_EQ(sum.acknowledged_sequence(), sequence);
    EXPECT_EQ(Tokens(), 3 * sequence / 5);
    // The state that was acknowledged, with its verdict.
    const auto memory = harness_->GetMemory("t", "m");
    EXPECT_EQ(sum.partition().margin(), memory->partition.margin);
    EXPECT_EQ(sum.partition().error(), memory->partition.error);
    EXPECT_EQ(sum.partition().reserve(), memory->partition.reserve);
    EXPECT_NE(sum.phase(), v1::MEMORY_PHASE_UNSPECIFIED);
    EXPECT_EQ(sum.verdict(), v1::VERDICT_PROVEN);
  }
  stream->WritesDone();
  v1::InsertStreamResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_THAT(stream->Finish(), RpcOk());
  EXPECT_EQ(sum.inserted(), 30u);
}

TEST_F(StreamTest, RejectionsNameMessageAndItem) {
  Context context;
  auto stream = memories_->InsertStream(&context);
  v1::InsertStreamRequest message = MessageOf(7, 3, true);
  message.mutable_tokens(1)->mutable_key()->RemoveLast();
  message.mutable_tokens(2)->set_id(message.tokens(0).id());
  ASSERT_TRUE(stream->Write(message));
  v1::InsertStreamResponse sum;
  ASSERT_TRUE(ReadUpTo(*stream, 7, &sum));
  EXPECT_EQ(sum.inserted(), 1u);
  EXPECT_EQ(sum.rejected(), 2u);
  ASSERT_EQ(sum.rejections_size(), 2);
  EXPECT_EQ(sum.rejections(0).sequence(), 7u);
  EXPECT_EQ(sum.rejections(0).index(), 1u);
  EXPECT_EQ(sum.rejections(0).error().field(), "tokens[1].key");
  EXPECT_EQ(sum.rejections(1).index(), 2u);
  EXPECT_EQ(sum.rejections(1).error().code(), StatusCode::ALREADY_EXISTS);
  stream->WritesDone();
  EXPECT_THAT(stream->Finish(), RpcOk());
}

TEST_F(StreamTest, WaitingMessagesShareACommit) {
  service::Door door;
  std::atomic<int> commits{0};
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens" && commits.fetch_add(1) == 0) door.WaitHere();
    return absl::OkStatus();
  };
  Context context;
  auto stream = memories_->InsertStream(&context);
  ASSERT_TRUE(stream->Write(MessageOf(1, 2, true)));
  door.WaitUntilSomebodyWaits();
  for (uint64_t sequence = 2; sequence <= 40; ++sequence) {
    ASSERT_TRUE(stream->Write(MessageOf(sequence, 2)));
  }
  stream->WritesDone();
  // Give the server's reads time to fill its queue; more groups than necessary would be slower, not
  // wrong, so that the bound below is generous.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  door.Open();
  v1::InsertStreamResponse sum;
  ASSERT_TRUE(ReadUpTo(*stream, 40, &sum));
  EXPECT_EQ(sum.inserted(), 80u);
  EXPECT_THAT(stream->Finish(), RpcOk());
  EXPECT_EQ(Tokens(), 80u);
  EXPECT_LE(commits.load(), 10);
}

TEST_F(StreamTest, ABadMessageEndsTheStreamAfterTheGoodOnes) {
  const auto refused = [&](const char* field, const v1::InsertStreamRequest& bad, bool first) {
    Context context;
    auto stream = memories_->InsertStream(&context);
    v1::InsertStreamResponse sum;
    if (!first) {
      ASSERT_TRUE(stream->Write(MessageOf(10, 1, true)));
    }
    ASSERT_TRUE(stream->Write(bad));
    if (!first) {
      EXPECT_TRUE(ReadUpTo(*stream, 10, &sum)) << field;
    }
    v1::InsertStreamResponse none;
    EXPECT_FALSE(stream->Read(&none));
    EXPECT_THAT(stream->Finish(), RpcFails(StatusCode::INVALID_ARGUMENT, field));
  };
  refused("tenant", MessageOf(1, 1), true);
  v1::InsertStreamRequest message = MessageOf(1, 1, true);
  message.clear_memory();
  refused("memory", message, true);
  refused("tokens", MessageOf(11, 0), false);
  refused("tokens", MessageOf(11, 10001), false);
  refused("sequence", MessageOf(10, 1), false);
  refused("sequence", MessageOf(9, 1), false);
  message = MessageOf(11, 1);
  message.set_memory("other");
  refused("memory", message, false);
  message = MessageOf(11, 2);
  message.mutable_tokens(1)->set_id("\xff");
  refused("tokens[1].id", message, false);
}

TEST_F(StreamTest, AnUnknownMemoryEndsTheStream) {
  Context context;
  auto stream = memories_->InsertStream(&context);
  v1::InsertStreamRequest message = MessageOf(1, 1, true);
  message.set_memory("none");
  ASSERT_TRUE(stream->Write(message));
  v1::InsertStreamResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_THAT(stream->Finish(), RpcCode(StatusCode::NOT_FOUND));
}

TEST_F(StreamTest, AFailedCommitEndsTheStreamThoughNoMessageArrives) {
  harness_.hooks().before = [](const std::string& called) {
    return called == "InsertTokens" ? absl::ResourceExhaustedError("disk full") : absl::OkStatus();
  };
  Context context;
  auto stream = memories_->InsertStream(&context);
  ASSERT_TRUE(stream->Write(MessageOf(1, 1, true)));
  // The client sends nothing more and does not close its side.
  v1::InsertStreamResponse none;
  EXPECT_FALSE(stream->Read(&none));
  EXPECT_THAT(stream->Finish(), RpcCode(StatusCode::RESOURCE_EXHAUSTED));
  harness_.hooks().before = nullptr;
  EXPECT_EQ(Tokens(), 0u);
  EXPECT_EQ(harness_.Insert("m", service::Spiral(2)).inserted, 2u);
}

TEST_F(StreamTest, MoreThanTheQueueHolds) {
  // 30 messages of 700 tokens with one key are more than twice the queue, so reading has to pause.
  Context context;
  auto stream = memories_->InsertStream(&context);
  std::thread writer([&] {
    for (uint64_t sequence = 1; sequence <= 30; ++sequence) {
      v1::InsertStreamRequest message = MessageOf(sequence, 1, sequence == 1);
      const v1::Token token = message.tokens(0);
      message.clear_tokens();
      for (int i = 0; i < 700; ++i) {
        // Rejected ones are cheap to judge and count as much for the queue.
        v1::Token* added = message.add_tokens();
        *added = token;
        added->add_key(0);
      }
      ASSERT_TRUE(stream->Write(message));
    }
    stream->WritesDone();
  });
  v1::InsertStreamResponse sum;
  EXPECT_TRUE(ReadUpTo(*stream, 30, &sum));
  writer.join();
  EXPECT_EQ(sum.rejected(), 21000u);
  EXPECT_THAT(stream->Finish(), RpcOk());
}

TEST_F(StreamTest, WaitingMessagesAreBoundedInBytes) {
  // 4 MiB a message and few tokens: the 32 MiB that may wait are full at the eighth. All but the
  // first are rejected, which is cheap; their payloads weigh as much.
  constexpr uint64_t kMessages = 40;
  constexpr int kTokens = 64;
  service::Door door;
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens") door.WaitHere();
    return absl::OkStatus();
  };
  Context context;
  auto stream = memories_->InsertStream(&context);
  ASSERT_TRUE(stream->Write(MessageOf(1, 1, true)));
  door.WaitUntilSomebodyWaits();
  std::atomic<uint64_t> written{1};
  std::thread writer([&] {
    v1::InsertStreamRequest message = MessageOf(2, kTokens);
    for (v1::Token& token : *message.mutable_tokens()) {
      token.add_key(0);
      token.set_payload(std::string(64 << 10, 'p'));
    }
    for (uint64_t sequence = 2; sequence <= kMessages; ++sequence) {
      message.set_sequence(sequence);
      if (!stream->Write(message)) break;
      written = sequence;
    }
    stream->WritesDone();
  });
  // Writes go on until the server stops reading; what both ends of the connection buffer is added.
  uint64_t before = 0;
  while (written < 6 || written != before) {
    before = written;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  EXPECT_LT(before, 20u);
  door.Open();
  v1::InsertStreamResponse ack;
  uint64_t rejected = 0;
  while (stream->Read(&ack)) {
    rejected += ack.rejected();
    EXPECT_LE(ack.rejected(), 7u * kTokens) << "a group above 32 MiB";
  }
  writer.join();
  EXPECT_THAT(stream->Finish(), RpcOk());
  EXPECT_EQ(ack.acknowledged_sequence(), kMessages);
  EXPECT_EQ(rejected, (kMessages - 1) * kTokens);
}

TEST_F(StreamTest, AClientThatVanishesLeavesTheServerWorking) {
  for (int i = 0; i < 10; ++i) {
    auto context = std::make_unique<Context>();
    auto stream = memories_->InsertStream(context.get());
    stream->Write(MessageOf(static_cast<uint64_t>(i) + 1, 2, true));
    context->TryCancel();
    v1::InsertStreamResponse ack;
    while (stream->Read(&ack)) {
    }
    EXPECT_THAT(stream->Finish(), RpcCode(StatusCode::CANCELLED));
  }
  Context context;
  auto stream = memories_->InsertStream(&context);
  ASSERT_TRUE(stream->Write(MessageOf(100, 2, true)));
  v1::InsertStreamResponse sum;
  EXPECT_TRUE(ReadUpTo(*stream, 100, &sum));
  stream->WritesDone();
  EXPECT_THAT(stream->Finish(), RpcOk());
}

TEST_F(StreamTest, OpenStreamsAreBounded) {
  ServerOptions options;
  options.max_open_streams = 1;
  StartServer(options);
  {
    Context first_context;
    auto first = memories_->InsertStream(&first_context);
    ASSERT_TRUE(first->Write(MessageOf(1, 1, true)));
    v1::InsertStreamResponse sum;
    ASSERT_TRUE(ReadUpTo(*first, 1, &sum));
    Context second_context;
    auto second = memories_->InsertStream(&second_context);
    EXPECT_FALSE(second->Read(&sum));
    EXPECT_THAT(second->Finish(), RpcCode(StatusCode::RESOURCE_EXHAUSTED));
    first->WritesDone();
    EXPECT_THAT(first->Finish(), RpcOk());
  }
  // The place is free again once the server is done with the first stream.
  grpc::Status status;
  for (int attempt = 0; attempt < 100; ++attempt) {
    Context context;
    auto again = memories_->InsertStream(&context);
    again->WritesDone();
    status = again->Finish();
    if (status.ok()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_THAT(status, RpcOk());
}

TEST_F(StreamTest, DrainEndsIdleStreamsAtOnce) {
  Context insert_context;
  auto inserts = memories_->InsertStream(&insert_context);
  ASSERT_TRUE(inserts->Write(MessageOf(1, 1, true)));
  v1::InsertStreamResponse sum;
  ASSERT_TRUE(ReadUpTo(*inserts, 1, &sum));
  Context query_context;
  auto queries = memories_->QueryStream(&query_context);
  v1::QueryRequest query;
  query.set_tenant("t");
  query.set_memory("m");
  query.add_queries()->mutable_values()->Resize(2, 0.0);
  v1::QueryResponse answer;
  ASSERT_TRUE(queries->Write(query));
  ASSERT_TRUE(queries->Read(&answer));

  const absl::Time begin = absl::Now();
  server_->Drain(absl::Seconds(25));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(10));
  EXPECT_FALSE(inserts->Read(&sum));
  EXPECT_THAT(inserts->Finish(), RpcCode(StatusCode::UNAVAILABLE));
  EXPECT_FALSE(queries->Read(&answer));
  EXPECT_THAT(queries->Finish(), RpcCode(StatusCode::UNAVAILABLE));
  EXPECT_EQ(Tokens(), 1u);
}

TEST_F(StreamTest, DrainCommitsWhatAStreamHasReceived) {
  service::Door door;
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens") door.WaitHere();
    return absl::OkStatus();
  };
  Context context;
  auto stream = memories_->InsertStream(&context);
  ASSERT_TRUE(stream->Write(MessageOf(1, 1, true)));
  door.WaitUntilSomebodyWaits();
  std::thread drain([&] { server_->Drain(absl::Seconds(25)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  door.Open();
  v1::InsertStreamResponse sum;
  EXPECT_TRUE(ReadUpTo(*stream, 1, &sum));
  EXPECT_FALSE(stream->Read(&sum));
  EXPECT_THAT(stream->Finish(), RpcCode(StatusCode::UNAVAILABLE));
  drain.join();
  EXPECT_EQ(Tokens(), 1u);
}

TEST_F(StreamTest, DrainReadsNothingNew) {
  service::Door door;
  harness_.hooks().before = [&](const std::string& called) {
    if (called == "InsertTokens") door.WaitHere();
    return absl::OkStatus();
  };
  Context context;
  auto stream = memories_->InsertStream(&context);
  ASSERT_TRUE(stream->Write(MessageOf(1, 1, true)));
  door.WaitUntilSomebodyWaits();
  std::thread drain([&] { server_->Drain(absl::Seconds(25)); });
  // A new stream is refused once the running ones have been told to stop.
  grpc::Status status;
  while (status.error_code() != StatusCode::UNAVAILABLE) {
    Context other_context;
    auto other = memories_->InsertStream(&other_context);
    other->WritesDone();
    status = other->Finish();
  }
  for (uint64_t sequence = 2; sequence <= 10; ++sequence) {
    ASSERT_TRUE(stream->Write(MessageOf(sequence, 1)));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  door.Open();
  v1::InsertStreamResponse sum;
  EXPECT_TRUE(ReadUpTo(*stream, 1, &sum));
  EXPECT_EQ(sum.acknowledged_sequence(), 1u);
  EXPECT_FALSE(stream->Read(&sum));
  EXPECT_THAT(stream->Finish(), RpcCode(StatusCode::UNAVAILABLE));
  drain.join();
  EXPECT_EQ(Tokens(), 1u);
}

TEST_F(StreamTest, QueriesOfAStreamSeeInsertsAcknowledgedBefore) {
  Context context;
  auto stream = memories_->QueryStream(&context);
  v1::QueryRequest query;
  query.set_tenant("t");
  query.set_memory("m");
  query.add_queries()->mutable_values()->Resize(2, 0.0);
  v1::QueryResponse answer;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(stream->Write(query));
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_EQ(
        answer.partition().margin() + answer.partition().error() + answer.partition().reserve(),
        static_cast<uint64_t>(i));
    harness_.Insert("m", service::Spiral(1, absl::StrCat("q", i, "x")));
  }
  query.mutable_queries(0)->add_values(1);
  ASSERT_TRUE(stream->Write(query));
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_THAT(stream->Finish(), RpcFails(StatusCode::INVALID_ARGUMENT, "queries[0]"));
}

}  // namespace
}  // namespace lethe::rpc
