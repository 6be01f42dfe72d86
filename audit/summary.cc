#include "audit/summary.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "audit/encoding.h"
#include "core/base/check.h"

namespace lethe::audit {
namespace {

std::string DoubleText(double value) {
  if (std::isinf(value)) return value > 0.0 ? "inf" : "-inf";
  std::array<char, 32> text;
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), value);
  LETHE_CHECK(end.ec == std::errc());
  const std::string shortest(text.data(), end.ptr);
  // Many readers take "-0" for the integer 0.
  return shortest == "-0" ? "-0.0" : shortest;
}

std::string StoreText(const StoreErasure& store) {
  return absl::StrCat(store.store, ": ", store.level, store.evidence.empty() ? "" : "; ",
                      store.evidence);
}

// The texts of a certificate are UTF-8 without control characters, so two escapes would do; the
// others keep a line one line whatever comes.
void AppendJsonText(std::string& out, absl::string_view text) {
  constexpr absl::string_view kHex = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    const uint8_t byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (byte < 0x20) {
      absl::StrAppend(&out, "\\u00", kHex.substr(byte >> 4, 1), kHex.substr(byte & 15, 1));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

// The columns, once for all forms. A sink has Integer, Double, Bool, Text, Integers, Stores and
// Texts, each with a name and an optional value (the last three with a list).
template <typename Sink>
void VisitColumns(const SummaryEntry& entry, Sink&& sink) {
  using Integer = std::optional<uint64_t>;
  using Double = std::optional<double>;
  using Text = std::optional<std::string>;
  const CertificateBody& body = entry.body;
  const StateChange* change = body.change.has_value() ? &*body.change : nullptr;
  const auto integer = [&](uint64_t PartitionSizes::*size, bool after) {
    if (change == nullptr) return Integer();
    return Integer((after ? change->partition_after : change->partition_before).*size);
  };
  const auto residual = [&](double Residuals::*value) {
    return change == nullptr ? Double() : Double(change->residuals.*value);
  };
  const auto bound = [&](std::optional<double> Residuals::*value) {
    return change == nullptr ? Double() : change->residuals.*value;
  };
  const auto digest = [&](Digest StateChange::*value) {
    return change == nullptr ? Text() : Text(Hex(change->*value));
  };
  const Selection* selection =
      change != nullptr && change->selection.has_value() ? &*change->selection : nullptr;
  const auto selected = [&](uint64_t Selection::*value) {
    return selection == nullptr ? Integer() : Integer(selection->*value);
  };
  const KeyDestruction* destruction = body.destruction.has_value() ? &*body.destruction : nullptr;
  const auto destroyed = [&](uint64_t SequenceSpan::*end) {
    return destruction == nullptr || !destruction->erasures.has_value()
               ? Integer()
               : Integer((*destruction->erasures).*end);
  };
  const auto restored = [&](uint64_t Restoration::*value) {
    return body.restoration.has_value() ? Integer((*body.restoration).*value) : Integer();
  };
  const RefitComparison* refit =
      change != nullptr && change->refit.has_value() ? &*change->refit : nullptr;
  const std::string concerns =
      absl::StrJoin(ConcernsOf(body), " ",
                    [](std::string* out, Concern concern) { absl::StrAppend(out, Name(concern)); });

  sink.Integer("sequence", body.sequence);
  sink.Text("time", body.time);
  sink.Text("kind", std::string(Name(body.kind)));
  sink.Text("attention", concerns.empty() ? Text() : Text(concerns));
  sink.Text("verdict", change == nullptr ? Text() : Text(std::string(Name(change->verdict))));
  sink.Integer("matched", body.counts.matched);
  sink.Integer("erased", body.counts.erased);
  sink.Integer("not_found", body.counts.not_found);
  sink.Integer("already_erased", body.counts.already_erased);
  sink.Integer("held", body.counts.held);
  sink.Integer("margin_before", integer(&PartitionSizes::margin, false));
  sink.Integer("error_before", integer(&PartitionSizes::error, false));
  sink.Integer("reserve_before", integer(&PartitionSizes::reserve, false));
  sink.Integer("margin_after", integer(&PartitionSizes::margin, true));
  sink.Integer("error_after", integer(&PartitionSizes::error, true));
  sink.Integer("reserve_after", integer(&PartitionSizes::reserve, true));
  sink.Double("kkt_residual", residual(&Residuals::kkt_residual));
  sink.Double("duality_gap", residual(&Residuals::duality_gap));
  sink.Double("slack", residual(&Residuals::slack));
  sink.Double("weight_bound", residual(&Residuals::weight_bound));
  sink.Double("decision_bound", residual(&Residuals::decision_bound));
  sink.Double("gap_bound", bound(&Residuals::gap_bound));
  sink.Double("readout_bound", bound(&Residuals::readout_bound));
  sink.Double("condition", residual(&Residuals::condition));
  sink.Integer("precision_bits",
               change == nullptr ? Integer() : Integer(change->residuals.precision_bits));
  sink.Bool("refit_equal",
            refit == nullptr ? std::optional<bool>() : std::optional<bool>(refit->bits_equal));
  sink.Double("refit_deviation", refit == nullptr ? Double() : Double(refit->deviation));
  sink.Integer("budget", selected(&Selection::budget));
  sink.Integer("taken_reserve", selected(&Selection::reserve));
  sink.Integer("taken_surplus", selected(&Selection::surplus));
  sink.Integer("retained", selected(&Selection::retained));
  sink.Integer("destroyed_first", destroyed(&SequenceSpan::first));
  sink.Integer("destroyed_last", destroyed(&SequenceSpan::last));
  sink.Integer("destroyed_keys", destruction == nullptr ? Integer() : Integer(destruction->keys));
  sink.Integers("destroyed_epochs",
                destruction == nullptr ? std::vector<uint64_t>() : destruction->epochs);
  sink.Integer("restored_size", restored(&Restoration::size));
  sink.Integer("restored_reapplied", restored(&Restoration::reapplied));
  sink.Integer("restored_removed", restored(&Restoration::removed));
  sink.Text("id", entry.id);
  sink.Text("leaf_hash", Hex(entry.leaf_hash));
  sink.Text("keyid", entry.keyid);
  sink.Text("memory", change == nullptr ? Text() : Text(change->memory_uid));
  sink.Text("config", digest(&StateChange::config));
  sink.Text("root_before", digest(&StateChange::root_before));
  sink.Text("root_after", digest(&StateChange::root_after));
  sink.Text("request", Hex(body.request_commitment));
  sink.Text("subject",
            body.subject_commitment.has_value() ? Text(Hex(*body.subject_commitment)) : Text());
  sink.Text("build", body.build);
  sink.Stores("stores", body.stores);
  sink.Texts("exceptions", body.exceptions);
}

struct NameSink {
  std::vector<std::string> names;

  void Integer(absl::string_view name, std::optional<uint64_t>) { names.emplace_back(name); }
  void Double(absl::string_view name, std::optional<double>) { names.emplace_back(name); }
  void Bool(absl::string_view name, std::optional<bool>) { names.emplace_back(name); }
  void Text(absl::string_view name, const std::optional<std::string>&) { names.emplace_back(name); }
  void Integers(absl::string_view name, const std::vector<uint64_t>&) { names.emplace_back(name); }
  void Stores(absl::string_view name, const std::vector<StoreErasure>&) {
    names.emplace_back(name);
  }
  void Texts(absl::string_view name, const std::vector<std::string>&) { names.emplace_back(name); }
};

struct CsvSink {
  std::string line;

  void Field(absl::string_view text) { absl::StrAppend(&line, line.empty() ? "" : ",", text); }
  void Integer(absl::string_view, std::optional<uint64_t> value) {
    Field(value.has_value() ? absl::StrCat(*value) : "");
  }
  void Double(absl::string_view, std::optional<double> value) {
    Field(value.has_value() ? DoubleText(*value) : "");
  }
  void Bool(absl::string_view, std::optional<bool> value) {
    Field(value.has_value() ? (*value ? "true" : "false") : "");
  }
  void Text(absl::string_view, const std::optional<std::string>& value) {
    Field(value.has_value() ? CsvText(*value) : "");
  }
  void Integers(absl::string_view, const std::vector<uint64_t>& values) {
    Field(values.empty() ? "" : CsvText(absl::StrJoin(values, " ")));
  }
  void Stores(absl::string_view, const std::vector<StoreErasure>& stores) {
    Field(CsvText(absl::StrJoin(stores, " | ", [](std::string* out, const StoreErasure& store) {
      out->append(StoreText(store));
    })));
  }
  void Texts(absl::string_view, const std::vector<std::string>& texts) {
    Field(CsvText(absl::StrJoin(texts, " | ")));
  }
};

struct JsonSink {
  std::string line;

  void Key(absl::string_view name) {
    absl::StrAppend(&line, line.empty() ? "{" : ",", "\"", name, "\":");
  }
  void Integer(absl::string_view name, std::optional<uint64_t> value) {
    if (!value.has_value()) return;
    Key(name);
    absl::StrAppend(&line, *value);
  }
  void Double(absl::string_view name, std::optional<double> value) {
    if (!value.has_value()) return;
    Key(name);
    const std::string text = DoubleText(*value);
    // JSON has no infinity.
    absl::StrAppend(&line, std::isinf(*value) ? absl::StrCat("\"", text, "\"") : text);
  }
  void Bool(absl::string_view name, std::optional<bool> value) {
    if (!value.has_value()) return;
    Key(name);
    absl::StrAppend(&line, *value ? "true" : "false");
  }
  void Text(absl::string_view name, const std::optional<std::string>& value) {
    if (!value.has_value()) return;
    Key(name);
    AppendJsonText(line, *value);
  }
  void Integers(absl::string_view name, const std::vector<uint64_t>& values) {
    if (values.empty()) return;
    Key(name);
    absl::StrAppend(&line, "[", absl::StrJoin(values, ","), "]");
  }
  void Stores(absl::string_view name, const std::vector<StoreErasure>& stores) {
    Key(name);
    line.push_back('[');
    for (size_t i = 0; i < stores.size(); ++i) {
      absl::StrAppend(&line, i == 0 ? "" : ",", "{\"store\":");
      AppendJsonText(line, stores[i].store);
      absl::StrAppend(&line, ",\"level\":");
      AppendJsonText(line, stores[i].level);
      absl::StrAppend(&line, ",\"evidence\":");
      AppendJsonText(line, stores[i].evidence);
      line.push_back('}');
    }
    line.push_back(']');
  }
  void Texts(absl::string_view name, const std::vector<std::string>& texts) {
    Key(name);
    line.push_back('[');
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0) line.push_back(',');
      AppendJsonText(line, texts[i]);
    }
    line.push_back(']');
  }
};

}  // namespace

