#include "audit/export.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "audit/certificate.h"
#include "audit/checkpoint.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/merkle.h"
#include "audit/report_html.h"
#include "audit/report_html_sections.h"
#include "audit/sigstore_bundle.h"
#include "audit/summary.h"
#include "audit/tiles.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

constexpr int kLevels = 64;
constexpr size_t kSpoolBytes = size_t{1} << 20;

absl::Status DataLoss(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("export: ", what));
}

absl::Status DataLossAt(uint64_t sequence, absl::string_view what) {
  return DataLoss(absl::StrCat("certificate ", sequence, ": ", what));
}

absl::Status WriteFile(ExportSink& sink, absl::string_view path, absl::string_view bytes) {
  LETHE_RETURN_IF_ERROR(sink.Begin(path));
  LETHE_RETURN_IF_ERROR(sink.Write(bytes));
  return sink.End();
}

// A file without a name in TMPDIR, or in /tmp; null with errno. (std::tmpfile knows /tmp alone.)
std::FILE* OpenTemporaryFile() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) {
    errno = error.value();
    return nullptr;
  }
  std::string path = folder / "lethe-export-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  ::unlink(path.c_str());
  std::FILE* const file = ::fdopen(descriptor, "w+b");
  if (file == nullptr) ::close(descriptor);
  return file;
}

// Text that waits until its file can begin: short in memory, long in a temporary file without a
// name.
class Spool {
 public:
  absl::Status Append(absl::string_view text) {
    buffer_.append(text.data(), text.size());
    return buffer_.size() < kSpoolBytes ? absl::OkStatus() : Flush();
  }

  absl::Status CopyTo(absl::string_view path, ExportSink& sink) {
    LETHE_RETURN_IF_ERROR(sink.Begin(path));
    if (file_ != nullptr) {
      LETHE_RETURN_IF_ERROR(Flush());
      if (std::fseek(file_.get(), 0, SEEK_SET) != 0) return Failed();
      buffer_.resize(kSpoolBytes);
      while (true) {
        const size_t count = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
        if (count == 0) break;
        LETHE_RETURN_IF_ERROR(sink.Write(absl::string_view(buffer_.data(), count)));
      }
      if (std::ferror(file_.get()) != 0) return Failed();
    } else if (!buffer_.empty()) {
      LETHE_RETURN_IF_ERROR(sink.Write(buffer_));
    }
    return sink.End();
  }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  static absl::Status Failed() {
    return absl::ErrnoToStatus(errno, "export: the temporary file of a summary");
  }

  absl::Status Flush() {
    if (file_ == nullptr) {
      file_.reset(OpenTemporaryFile());
      if (file_ == nullptr) return Failed();
    }
    if (std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size() ||
        std::fflush(file_.get()) != 0) {
      return Failed();
    }
    buffer_.clear();
    return absl::OkStatus();
  }

  std::string buffer_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

// Nodes for the proofs of ascending leaves: the sibling at each level, which changes every 2^level
// leaves, and the last complete node of each level, which is part of every proof's right edge. So
// all proofs together read each node about once.
class NodeCache {
 public:
  explicit NodeCache(LogSource& source) : source_(source), size_(source.size()) {}

  absl::StatusOr<Digest> Read(int level, uint64_t index) {
    LETHE_CHECK(level >= 0 && level < kLevels);
    Level& cached = levels_[static_cast<size_t>(level)];
    Slot& slot = index + 1 == size_ >> level ? cached.last : cached.sibling;
    if (!slot.known || slot.index != index) {
      LETHE_ASSIGN_OR_RETURN(slot.hash, source_.Node(level, index));
      slot.index = index;
      slot.known = true;
    }
    return slot.hash;
  }

 private:
  struct Slot {
    bool known = false;
    uint64_t index = 0;
    Digest hash{};
  };
  struct Level {
    Slot sibling;
    Slot last;
  };

  LogSource& source_;
  uint64_t size_;
  std::array<Level, kLevels> levels_;
};

class Writer {
 public:
  Writer(LogSource& source, ExportSink& sink)
      : source_(source),
        sink_(sink),
        note_text_(source.checkpoint()),
        keys_(source.keys()),
        nodes_(source) {}

