// The sections about the log itself and about verifying it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "audit/encoding.h"
#include "audit/report_html_charts.h"
#include "audit/report_html_parts.h"
#include "audit/report_html_sections.h"

namespace lethe::audit {
namespace {

constexpr size_t kTimestampBytes = 8;
constexpr size_t kSignatureBytes = 64;

// With KEY and FILE set: docs/certificate_format.md, section 8, without what concerns the log.
constexpr char kOpenssl[] = R"sh(T=$(mktemp -d)
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" "$FILE"; }
REST=${KEY#*+}
{ printf '\060\052\060\005\006\003\053\145\160\003\041\000'
  printf %s "${REST#*+}" | base64 -d | tail -c 32; } > "$T/key.der"
field payload | base64 -d > "$T/statement.json"
field sig | base64 -d > "$T/signature.bin"
{ printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(wc -c < "$T/statement.json")"
  cat "$T/statement.json"; } > "$T/signed.bin"
openssl pkeyutl -verify -pubin -keyform DER -inkey "$T/key.der" \
  -rawin -in "$T/signed.bin" -sigfile "$T/signature.bin"
)sh";

void Fact(std::string& out, absl::string_view name, absl::string_view html) {
  absl::StrAppend(&out, "<dt>", name, "</dt><dd>", html, "</dd>\n");
}

std::string Code(absl::string_view text) { return absl::StrCat("<code>", Escape(text), "</code>"); }

// Eight digits that stay in one line.
std::string KeyId(absl::string_view key_id) {
  return absl::StrCat("<code class=\"nb\">", Hex(key_id), "</code>");
}

// Line by line, so that newlines are not taken for control characters. Without the last newline.
std::string EscapeLines(absl::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::string out;
  while (true) {
    const size_t end = text.find('\n');
    absl::StrAppend(&out, Escape(text.substr(0, end)));
    if (end == absl::string_view::npos) return out;
    out.push_back('\n');
    text.remove_prefix(end + 1);
  }
}

// One word for a shell: a name may hold a quote.
std::string ShellQuoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// The key that signed this certificate.
const VerificationKey& SignerOf(const ReportFacts& facts, uint64_t sequence) {
  size_t i = 0;
  while (i + 1 < facts.keys.size() && facts.keys[i + 1].first <= sequence) ++i;
  return facts.keys[i].second;
}

// When a cosignature says it was made; empty for a line of another shape.
std::string CosignatureTime(const NoteSignature& line) {
  if (line.signature.size() != kTimestampBytes + kSignatureBytes) return "";
  uint64_t seconds = 0;
  for (size_t i = 0; i < kTimestampBytes; ++i) {
    seconds = seconds << 8 | static_cast<uint8_t>(line.signature[i]);
  }
  if (seconds > static_cast<uint64_t>(kMaxReportTime)) return "";
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
  absl::StrAppend(&out, "</dl>\n<h3>Checkpoint</h3>\n<pre>", EscapeLines(SerializeNote(facts.note)),
                  "</pre>\n");
  AppendKeys(out, facts);
  AppendCosignatures(out, facts);
  absl::StrAppend(&out, "</section>\n");
}

void AppendVerifying(std::string& out, const ReportFacts& facts) {
  OpenSection(out, "verify", "How to verify this yourself");
  const bool whole = facts.count == facts.checkpoint.size;
  const VerificationKey& signer = SignerOf(facts, facts.first);
  std::string arguments = absl::StrCat("--key ", ShellQuoted(signer.vkey()));
  if (!whole) {
    const uint64_t last = facts.first + facts.count - 1;
    // The hand-over to the checkpoint's key may lie outside of the range.
    if (facts.keys.back().first > last + 1) {
      absl::StrAppend(&arguments, " \\\n  --key ", ShellQuoted(facts.keys.back().second.vkey()));
    }
    absl::StrAppend(&arguments, " \\\n  --first ", facts.first, " --last ", last);
  }
  absl::StrAppend(
      &out,
      "<p>Begin with a verification key that reached you another way than this export: "
      "from a contract, an earlier export, a person. If it is not among the keys above, "
      "stop. The commands run in the folder that holds this page and need no network.</p>"
      "\n<ol class=\"ways\">\n<li><h3>With lethe-verify</h3><p>Checks everything: "
      "signatures, hand-overs, the chain, each proof, each file of the export, this page "
      "too.</p>\n<pre>lethe-verify export . \\\n  ",
      EscapeLines(arguments), "</pre></li>\n");
  if (facts.count > 0) {
    absl::StrAppend(&out,
                    "<li><h3>With openssl, one certificate</h3><p>The signature of certificate #",
                    facts.first,
                    " over its statement; then read <code>$T/statement.json</code>. Nothing is "
                    "written into the export.</p>\n<pre id=\"openssl\">KEY=",
                    Escape(ShellQuoted(signer.vkey())), "\nFILE=", CertificateStem(facts.first),
                    ".envelope.json\n", EscapeLines(kOpenssl), "</pre></li>\n");
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
  Fact(out, "Pending keys",
       "The rows of an erasure are deleted, and no later certificate says that the keys which they "
       "were sealed under are destroyed.");
  Fact(out, "Checkpoint",
       "Size and root of the log, signed. Two honest checkpoints of one log "
       "extend each other.");
  absl::StrAppend(&out, "</dl>\n</section>\n");
}

}  // namespace lethe::audit