absl::string_view Name(Concern concern) {
  switch (concern) {
    case Concern::kPendingKeys:
      return "pending-keys";
    case Concern::kUncertified:
      return "uncertified";
    case Concern::kNotIdentical:
      return "not-identical";
    case Concern::kHeld:
      return "held";
    case Concern::kBounded:
      return "bounded";
    case Concern::kExcepted:
      return "excepted";
  }
  LETHE_CHECK(false);
}

std::vector<Concern> ConcernsOf(const CertificateBody& body) {
  std::vector<Concern> concerns;
  if (body.change.has_value()) {
    if (body.change->verdict == VerdictClass::kUncertified) {
      concerns.push_back(Concern::kUncertified);
    }
    if (body.change->refit.has_value() && !body.change->refit->bits_equal) {
      concerns.push_back(Concern::kNotIdentical);
    }
  }
  if (body.counts.held > 0) concerns.push_back(Concern::kHeld);
  if (body.change.has_value() && body.change->verdict == VerdictClass::kBounded) {
    concerns.push_back(Concern::kBounded);
  }
  if (!body.exceptions.empty()) concerns.push_back(Concern::kExcepted);
  return concerns;
}

std::vector<std::string> SummaryColumns() {
  NameSink sink;
  const CertificateBody body;
  VisitColumns(SummaryEntry{.body = body}, sink);
  return sink.names;
}

