// Keys, checkpoints, ranges and witnesses: what an export must not get away with, and why.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/tamper_testing.h"

namespace lethe::audit {
namespace {

using testing::CertificateFile;
using testing::Files;
using testing::Forge;
using testing::kOrigin;
using testing::SampleLog;
using testing::TamperTest;
using testing::TarOf;
using testing::VectorSigner;

TEST_F(TamperTest, CheckpointsOfSomethingElse) {
  const Signer& signer = log_.signers()[0];
  const auto with = [&](const std::string& note) {
    Files files = good_;
    files["checkpoint"] = note;
    return files;
  };
  // Of the same log, when it was shorter: genuine, and yet refused.
  Refused(with(log_.CheckpointAt(6, signer)), Failure::kUnexpectedTail);
  const std::string empty =
      SignCheckpoint({.origin = kOrigin, .size = 0, .root = EmptyRoot()}, signer).value();
  Refused(with(empty), Failure::kEmptyChain);
  // Of more than there is.
  const Checkpoint now = VerifyCheckpoint(log_.checkpoint(), signer.verification_key()).checkpoint;
  Checkpoint more = now;
  more.size = 8;
  Refused(with(SignCheckpoint(more, signer).value()), Failure::kTruncated);
  more.size = uint64_t{1} << 62;
  Refused(with(SignCheckpoint(more, signer).value()), Failure::kTruncated);
  // Another root, signed by the owner: no proof leads to it.
  Checkpoint other_root = now;
  other_root.root[0] ^= 1;
  Refused(with(SignCheckpoint(other_root, signer).value()), Failure::kProofMismatch,
          CertificateFile(0, ".tlog-proof"));
  // Another origin.
  const std::string elsewhere = "svmem.example/erasure-log/other";
  Refused(with(absl::StrReplaceAll(log_.checkpoint(), {{kOrigin, elsewhere}})),
          Failure::kCheckpointSignature, "checkpoint");
  ExportExpectations expected = Pinned();
  expected.origin = elsewhere;
  Refused(good_, Failure::kOriginMismatch, "", expected);
  // Truncated at each byte.
  const std::string& note = log_.checkpoint();
  for (size_t length = 0; length < note.size(); ++length) {
    const ExportResult result = VerifyTar(TarOf(with(note.substr(0, length))));
    EXPECT_THAT(result.finding.failure,
                ::testing::AnyOf(Failure::kMalformedCheckpoint, Failure::kCheckpointSignature))
        << length;
  }
  for (const std::string& bad : {note + "\n", "\n" + note, note + note, note + "x",
                                 absl::StrReplaceAll(note, {{"\n7\n", "\n07\n"}}),
                                 absl::StrReplaceAll(note, {{"\n7\n", "\n7\nmore\n"}})}) {
    EXPECT_THAT(VerifyTar(TarOf(with(bad))).finding.failure,
                ::testing::AnyOf(Failure::kMalformedCheckpoint, Failure::kCheckpointSignature))
        << bad;
  }
}

TEST_F(TamperTest, KeysInTheExportAreNeverTrusted) {
  // Everything made anew by somebody with another key of the same name.
  SampleLog forged(7, {}, kOrigin, 0x55);
  const Files theirs = Forge(forged, forged.signers()[0]);
  Refused(theirs, Failure::kUnknownKey, CertificateFile(0, ".envelope.json"));
  Accepted(theirs, Pinned({forged.signers()[0].verification_key()}));
  // The same with our key in the list.
  Files files = theirs;
  files["keys.txt"] = good_.at("keys.txt");
  Refused(files, Failure::kCheckpointSignature, "checkpoint");
  // Our certificates under their checkpoint.
  files = good_;
  files["checkpoint"] = theirs.at("checkpoint");
  files["keys.txt"] = theirs.at("keys.txt");
  const ExportResult mixed = VerifyFolder(files, Pinned());
  EXPECT_EQ(mixed.finding.failure, Failure::kProofMismatch);
  // A list that says something else.
  for (const std::string& list :
       {theirs.at("keys.txt"), std::string(), absl::StrCat("1", good_.at("keys.txt").substr(1)),
        good_.at("keys.txt") + "\n", " " + good_.at("keys.txt"),
        good_.at("keys.txt") + "7" + theirs.at("keys.txt").substr(1)}) {
    files = good_;
    files["keys.txt"] = list;
    Refused(files, Failure::kKeyListMismatch, "keys.txt");
  }
  // Another log altogether.
  SampleLog other(7, {}, "other.example/log");
  Refused(Forge(other, other.signers()[0]), Failure::kCheckpointSignature, "checkpoint");
}

TEST_F(TamperTest, HandOvers) {
  SampleLog log(9, {2, 5});
  const Files files = Forge(log, log.signers().back());
  const VerificationKey first = log.signers()[0].verification_key();
  const VerificationKey second = log.signers()[1].verification_key();
  const VerificationKey third = log.signers()[2].verification_key();
  const VerificationKey stranger = VectorSigner(kOrigin, 0x77).verification_key();
  Accepted(files, Pinned({first}));
  Accepted(files, Pinned({first, second}));
  Accepted(files, Pinned({third, first}));
  // Pinned to a later key only: what came before it is signed by an unknown one.
  Refused(files, Failure::kUnknownKey, CertificateFile(0, ".envelope.json"), Pinned({third}));
  // Pinned to one that the log never had: somebody handed over to another key than the one known.
  Refused(files, Failure::kUnknownKey, "", Pinned({first, stranger}));

  const auto forge_with = [&](const std::function<void(SampleLog&)>& change) {
    SampleLog changed(4, {2});
    change(changed);
    changed.SignAgain();
    return changed;
  };
  // Signed by the old key after the hand-over.
  SampleLog old_key = forge_with([&](SampleLog& changed) {
    CertificateBody body = testing::MixedBody(4);
    body.origin = kOrigin;
    body.sequence = 4;
    body.previous_leaf_hash = changed.certificates()[3].leaf_hash;
    changed.AppendRaw(BuildCertificate(body, changed.signers()[0]).value());
  });
  Refused(Forge(old_key, old_key.signers().back()), Failure::kUnknownKey,
          CertificateFile(4, ".envelope.json"));
  // A hand-over by a key that has none to give.
  SampleLog usurped = forge_with([&](SampleLog& changed) {
    CertificateBody body = testing::HandoverBody(stranger.vkey());
    body.origin = kOrigin;
    body.sequence = 4;
    body.previous_leaf_hash = changed.certificates()[3].leaf_hash;
    changed.AppendRaw(
        BuildCertificate(
            body, VectorSigner(kOrigin, 0x77).verification_key().vkey() == body.handover->next
                      ? changed.signers()[0]
                      : changed.signers()[1])
            .value());
  });
  Refused(Forge(usurped, usurped.signers().back()), Failure::kUnknownKey,
          CertificateFile(4, ".envelope.json"));
  // The checkpoint signed by the old key.
  SampleLog old_checkpoint(4, {2});
  old_checkpoint.set_checkpoint(old_checkpoint.CheckpointAt(4, old_checkpoint.signers()[0]));
  Refused(Forge(old_checkpoint, old_checkpoint.signers()[0]), Failure::kCheckpointSignature,
          "checkpoint");
  // The hand-over left out.
  SampleLog cut(0, {}, kOrigin, 0x43);
  for (size_t i = 3; i < 9; ++i) cut.AppendRaw(log.certificates()[i]);
  cut.SignAgain();
  Refused(Forge(cut, cut.signers()[0]), Failure::kUnknownKey, CertificateFile(0, ".envelope.json"));
  // A list of keys with another place or another key for the hand-over.
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\n3 ", "\n2 "}, {"\n6 ", "\n7 "}, {third.vkey(), stranger.vkey()}}) {
    Files listed = files;
    listed["keys.txt"] = absl::StrReplaceAll(listed["keys.txt"], {{from, to}});
    Refused(listed, Failure::kKeyListMismatch, "keys.txt", Pinned({first, third}));
  }
  // A hand-over in a batch of 256 that runs in parallel, at its first and its last place.
  const std::vector<std::set<uint64_t>> places = {{0}, {254, 255, 256}, {1, 2, 3, 257}};
  for (const std::set<uint64_t>& at : places) {
    SampleLog wide(260, at);
    const ExportResult result = VerifyTar(TarOf(Forge(wide, wide.signers().back())));
    EXPECT_TRUE(result.ok()) << Name(result.finding.failure) << result.finding.message;
  }
}

TEST_F(TamperTest, Ranges) {
  const auto range_of = [&](uint64_t first, uint64_t last) {
    const testing::MemorySink sink = log_.Export({.first = first, .last = last});
    return sink.files();
  };
  const Files files = range_of(2, 4);
  ExportExpectations range = Pinned();
  Refused(files, Failure::kMissingHead);
  range.first = 2;
  range.last = 4;
  Accepted(files, range);
  range.last = 5;
  Refused(files, Failure::kTruncated, "", range);
  range.last = 3;
  Refused(files, Failure::kUnexpectedFile, CertificateFile(4, ".envelope.json"), range);
  range.first = 1;
  range.last = 4;
  Refused(files, Failure::kMissingHead, "", range);
  range.first = 3;
  Refused(files, Failure::kUnexpectedFile, CertificateFile(2, ".envelope.json"), range);
  range.first = 5;
  range.last = 4;
  Refused(files, Failure::kTruncated, "", range);
  range.first = 2;
  range.last = 7;
  Refused(files, Failure::kTruncated, "", range);
  range.last = 4;
  Files changed = files;
  changed["tile/0/000.p/7"] = good_.at("tile/0/000.p/7");
  EXPECT_FALSE(VerifyFolder(changed, range).ok());
  changed = files;
  std::swap(changed[CertificateFile(2, ".tlog-proof")], changed[CertificateFile(3, ".tlog-proof")]);
  Refused(changed, Failure::kProofMismatch, CertificateFile(2, ".tlog-proof"), range);
}

// Ranges of a log whose key changed at certificate 2 and 5: keys 0, 1 and 2.
class RangeKeysTest : public TamperTest {
 protected:
  ExportExpectations Range(uint64_t first, uint64_t last, const std::vector<size_t>& pinned) {
    std::vector<VerificationKey> keys;
    for (const size_t key : pinned) keys.push_back(signers_[key].verification_key());
    ExportExpectations expected = Pinned(keys);
    expected.first = first;
    expected.last = last;
    expected.skip_report = true;
    return expected;
  }
  Files RangeOf(uint64_t first, uint64_t last) {
    return rotated_.Export({.first = first, .last = last}).files();
  }
  // The certificates `first` to `last` of the log in an invented one of `size` leaves, whose
  // checkpoint this signer signs.
  Files Invent(uint64_t first, uint64_t last, uint64_t size, const Signer& signer) {
    SampleLog invented(0);
    for (uint64_t i = 0; i < size; ++i) {
      invented.AppendRaw(rotated_.certificates()[std::min(i, last)]);
    }
    invented.set_checkpoint(invented.CheckpointAt(size, signer));
    Files files = Forge(invented, signer);
    RemoveTiles(files);
    for (uint64_t i = 0; i < size; ++i) {
      if (i < first || i > last) RemoveCertificate(files, i);
    }
    const Files range = RangeOf(first, last);
    for (const char* name : {"keys.txt", "summary.csv", "summary.jsonl"}) {
      files[name] = range.at(name);
    }
    return files;
  }
  std::string Line(uint64_t first, size_t key) const {
    return absl::StrCat(first, " ", signers_[key].verification_key().vkey(), "\n");
  }

