// Solves a memory again from the tenant's own tokens and compares the outcome.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "audit/cli/commands.h"
#include "audit/cli/input.h"
#include "audit/cli/output.h"
#include "audit/cli/token_file.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/hash.h"
#include "audit/report.h"
#include "audit/state_digest.h"
#include "audit/token_tree.h"
#include "audit/verify.h"
#include "client/cli/token_source.h"
#include "core/base/status_macros.h"
#include "core/model/memory_encoder.h"
#include "core/svdd/memory.h"

namespace lethe::audit::cli {
namespace {

using ::lethe::cli::TokenSource;

// As a server takes them.
constexpr size_t kMaxEncoderBytes = size_t{4} << 20;

struct Solved {
  Digest state{};
  Digest config{};
  PartitionSizes partition;
  uint64_t tokens = 0;
  int precision_bits = 0;
};

absl::StatusOr<svdd::MemoryOptions> MemoryOptionsOf(const StateOptions& options,
                                                    const model::MemoryEncoder* encoder,
                                                    size_t key_dimension,
                                                    size_t value_dimension) {
  kernel::Kernel kernel;
  const std::string kind = options.kernel.value_or("rbf");
  const bool dot = kind == "exp_dot";
  kernel.kind = dot                   ? kernel::KernelKind::kExpDot
                : kind == "laplacian" ? kernel::KernelKind::kLaplacian
                                      : kernel::KernelKind::kRbf;
  const std::optional<double>& parameter = dot ? options.scale : options.gamma;
  const bool stated = options.gamma.has_value() || options.scale.has_value();
  if (encoder != nullptr && options.kernel.has_value() != stated) {
    return absl::InvalidArgumentError(
        "with --encoder give --kernel and its --gamma or --scale, or neither");
  }
  if (encoder != nullptr && !stated) {
    kernel = encoder->kernel();
  } else if (!parameter.has_value() || options.scale.has_value() != dot) {
    return absl::InvalidArgumentError(dot ? "exp_dot needs --scale"
                                          : "rbf and laplacian need --gamma");
  } else {
    kernel.parameter = *parameter;
  }
  if (options.box.has_value() == options.capacity.has_value()) {
    return absl::InvalidArgumentError("exactly one of --capacity and --box is needed");
  }
  LETHE_ASSIGN_OR_RETURN(const svdd::Capacity capacity,
                         options.box.has_value() ? svdd::Capacity::FromBox(*options.box)
                                                 : svdd::Capacity::FromCapacity(*options.capacity));
  svdd::MemoryOptions memory{
      .kernel = kernel,
      .capacity = capacity,
      .duplicates = options.duplicates == "oldest-first"   ? svdd::DuplicatesPolicy::kOldestFirst
                    : options.duplicates == "newest-first" ? svdd::DuplicatesPolicy::kNewestFirst
                                                           : svdd::DuplicatesPolicy::kShared,
      .key_dimension = static_cast<int>(key_dimension),
      .value_dimension = static_cast<int>(value_dimension)};
  LETHE_RETURN_IF_ERROR(svdd::Validate(memory));
  return memory;
}

// The tokens of a file, in its order, by the reader that `lethe insert` uses.
class Tokens {
 public:
  // `encoder` may be null. Outlives this.
  absl::Status Read(const StateOptions& options, const model::MemoryEncoder* encoder) {
    encoder_ = encoder;
    return ReadTokens(options.tokens,
                      [this](TokenSource::Item item) { return Take(std::move(item)); });
  }

  size_t size() const { return keys_.size(); }
  size_t key_dimension() const { return keys_.empty() ? 0 : keys_.front().size(); }
  size_t value_dimension() const { return values_.empty() ? 0 : values_.front().size(); }