std::string SummaryCsvHeader() {
  return absl::StrCat(absl::StrJoin(SummaryColumns(), ","), "\r\n");
}

std::string SummaryCsvLine(const SummaryEntry& entry) {
  CsvSink sink;
  VisitColumns(entry, sink);
  return absl::StrCat(sink.line, "\r\n");
}

std::string SummaryJsonLine(const SummaryEntry& entry) {
  JsonSink sink;
  VisitColumns(entry, sink);
  return absl::StrCat(sink.line, "}\n");
}

std::string CsvText(absl::string_view text) {
  // What begins a formula in some spreadsheet, also in full width (EF BC 8B, 8D, 9D; EF BC A0), and
  // also after blanks, which some trim.
  const size_t start = text.find_first_not_of(" \t\r\n\xC2\xA0");
  const absl::string_view rest = start == absl::string_view::npos ? "" : text.substr(start);
  const bool formula =
      (!rest.empty() && absl::string_view("=+-@").find(rest[0]) != absl::string_view::npos) ||
      rest.substr(0, 3) == "\xEF\xBC\x8B" || rest.substr(0, 3) == "\xEF\xBC\x8D" ||
      rest.substr(0, 3) == "\xEF\xBC\x9D" || rest.substr(0, 3) == "\xEF\xBC\xA0" ||
      (!text.empty() && absl::string_view("\t\r\n").find(text[0]) != absl::string_view::npos);
  std::string out = formula ? "\"'" : "\"";
  for (const char c : text) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}

}  // namespace lethe::audit