  absl::Status Run(const ExportRange& range, int64_t now_unix) {
    if (now_unix < 0 || now_unix > kMaxReportTime) {
      return absl::InvalidArgumentError("now: not in the years 1970 to 9999");
    }
    LETHE_RETURN_IF_ERROR(ReadCheckpoint());
    LETHE_RETURN_IF_ERROR(SetRange(range));
    LETHE_RETURN_IF_ERROR(WriteFile(sink_, "checkpoint", note_text_));
    LETHE_RETURN_IF_ERROR(WriteFile(sink_, "keys.txt", KeyLines()));
    if (count_ == checkpoint_.size) {
      LETHE_RETURN_IF_ERROR(WriteTiles());
      LETHE_RETURN_IF_ERROR(WriteEntries());
    }
    report_ = std::make_unique<HtmlReport>(ReportFacts{.checkpoint = checkpoint_,
                                                       .note = note_,
                                                       .keys = keys_,
                                                       .first = first_,
                                                       .count = count_,
                                                       .created_unix = now_unix});
    LETHE_RETURN_IF_ERROR(csv_.Append(SummaryCsvHeader()));
    LETHE_RETURN_IF_ERROR(
        ForEach([this](const ExportEntry& entry) { return WriteCertificate(entry); }));
    LETHE_RETURN_IF_ERROR(json_.CopyTo("summary.jsonl", sink_));
    LETHE_RETURN_IF_ERROR(csv_.CopyTo("summary.csv", sink_));
    return WriteFile(sink_, "report.html", report_->Html());
  }

 private:
  absl::Status ReadCheckpoint() {
    if (keys_.empty() || keys_.front().first != 0) return DataLoss("no key from sequence 0 on");
    for (size_t i = 1; i < keys_.size(); ++i) {
      if (keys_[i].first <= keys_[i - 1].first) return DataLoss("the keys are not in order");
    }
    const CheckpointResult result = VerifyCheckpoint(note_text_, keys_.back().second);
    if (!result.ok()) {
      return DataLoss(absl::StrCat("checkpoint: ", Name(result.failure), ": ", result.message));
    }
    checkpoint_ = result.checkpoint;
    note_ = result.note;
    if (checkpoint_.size != source_.size()) return DataLoss("checkpoint: of another size");
    if (keys_.back().first > checkpoint_.size) return DataLoss("a key of certificates to come");
    return absl::OkStatus();
  }

  absl::Status SetRange(const ExportRange& range) {
    const uint64_t size = checkpoint_.size;
    first_ = range.first;
    if (size == 0) {
      if (first_ == 0 && !range.last.has_value()) return absl::OkStatus();
      return absl::InvalidArgumentError("range: the log is empty");
    }
    const uint64_t last = range.last.value_or(size - 1);
    if (last >= size) {
      return absl::InvalidArgumentError(
          absl::StrCat("range: last: ", last, " is not in the log, whose last is ", size - 1));
    }
    if (first_ > last) {
      return absl::InvalidArgumentError(
          absl::StrCat("range: first: ", first_, " is after last, ", last));
    }
    count_ = last - first_ + 1;
    return absl::OkStatus();
  }

  std::string KeyLines() const {
    std::string lines;
    for (const auto& [first, key] : keys_) absl::StrAppend(&lines, first, " ", key.vkey(), "\n");
    return lines;
  }

  absl::Status WriteTiles() {
    std::string bytes;
    for (const TileId& tile : TilesOf(checkpoint_.size)) {
      bytes.clear();
      for (int i = 0; i < tile.width; ++i) {
        LETHE_ASSIGN_OR_RETURN(const Digest hash,
                               source_.Node(kTileHeight * tile.level,
                                            tile.index * kTileWidth + static_cast<uint64_t>(i)));
        absl::StrAppend(&bytes, AsBytes(hash));
      }
      LETHE_RETURN_IF_ERROR(WriteFile(sink_, TilePath(tile), bytes));
    }
    return absl::OkStatus();
  }

  absl::Status WriteEntries() {
    CompactRange tree;
    const absl::Status visited = ForEach([&](const ExportEntry& entry) -> absl::Status {
      if (entry.leaf.size() > kMaxLeafBytes) return DataLossAt(entry.sequence, "leaf too long");
      if (entry.sequence % kTileWidth == 0) {
        const uint64_t rest = checkpoint_.size - entry.sequence;
        LETHE_RETURN_IF_ERROR(sink_.Begin(EntriesPath(
            entry.sequence / kTileWidth, static_cast<int>(std::min<uint64_t>(rest, kTileWidth)))));
      }
      const std::array<char, 2> size = {static_cast<char>(entry.leaf.size() >> 8),
                                        static_cast<char>(entry.leaf.size() & 0xFF)};
      LETHE_RETURN_IF_ERROR(sink_.Write(absl::string_view(size.data(), size.size())));
      LETHE_RETURN_IF_ERROR(sink_.Write(entry.leaf));
      tree.Append(LeafHash(entry.leaf));
      const bool last =
          entry.sequence % kTileWidth == kTileWidth - 1 || entry.sequence + 1 == checkpoint_.size;
      return last ? sink_.End() : absl::OkStatus();
    });
    LETHE_RETURN_IF_ERROR(visited);
    if (tree.Root() != checkpoint_.root) return DataLoss("the leaves are not the checkpoint's");
    return absl::OkStatus();
  }