  absl::StatusOr<Solved> Solve(const svdd::MemoryOptions& options,
                               const std::optional<Digest>& encoder) {
    LETHE_ASSIGN_OR_RETURN(const auto memory, svdd::ExactMemory::Create(options));
    std::vector<svdd::NewToken> batch;
    for (size_t i = 0; i < keys_.size(); ++i) {
      if (const absl::Status valid = memory->Validate(keys_[i], values_[i]); !valid.ok()) {
        return absl::InvalidArgumentError(absl::StrCat("token ", i, ": ", valid.message()));
      }
      batch.push_back({.handle = i + 1, .key = keys_[i], .value = values_[i]});
      LETHE_RETURN_IF_ERROR(tree_.Insert(i + 1, leaves_[i], leaves_[i]));
    }
    if (!batch.empty()) LETHE_RETURN_IF_ERROR(memory->Insert(batch).status());
    const std::shared_ptr<const svdd::Snapshot> snapshot = memory->Refit();
    Solved solved;
    solved.tokens = keys_.size();
    solved.precision_bits = snapshot->proof.precision_bits;
    solved.partition = {.margin = snapshot->counts.margin,
                        .error = snapshot->counts.error,
                        .reserve = snapshot->counts.reserve};
    solved.config = ConfigDigest({.kernel_kind = static_cast<uint8_t>(options.kernel.kind),
                                  .kernel_parameter = options.kernel.parameter,
                                  .total = options.capacity.total(),
                                  .box = options.capacity.box(),
                                  .duplicates = static_cast<uint8_t>(options.duplicates),
                                  .key_dimension = static_cast<uint32_t>(options.key_dimension),
                                  .value_dimension = static_cast<uint32_t>(options.value_dimension),
                                  .encoder = encoder});
    solved.state = DigestOf(*snapshot, solved.config);
    return solved;
  }

