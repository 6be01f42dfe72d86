// The sections about the log itself and about verifying it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "audit/encoding.h"
#include "audit/report_html_charts.h"
#include "audit/report_html_sections.h"

namespace lethe::audit {
namespace {

constexpr size_t kTimestampBytes = 8;
constexpr size_t kSignatureBytes = 64;
constexpr int64_t kMaxTime = 253402300799;

void OpenSection(std::string& out, absl::string_view id, absl::string_view heading) {
  absl::StrAppend(&out, "<section id=\"", id, "\" aria-labelledby=\"", id, "-h\">\n<h2 id=\"", id,
                  "-h\">", heading, "</h2>\n");
}

void Fact(std::string& out, absl::string_view name, absl::string_view html) {
  absl::StrAppend(&out, "<dt>", name, "</dt><dd>", html, "</dd>\n");
}

std::string Code(absl::string_view text) { return absl::StrCat("<code>", Escape(text), "</code>"); }

// Eight digits that stay in one line.
std::string KeyId(absl::string_view key_id) {
  return absl::StrCat("<code class=\"nb\">", Hex(key_id), "</code>");
}

// When a cosignature says it was made; empty for a line of another shape.
std::string CosignatureTime(const NoteSignature& line) {
  if (line.signature.size() != kTimestampBytes + kSignatureBytes) return "";
  uint64_t seconds = 0;
  for (size_t i = 0; i < kTimestampBytes; ++i) {
    seconds = seconds << 8 | static_cast<uint8_t>(line.signature[i]);
  }
  if (seconds > static_cast<uint64_t>(kMaxTime)) return "";
  return LongTime(static_cast<int64_t>(seconds));
}

bool IsOfLog(const ReportFacts& facts, const NoteSignature& line) {
  return std::any_of(facts.keys.begin(), facts.keys.end(), [&](const auto& key) {
    return key.second.name() == line.name && key.second.key_id() == line.key_id;
  });
}

void AppendKeys(std::string& out, const ReportFacts& facts) {
  absl::StrAppend(
      &out,
      "<h3>Keys</h3>\n<table class=\"cards\"><caption>As the server gives them. Trust a "
      "key only if you know it from elsewhere, or if a certificate signed by a key you "
      "trust hands over to it.</caption><thead><tr><th scope=\"col\">Signs from</th><th "
      "scope=\"col\">Key id</th><th scope=\"col\">Verification key</th></tr></thead>"
      "<tbody>\n");
  for (size_t i = 0; i < facts.keys.size(); ++i) {
    const auto& [first, key] = facts.keys[i];
    absl::StrAppend(&out, "<tr><th scope=\"row\" class=\"nb\">#", first,
                    i == 0 ? "" : absl::StrCat(", handed over in #", first - 1), "</th><td>",
                    KeyId(key.key_id()), "</td><td class=\"full any\">", Code(key.vkey()),
                    "</td></tr>\n");
  }
  absl::StrAppend(&out, "</tbody></table>\n");
}

void AppendCosignatures(std::string& out, const ReportFacts& facts) {
  absl::StrAppend(&out, "<h3>Cosignatures</h3>\n");
  std::string rows;
  for (const NoteSignature& line : facts.note.signatures) {
    if (IsOfLog(facts, line)) continue;
    const std::string time = CosignatureTime(line);
    absl::StrAppend(&rows, "<tr><th scope=\"row\" class=\"any full\"><bdi>", Escape(line.name),
                    "</bdi></th><td>", KeyId(line.key_id), "</td><td>",
                    time.empty() ? "no time" : time, "</td></tr>\n");
  }
  if (rows.empty()) {
    absl::StrAppend(
        &out,
        "<p>None. No witness has countersigned this checkpoint, so only a copy that you "
        "keep shows whether the log was rewritten later.</p>\n");
    return;
  }
  absl::StrAppend(
      &out,
      "<table class=\"cards\"><caption>Witnesses that say they found this checkpoint to "
      "extend the one they knew. Not checked for this page; <code>lethe-verify</code> "
      "checks them against your policy.</caption><thead><tr><th scope=\"col\">Witness"
      "</th><th scope=\"col\">Key id</th><th scope=\"col\">Time</th></tr></thead><tbody>"
      "\n",
      rows, "</tbody></table>\n");
}

}  // namespace

void AppendChain(std::string& out, const ReportFacts& facts, const ReportData& data) {
  OpenSection(out, "chain", "State of the log");
  absl::StrAppend(&out, "<dl class=\"facts\">\n");
  Fact(out, "Origin", Code(facts.checkpoint.origin));
  Fact(out, "Size",
       absl::StrCat(Grouped(facts.checkpoint.size),
                    facts.checkpoint.size == 1 ? " certificate" : " certificates"));
  Fact(out, "Root",
       absl::StrCat(Code(Base64(facts.checkpoint.root)),
                    "<br><span class=\"soft small\">in hex</span> ",
                    Code(Hex(facts.checkpoint.root))));
  if (facts.count > 0) {
    Fact(out, "In this export",
         absl::StrCat(facts.count == 1
                          ? absl::StrCat("#", facts.first)
                          : absl::StrCat("#", facts.first, " to #", facts.first + facts.count - 1),
                      facts.count == facts.checkpoint.size
                          ? ", the whole log, with its tree as tiles"
                          : ", a range: each certificate with its proof, without the tiles"));
    Fact(out, "Time",
         absl::StrCat("<span class=\"nb\">", Escape(data.first_time),
                      "</span> to <span class=\"nb\">", Escape(data.last_time), "</span>"));
  }
  absl::StrAppend(
      &out, "</dl>\n<h3>Checkpoint</h3>\n<pre>",
      [&] {
        // Line by line, so that escaping does not take the newlines for control characters.
        std::string lines;
        std::string note = SerializeNote(facts.note);
        for (size_t start = 0; start < note.size();) {
          const size_t end = std::min(note.find('\n', start), note.size());
          absl::StrAppend(&lines, Escape(absl::string_view(note).substr(start, end - start)), "\n");
          start = end + 1;
        }
        return lines;
      }(),
      "</pre>\n");
  AppendKeys(out, facts);
  AppendCosignatures(out, facts);
  absl::StrAppend(&out, "</section>\n");
}

void AppendVerifying(std::string& out, const ReportFacts& facts) {
  OpenSection(out, "verify", "How to verify this yourself");
  const bool whole = facts.count == facts.checkpoint.size;
  const std::string key = facts.keys.empty() ? "VKEY" : Escape(facts.keys.front().second.vkey());
  std::string range;
  if (!whole) {
    range = absl::StrCat(" --first ", facts.first, " --last ", facts.first + facts.count - 1);
  }
  absl::StrAppend(
      &out,
      "<p>Begin with a verification key that reached you another way than this export: from a "
      "contract, an earlier export, a person. If it is not among the keys above, stop. The "
      "commands "
      "run in the folder that holds this page and need no network.</p>\n<ol class=\"ways\">\n<li>"
      "<h3>With lethe-verify</h3><p>Checks everything: signatures, hand-overs, the chain, each "
      "proof, "
      "each file of the export, this page too.</p>\n<pre>lethe-verify export . \\\n  --key "
      "'",
      key, "'", range, "</pre></li>\n");
  if (facts.count > 0) {
    // The key that signed the first certificate here.
    std::string signer = key;
    for (const auto& [first, candidate] : facts.keys) {
      if (first <= facts.first) signer = Escape(candidate.vkey());
    }
    absl::StrAppend(
        &out, "<li><h3>With openssl, one certificate</h3><p>The signature of certificate #",
        facts.first,
        " over its statement; then read <code>statement.json</code>.</p>\n<pre "
        "id=\"openssl\">KEY='",
        signer, "'\nFILE=", CertificateStem(facts.first),
        ".envelope.json\nfield() { sed -n &quot;s/.*\\&quot;$1\\&quot;:\\&quot;\\([^\\&quot;]*\\)"
        "\\&quot;.*/\\1/p&quot; &quot;$FILE&quot;; }\nREST=${KEY#*+}\n{ printf "
        "'\\060\\052\\060\\005\\006\\003\\053\\145\\160\\003\\041\\000'\n  printf %s "
        "&quot;${REST#*+}&quot; | base64 -d | tail -c 32; } &gt; key.der\nfield payload | base64 "
        "-d "
        "&gt; statement.json\nfield sig | base64 -d &gt; signature.bin\n{ printf 'DSSEv1 28 "
        "application/vnd.in-toto+json %d ' &quot;$(wc -c &lt; statement.json)&quot;\n  cat "
        "statement.json; } &gt; signed.bin\nopenssl pkeyutl -verify -pubin -keyform DER -inkey "
        "key.der \\\n  -rawin -in signed.bin -sigfile signature.bin</pre></li>\n");
  }
  absl::StrAppend(
      &out,
      "<li><h3>With tools that know nothing of Lethe</h3><p>The formats are public. "
      "<code>checkpoint</code> is a C2SP signed note (<code>golang.org/x/mod/sumdb/note</code> "
      "opens "
      "it); ",
      whole ? "<code>tile/</code> is the RFC 6962 tree as C2SP tlog-tiles "
              "(<code>golang.org/x/mod/sumdb/tlog</code> reads them); "
            : "",
      "each <code>.tlog-proof</code> is a C2SP proof that the certificate is in the tree; each "
      "<code>.sigstore.json</code> is a Sigstore bundle v0.3 that the npm package "
      "<code>@sigstore/verify</code> checks.</p></li>\n<li><h3>Against the past</h3><p>Keep "
      "<code>checkpoint</code>, or the root printed above. A later export must extend it; one that "
      "does not shows that the log was rewritten. A receipt, which the person who asked was given, "
      "opens the commitment of one certificate and shows that it is about that "
      "request.</p></li>\n</ol>\n</section>\n");
}

void AppendWords(std::string& out) {
  OpenSection(out, "words", "What the words mean");
  absl::StrAppend(&out, "<dl class=\"facts\">\n");
  Fact(out, "Token", "One remembered item: a key, a value and their labels.");
  Fact(out, "Margin, error, reserve",
       "The three sets of the partition. The first two carry weight in every answer, error tokens "
       "as "
       "much as one may; reserve tokens carry none.");
  Fact(
      out, "Bit-identical",
      "The memory was solved again from scratch without the erased tokens, and every published bit "
      "agreed.");
  Fact(out, "Proven",
       "The partition and the rounding of every weight were proven without solving again.");
  Fact(out, "KKT residual, duality gap",
       "How far the state is from the optimum, as an independent check measured it. 0 is exact.");
  Fact(out, "Slack", "How far the state is, at least, from one with another partition.");
  Fact(out, "Held",
       "A token that matched the request and was kept back, for instance by a legal "
       "hold.");
  Fact(out, "Level",
       "What is claimed of a place that held the bytes, such as rows-deleted or key-destroyed; "
       "not-claimed says that nothing is.");
  Fact(out, "Checkpoint",
       "Size and root of the log, signed. Two honest checkpoints of one log "
       "extend each other.");
  absl::StrAppend(&out, "</dl>\n</section>\n");
}

}  // namespace lethe::audit
