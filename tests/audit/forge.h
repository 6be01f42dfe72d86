// Exports as an attacker would make them: from any log, whatever it says, put together from the
// primitives without the checks of WriteExport; and archives with anything in them.
#ifndef LETHE_TESTS_AUDIT_FORGE_H_
#define LETHE_TESTS_AUDIT_FORGE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "audit/report_html.h"
#include "audit/sigstore_bundle.h"
#include "audit/summary.h"
#include "audit/tiles.h"
#include "audit/tlog_proof.h"
#include "audit/tree_proof.h"
#include "tests/audit/sample_log.h"

namespace lethe::audit::testing {

inline std::string CertificateFile(uint64_t sequence, const char* suffix) {
  return absl::StrFormat("certificates/%03d/%06d%s", sequence / 1000, sequence, suffix);
}

// The files that the format describes for this log: what WriteExport gives for a good one, and for
// a bad one what it would refuse to write. `signer` is the key that the checkpoint is signed with.
inline Files Forge(SampleLog& log, const Signer& signer) {
  Files files;
  const uint64_t size = log.size();
  const auto node = [&log](int level, uint64_t index) { return log.Node(level, index); };
  const std::string note = log.checkpoint();
  files["checkpoint"] = note;
  ReportFacts facts;
  facts.note = ParseNote(note).value();
  facts.checkpoint = ParseCheckpointText(facts.note.text).value();
  facts.keys = log.keys();
  facts.count = size;
  facts.created_unix = 1770000000;
  for (const auto& [first, key] : facts.keys) {
    absl::StrAppend(&files["keys.txt"], first, " ", key.vkey(), "\n");
  }
  for (const TileId& tile : TilesOf(size)) {
    std::string& bytes = files[TilePath(tile)];
    for (uint64_t i = 0; i < static_cast<uint64_t>(tile.width); ++i) {
      const Digest hash = log.Node(8 * tile.level, 256 * tile.index + i).value();
      bytes.append(hash.begin(), hash.end());
      if (tile.level > 0) continue;
      const std::string& leaf = log.certificates()[256 * tile.index + i].leaf;
      std::string& entries = files[EntriesPath(tile.index, tile.width)];
      entries.push_back(static_cast<char>(leaf.size() >> 8));
      entries.push_back(static_cast<char>(leaf.size() & 0xFF));
      entries += leaf;
    }
  }
  files["summary.csv"] = SummaryCsvHeader();
  files["summary.jsonl"] = "";
  HtmlReport report(facts);
  const Digest root = RootAt(size, node).value();
  for (uint64_t i = 0; i < size; ++i) {
    const SignedCertificate& certificate = log.certificates()[i];
    const std::vector<Digest> proof = InclusionProof(i, size, node).value();
    files[CertificateFile(i, ".envelope.json")] = certificate.envelope;
    files[CertificateFile(i, ".tlog-proof")] = TlogProof(i, proof, note);
    const absl::StatusOr<std::string> bundle =
        SigstoreBundle({certificate.envelope, certificate.leaf, i, size, root, proof, note,
                        signer.verification_key()});
    files[CertificateFile(i, ".sigstore.json")] = bundle.ok() ? *bundle : "{}";
    std::string keyid = certificate.envelope.substr(certificate.envelope.find("\"keyid\":\"") + 9);
    keyid.resize(keyid.find('"'));
    const SummaryEntry line{certificate.body, certificate.id, keyid, certificate.leaf_hash};
    files["summary.csv"] += SummaryCsvLine(line);
    files["summary.jsonl"] += SummaryJsonLine(line);
    // The report insists on the order; a log that lies about it gets one all the same.
    CertificateBody body = certificate.body;
    body.sequence = i;
    report.Add({body, certificate.id, keyid, certificate.leaf_hash});
  }
  files["report.html"] = report.Html();
  return files;
}

struct TarEntry {
  std::string name;
  std::string bytes;
  char type = '0';
  std::string link;
};

// One entry of an archive, with a header that sums up.
inline std::string TarOf(const TarEntry& entry) {
  std::string header(512, '\0');
  const auto put = [&header](size_t at, const std::string& text) {
    std::copy(text.begin(), text.end(), header.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(0, entry.name.substr(0, 100));
  for (const size_t at : std::vector<size_t>{100, 108, 116, 329, 337}) put(at, "0000000");
  put(100, "0000644");
  put(124, absl::StrFormat("%011o", entry.bytes.size()));
  put(136, "00000000000");
  put(148, "        ");
  put(156, std::string(1, entry.type));
  put(157, entry.link);
  put(257, "ustar");
  put(263, "00");
  unsigned int sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, absl::StrFormat("%06o", sum));
  header[154] = '\0';
  header[155] = ' ';
  return absl::StrCat(header, entry.bytes,
                      std::string((512 - entry.bytes.size() % 512) % 512, '\0'));
}

inline std::string TarEnd() { return std::string(1024, '\0'); }

// In the order of the contract: checkpoint and keys, tiles, certificates, summaries, report.
inline std::vector<TarEntry> TarEntries(const Files& files) {
  std::vector<TarEntry> entries;
  std::vector<std::string> certificates;
  for (const char* first : {"checkpoint", "keys.txt"}) {
    if (files.count(first) > 0) entries.push_back({first, files.at(first)});
  }
  for (const auto& [name, bytes] : files) {
    if (absl::StartsWith(name, "tile/")) entries.push_back({name, bytes});
    if (absl::StartsWith(name, "certificates/")) certificates.push_back(name);
  }
  // Envelope, proof, bundle.
  const auto key = [](const std::string& name) {
    const size_t dot = std::min(name.find('.'), name.size());
    const std::string suffix = name.substr(dot);
    const char rank = suffix == ".envelope.json" ? '0' : suffix == ".tlog-proof" ? '1' : '2';
    return std::make_pair(name.substr(0, dot), rank);
  };
  std::sort(certificates.begin(), certificates.end(),
            [&](const auto& a, const auto& b) { return key(a) < key(b); });
  for (const std::string& name : certificates) entries.push_back({name, files.at(name)});
  for (const auto& [name, bytes] : files) {
    if (!absl::StartsWith(name, "tile/") && !absl::StartsWith(name, "certificates/") &&
        name != "checkpoint" && name != "keys.txt") {
      entries.push_back({name, bytes});
    }
  }
  return entries;
}

inline std::string TarOf(const Files& files) {
  std::string tar;
  for (const TarEntry& entry : TarEntries(files)) tar += TarOf(entry);
  return tar + TarEnd();
}

}  // namespace lethe::audit::testing

#endif  // LETHE_TESTS_AUDIT_FORGE_H_