  SampleLog rotated_{9, {2, 5}};
  const std::vector<Signer>& signers_ = rotated_.signers();
};

TEST_F(RangeKeysTest, TheCheckpointIsTheLastKeysOrALaterPinnedOnes) {
  // Hand-overs in the range are followed; those behind it are not seen, so the key must be pinned.
  Accepted(RangeOf(1, 7), Range(1, 7, {0}));
  Accepted(RangeOf(1, 7), Range(1, 7, {0, 1, 2}));
  Accepted(RangeOf(1, 3), Range(1, 3, {0, 2}));
  Accepted(RangeOf(1, 3), Range(1, 3, {0, 1, 2}));
  Accepted(RangeOf(6, 7), Range(6, 7, {0, 1, 2}));
  Accepted(RangeOf(6, 7), Range(6, 7, {2}));
  Refused(RangeOf(1, 3), Failure::kUnknownKey, "checkpoint", Range(1, 3, {0}));
  // Another order says that key 2 is retired.
  Refused(RangeOf(1, 3), Failure::kUnknownKey, "checkpoint", Range(1, 3, {2, 0}));
  Refused(RangeOf(6, 7), Failure::kUnknownKey, "checkpoint", Range(6, 7, {2, 1}));
}

TEST_F(RangeKeysTest, ARetiredKeySignsNoCheckpoint) {
  for (const uint64_t size : {uint64_t{6}, uint64_t{40}, uint64_t{1000}}) {
    // The holder of key 0, which the range itself shows to be retired.
    for (const std::string& list :
         {Line(0, 0), Line(0, 0) + Line(3, 1), Line(0, 0) + Line(3, 1) + Line(5, 0)}) {
      Files files = Invent(1, 3, size, signers_[0]);
      files["keys.txt"] = list;
      const ExportResult result = VerifyFolder(files, Range(1, 3, {0}));
      EXPECT_FALSE(result.ok()) << size << list;
    }
    Files files = Invent(1, 3, size, signers_[0]);
    Refused(files, Failure::kCheckpointSignature, "checkpoint", Range(1, 3, {0}));
    Refused(files, Failure::kCheckpointSignature, "checkpoint", Range(1, 3, {0, 2}));
    // Of key 1, of which the verifier knows that key 2 followed.
    files = Invent(1, 3, size, signers_[1]);
    files["keys.txt"] = Line(0, 0) + Line(3, 1);
    Accepted(files, Range(1, 3, {0}));
    Accepted(files, Range(1, 3, {0, 1}));
    Refused(files, Failure::kUnknownKey, "checkpoint", Range(1, 3, {0, 1, 2}));
  }
}

TEST_F(RangeKeysTest, AListHasAKeyOnceAndNoneBehindTheLog) {
  const Files good = RangeOf(1, 3);
  const ExportExpectations expected = Range(1, 3, {0, 1, 2});
  for (const std::string& list :
       {Line(0, 0) + Line(3, 1) + Line(6, 0) + Line(7, 2), Line(0, 0) + Line(3, 1) + Line(10, 2),
        Line(0, 0) + Line(3, 1), Line(0, 0) + Line(3, 2), Line(0, 0) + Line(4, 1) + Line(6, 2)}) {
    Files files = good;
    files["keys.txt"] = list;
    Refused(files, Failure::kKeyListMismatch, "keys.txt", expected);
  }
}

TEST_F(RangeKeysTest, NoHandOverGoesBackToAKey) {
  SampleLog back(5, {2});
  CertificateBody body = testing::HandoverBody(signers_[0].verification_key().vkey());
  back.Append(body);
  back.SignAgain();
  Refused(Forge(back, back.signers().back()), Failure::kBadStatement,
          CertificateFile(5, ".envelope.json"));
}

TEST_F(TamperTest, AnOlderCheckpointShowsForkAndShrinking) {
  SampleLog longer(12);
  const Files files = Forge(longer, longer.signers()[0]);
  ExportExpectations expected = Pinned();
  for (uint64_t size = 1; size <= 12; ++size) {
    expected.earlier = longer.CheckpointAt(size, longer.signers()[0]);
    Accepted(files, expected);
  }
  SampleLog forked(3);
  for (int i = 0; i < 6; ++i) forked.Append(testing::ShreddedBody());
  forked.SignAgain();
  for (uint64_t size = 1; size <= 9; ++size) {
    expected.earlier = forked.CheckpointAt(size, forked.signers()[0]);
    if (size <= 3) {
      Accepted(files, expected);
    } else {
      Refused(files, Failure::kInconsistent, "", expected);
    }
  }
  expected.earlier = longer.CheckpointAt(12, longer.signers()[0]);
  Refused(good_, Failure::kInconsistent, "", expected);
  expected.earlier =
      SignCheckpoint({.origin = kOrigin, .size = 0, .root = EmptyRoot()}, longer.signers()[0])
          .value();
  Refused(files, Failure::kInconsistent, "", expected);
  expected.earlier = longer.CheckpointAt(5, VectorSigner(kOrigin, 0x55));
  Refused(files, Failure::kCheckpointSignature, "", expected);
  expected.earlier = "nonsense";
  Refused(files, Failure::kMalformedCheckpoint, "", expected);
}

TEST_F(TamperTest, WitnessesAndReceipts) {
  const WitnessSigner witness =
      WitnessSigner::FromSeed("witness.example/w", std::string(32, 'w')).value();
  const Note note = ParseNote(log_.checkpoint()).value();
  Note cosigned = note;
  cosigned.signatures.push_back(witness.Cosign(note.text, 1770000001).value());
  SampleLog log(7);
  log.set_checkpoint(SerializeNote(cosigned));
  const Files files = Forge(log, log.signers()[0]);
  ExportExpectations expected = Pinned();
  Accepted(files, expected);
  expected.policy =
      ParsePolicy(absl::StrCat("witness w ", witness.key().vkey(), "\nquorum w\n")).value();
  Accepted(files, expected);
  Refused(good_, Failure::kWitnessQuorum, "checkpoint", expected);
  Note bad = cosigned;
  bad.signatures.back().signature[20] ^= 1;
  log.set_checkpoint(SerializeNote(bad));
  Refused(Forge(log, log.signers()[0]), Failure::kWitnessQuorum, "checkpoint", expected);

  // The sample's salts are 32 times 11.
  expected = Pinned();
  Receipt receipt;
  receipt.tenant = "clinic";
  receipt.request_id = "request-1";
  receipt.request_salt.fill(0x11);
  receipt.certificate_id = log_.certificates()[0].id;
  SampleLog one(1);
  const Files single = Forge(one, one.signers()[0]);
  expected.receipt = receipt;
  Accepted(single, expected);
  expected.receipt->subject = "patient-17";
  expected.receipt->subject_salt.emplace().fill(0x11);
  Accepted(single, expected);
  expected.receipt->subject = "patient-18";
  Refused(single, Failure::kReceiptMismatch, CertificateFile(0, ".envelope.json"), expected);
  expected.receipt = receipt;
  expected.receipt->request_salt[0] ^= 1;
  Refused(single, Failure::kReceiptMismatch, "", expected);
  expected.receipt = receipt;
  expected.receipt->tenant = "other";
  Refused(single, Failure::kReceiptMismatch, "", expected);
  expected.receipt = receipt;
  expected.receipt->certificate_id = log_.certificates()[1].id;
  Refused(single, Failure::kReceiptMismatch, "", expected);
}

}  // namespace
}  // namespace lethe::audit