  absl::Status WriteCertificate(const ExportEntry& entry) {
    const uint64_t sequence = entry.sequence;
    const absl::StatusOr<Envelope> envelope = ParseEnvelope(entry.envelope);
    if (!envelope.ok()) return DataLossAt(sequence, "no envelope");
    const absl::StatusOr<CertificateBody> body = ParseStatement(envelope->payload);
    if (!body.ok()) return DataLossAt(sequence, "no statement");
    if (body->sequence != sequence || body->origin != checkpoint_.origin) {
      return DataLossAt(sequence, "its statement has another place");
    }
    while (key_ + 1 < keys_.size() && keys_[key_ + 1].first <= sequence) ++key_;
    const VerificationKey& key = keys_[key_].second;
    if (envelope->keyid != key.short_name()) return DataLossAt(sequence, "signed by another key");
    if (entry.leaf != LeafBytes(envelope->payload, envelope->signature, key)) {
      return DataLossAt(sequence, "its leaf is another's");
    }
    const SummaryEntry summary{.body = *body,
                               .id = Hex(Sha256(entry.envelope)),
                               .keyid = envelope->keyid,
                               .leaf_hash = LeafHash(entry.leaf)};
    LETHE_ASSIGN_OR_RETURN(
        const std::vector<Digest> proof,
        InclusionProof(sequence, checkpoint_.size,
                       [this](int level, uint64_t index) { return nodes_.Read(level, index); }));
    if (!VerifyInclusion(sequence, checkpoint_.size, summary.leaf_hash, proof, checkpoint_.root)
             .ok()) {
      return DataLossAt(sequence, "the tree does not lead to the checkpoint's root");
    }
    LETHE_ASSIGN_OR_RETURN(
        const std::string bundle,
        SigstoreBundle({entry.envelope, entry.leaf, sequence, checkpoint_.size, checkpoint_.root,
                        proof, note_text_, keys_.back().second}));
    const std::string stem = CertificateStem(sequence);
    LETHE_RETURN_IF_ERROR(WriteFile(sink_, absl::StrCat(stem, ".envelope.json"), entry.envelope));
    LETHE_RETURN_IF_ERROR(WriteFile(sink_, absl::StrCat(stem, ".tlog-proof"),
                                    TlogProof(sequence, proof, note_text_)));
    LETHE_RETURN_IF_ERROR(WriteFile(sink_, absl::StrCat(stem, ".sigstore.json"), bundle));
    LETHE_RETURN_IF_ERROR(json_.Append(SummaryJsonLine(summary)));
    LETHE_RETURN_IF_ERROR(csv_.Append(SummaryCsvLine(summary)));
    report_->Add(summary);
    return absl::OkStatus();
  }

  // The certificates of the range, insisting that each comes once and in order.
  absl::Status ForEach(absl::FunctionRef<absl::Status(const ExportEntry&)> visit) {
    if (count_ == 0) return absl::OkStatus();
    uint64_t next = first_;
    const auto in_order = [&](const ExportEntry& entry) -> absl::Status {
      if (entry.sequence != next || next == first_ + count_) {
        return DataLossAt(next, "missing or out of order");
      }
      ++next;
      return visit(entry);
    };
    LETHE_RETURN_IF_ERROR(source_.Entries(first_, first_ + count_ - 1, in_order));
    return next == first_ + count_ ? absl::OkStatus() : DataLossAt(next, "missing");
  }

  LogSource& source_;
  ExportSink& sink_;
  const std::string note_text_;
  const std::vector<std::pair<uint64_t, VerificationKey>> keys_;
  NodeCache nodes_;
  Checkpoint checkpoint_;
  Note note_;
  uint64_t first_ = 0;
  uint64_t count_ = 0;
  size_t key_ = 0;  // of the certificate at hand
  Spool json_;
  Spool csv_;
  std::unique_ptr<HtmlReport> report_;
};

}  // namespace

absl::Status WriteExport(LogSource& source,
                         const ExportRange& range,
                         int64_t now_unix,
                         ExportSink& sink) {
  return Writer(source, sink).Run(range, now_unix);
}

}  // namespace lethe::audit