 private:
  absl::Status Take(TokenSource::Item item) {
    auto& token = item.token;
    if (token.id.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", item.line, ": no id; the state depends on the ids"));
    }
    if (!ids_.insert(token.id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", item.line, ": an id for the second time"));
    }
    if (encoder_ != nullptr) {
      const model::EncoderOptions& made = encoder_->options();
      if (token.key.size() != made.key_dimension || token.value.size() != made.value_dimension) {
        return absl::InvalidArgumentError(absl::StrCat("line ", item.line, ": the encoder takes ",
                                                       made.key_dimension, " numbers of a key and ",
                                                       made.value_dimension, " of a value"));
      }
      std::vector<double> key(made.key_out());
      encoder_->EncodeKey(token.key, key);
      token.key = std::move(key);
      std::vector<double> value(made.value_out());
      encoder_->EncodeValue(token.value, value);
      token.value = std::move(value);
    }
    // As the server keeps it: one zero.
    for (double& number : token.key) {
      if (number == 0.0) number = 0.0;
    }
    const std::vector<std::pair<std::string, std::string>> labels(token.labels.begin(),
                                                                  token.labels.end());
    leaves_.push_back(PlainLeaf(EncodeToken({.id = token.id,
                                             .key = token.key,
                                             .value = token.value,
                                             .subject = token.subject,
                                             .payload = token.payload,
                                             .labels = labels})));
    keys_.push_back(std::move(token.key));
    values_.push_back(std::move(token.value));
    return absl::OkStatus();
  }

  Digest DigestOf(const svdd::Snapshot& snapshot, const Digest& config) {
    StateContent content;
    content.config = config;
    content.phase = static_cast<uint8_t>(snapshot.phase);
    content.tokens = keys_.size();
    if (snapshot.phase == svdd::Phase::kActive) {
      content.mu = snapshot.mu;
      content.mu_low = snapshot.mu_low;
      content.mu_high = snapshot.mu_high;
    }
    for (const svdd::SupportToken& support : snapshot.supports) {
      content.supports.push_back({.leaf = leaves_[support.handle - 1],
                                  .label = static_cast<uint8_t>(support.label),
                                  .alpha = support.alpha});
    }
    content.tree_root = tree_.plain_root();
    return StateDigest(content);
  }

  const model::MemoryEncoder* encoder_ = nullptr;
  std::set<std::string> ids_;
  std::vector<std::vector<double>> keys_;
  std::vector<std::vector<double>> values_;
  std::vector<Digest> leaves_;
  TokenTree tree_;
};

// What the certificate says of the state after its change, against what was solved.
CertificateResult CheckCertificate(const std::string& envelope,
                                   const Pins& pins,
                                   const Solved& solved) {
  CertificateResult result = VerifyCertificate(envelope, std::nullopt, pins.keys.front());
  for (const VerificationKey& key : pins.keys) {
    if (result.ok()) break;
    CertificateResult other = VerifyCertificate(envelope, std::nullopt, key);
    if (other.ok()) result = std::move(other);
  }
  if (!result.ok()) return result;
  const auto differs = [&result](absl::string_view what) {
    result.failure = Failure::kDigestMismatch;
    result.message = std::string(what);
  };
  if (!result.body->change.has_value()) {
    differs("The certificate is about no state of a memory.");
  } else if (result.body->change->config != solved.config) {
    differs("The certificate is about a memory of another configuration.");
  } else if (!(result.body->change->partition_after == solved.partition)) {
    differs("The tokens are not partitioned as the certificate says.");
  }
  return result;
}

}  // namespace

int RunState(const Options& options, const Pins* pins) {
  const StateOptions& state = options.state;
  std::optional<Digest> expected;
  if (!state.digest.empty()) {
    const absl::StatusOr<Digest> digest = DecodeDigest(state.digest);
    if (!digest.ok()) {
      return Complain(absl::InvalidArgumentError("--digest: not 64 hex digits"), kUsage);
    }
    expected = *digest;
  }
  std::shared_ptr<const model::MemoryEncoder> encoder;
  std::optional<Digest> artefact_digest;
  if (!state.encoder.empty()) {
    const absl::StatusOr<std::string> artefact = ReadFile(state.encoder, kMaxEncoderBytes);
    if (!artefact.ok()) return ReadFailure(artefact.status());
    auto read = model::MemoryEncoder::Read(*artefact);
    if (!read.ok()) return Complain(InFile(state.encoder, read.status()), kMalformed);
    encoder = *std::move(read);
    artefact_digest = Sha256(*artefact);
  }
  Tokens tokens;
  if (const absl::Status read = tokens.Read(state, encoder.get()); !read.ok()) {
    return ReadFailure(read);
  }
  const absl::StatusOr<svdd::MemoryOptions> memory = MemoryOptionsOf(
      state, encoder.get(),
      state.key_dimension.value_or(encoder == nullptr ? tokens.key_dimension()
                                                      : encoder->options().key_out()),
      state.value_dimension.value_or(encoder == nullptr ? tokens.value_dimension()
                                                        : encoder->options().value_out()));
  if (!memory.ok()) return Complain(memory.status(), kUsage);
  const absl::StatusOr<Solved> solved = tokens.Solve(*memory, artefact_digest);
  if (!solved.ok()) return Complain(solved.status(), kMalformed);

  Failure failure = Failure::kNone;
  std::string message = "Verified.";
  if (expected.has_value() && *expected != solved->state) {
    failure = Failure::kDigestMismatch;
    message = "These tokens lead to another state.";
  }
  if (failure == Failure::kNone && !state.certificate.empty()) {
    const absl::StatusOr<std::string> envelope = ReadFile(state.certificate, kMaxEnvelopeBytes);
    if (!envelope.ok()) return ReadFailure(envelope.status());
    const CertificateResult checked = CheckCertificate(*envelope, *pins, *solved);
    failure = checked.failure;
    if (!checked.ok()) message = checked.message;
  }
  if (options.json()) {
    Json partition = Json::MakeObject();
    partition.Set("error", Json::Integer(solved->partition.error));
    partition.Set("margin", Json::Integer(solved->partition.margin));
    partition.Set("reserve", Json::Integer(solved->partition.reserve));
    Json json = Json::MakeObject();
    json.Set("config", Json::String(Hex(solved->config)));
    json.Set("failure", Json::String(Name(failure)));
    json.Set("message", Json::String(message));
    json.Set("partition", std::move(partition));
    json.Set("precisionBits", Json::Integer(static_cast<uint64_t>(solved->precision_bits)));
    json.Set("stateDigest", Json::String(Hex(solved->state)));
    json.Set("tokens", Json::Integer(solved->tokens));
    PrintJson(json);
    return ExitCode(failure);
  }
  if (failure != Failure::kNone) {
    Print(DescribeFailure(Name(failure), message));
  } else if (!expected.has_value() && state.certificate.empty()) {
    Print("SOLVED    nothing to compare with: no --digest and no --certificate\n");
  } else {
    Print(absl::StrCat("VERIFIED  ", solved->tokens, " tokens lead to this state\n"));
  }
  if (!options.quiet) {
    Print(Field("state", Hex(solved->state)));
    Print(Field("config", Hex(solved->config)));
    Print(Field("partition",
                absl::StrCat(solved->partition.margin, " margin, ", solved->partition.error,
                             " error, ", solved->partition.reserve, " reserve")));
  }
  return ExitCode(failure);
}

}  // namespace lethe::audit::cli
