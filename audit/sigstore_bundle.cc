#include "audit/sigstore_bundle.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/dsse.h"
#include "audit/encoding.h"
#include "audit/json.h"
#include "audit/note.h"
#include "audit/vkey.h"
#include "core/base/status_macros.h"

namespace lethe::audit {
namespace {

// An envelope's base64, a leaf and a proof; far below.
constexpr size_t kMaxBundleBytes = size_t{4} << 20;

std::string LogId(const VerificationKey& key) {
  Sha256Hasher hasher;
  hasher.Update(key.name()).Update("\n").UpdateByte(static_cast<uint8_t>(KeyType::kEd25519));
  return std::string(AsBytes(hasher.Update(key.raw()).Finish()));
}

Json OneMember(absl::string_view key, absl::string_view value) {
  Json json = Json::MakeObject();
  json.Set(key, Json::String(value));
  return json;
}

// 64-bit integers are strings in protobuf's JSON.
Json Int64(uint64_t value) { return Json::String(absl::StrCat(value)); }

absl::StatusOr<std::string> OwnCheckpoint(absl::string_view text, const VerificationKey& key) {
  LETHE_ASSIGN_OR_RETURN(Note note, ParseNote(text));
  std::erase_if(note.signatures, [&](const NoteSignature& signature) {
    return signature.name != key.name() || signature.key_id != key.key_id();
  });
  if (note.signatures.empty()) {
    return absl::InvalidArgumentError("bundle: the checkpoint has no signature of the key");
  }
  note.signatures.resize(1);
  return SerializeNote(note);
}

// The path of the first member in which two values differ; empty when they are equal.
std::optional<std::string> FirstDifference(const Json& is,
                                           const Json& expected,
                                           const std::string& path) {
  const Json::Object* object = is.as_object();
  const Json::Object* expected_object = expected.as_object();
  if (object != nullptr && expected_object != nullptr) {
    for (const Json::Member& member : *expected_object) {
      const std::string child = path.empty() ? member.key : absl::StrCat(path, ".", member.key);
      const Json* value = is.Find(member.key);
      if (value == nullptr) return child;
      if (auto found = FirstDifference(*value, member.value, child)) return found;
    }
    for (const Json::Member& member : *object) {
      if (expected.Find(member.key) == nullptr) {
        return path.empty() ? "a member that does not belong there" : path;
      }
    }
    return std::nullopt;
  }
  const Json::Array* array = is.as_array();
  const Json::Array* expected_array = expected.as_array();
  if (array != nullptr && expected_array != nullptr) {
    if (array->size() != expected_array->size()) return path;
    for (size_t i = 0; i < array->size(); ++i) {
      const std::string child = absl::StrCat(path, "[", i, "]");
      if (auto found = FirstDifference((*array)[i], (*expected_array)[i], child)) return found;
    }
    return std::nullopt;
  }
  const std::string* text = is.as_string();
  const std::string* expected_text = expected.as_string();
  const bool equal = text != nullptr && expected_text != nullptr && *text == *expected_text;
  return equal ? std::nullopt : std::make_optional(path);
}

}  // namespace

absl::StatusOr<std::string> SigstoreBundle(const BundleFacts& facts) {
  LETHE_ASSIGN_OR_RETURN(const Envelope parsed, ParseEnvelope(facts.envelope));
  LETHE_ASSIGN_OR_RETURN(Json dsse, ParseJson(facts.envelope, JsonForm::kCanonical));
  LETHE_ASSIGN_OR_RETURN(const std::string checkpoint,
                         OwnCheckpoint(facts.checkpoint_note, facts.key));

  Json hashes = Json::MakeArray();
  for (const Digest& hash : facts.proof) hashes.Append(Json::String(Base64(hash)));
  Json inclusion = Json::MakeObject();
  inclusion.Set("checkpoint", OneMember("envelope", checkpoint));
  inclusion.Set("hashes", std::move(hashes));
  inclusion.Set("logIndex", Int64(facts.index));
  inclusion.Set("rootHash", Json::String(Base64(facts.root)));
  inclusion.Set("treeSize", Int64(facts.size));

  Json kind = Json::MakeObject();
  kind.Set("kind", Json::String("dsse"));
  kind.Set("version", Json::String("0.0.2"));
  Json entry = Json::MakeObject();
  entry.Set("canonicalizedBody", Json::String(Base64(facts.leaf)));
  entry.Set("inclusionProof", std::move(inclusion));
  entry.Set("kindVersion", std::move(kind));
  entry.Set("logId", OneMember("keyId", Base64(LogId(facts.key))));
  entry.Set("logIndex", Int64(facts.index));

  Json material = Json::MakeObject();
  material.Set("publicKey", OneMember("hint", parsed.keyid));
  material.Set("tlogEntries", Json::MakeArray({std::move(entry)}));
  Json bundle = Json::MakeObject();
  bundle.Set("dsseEnvelope", std::move(dsse));
  bundle.Set("mediaType", Json::String(kBundleMediaType));
  bundle.Set("verificationMaterial", std::move(material));
  return SerializeJson(bundle);
}

absl::Status CheckSigstoreBundle(absl::string_view bundle, const BundleFacts& facts) {
  const absl::StatusOr<std::string> expected = SigstoreBundle(facts);
  if (!expected.ok()) return absl::InternalError(expected.status().message());
  if (bundle == *expected) return absl::OkStatus();

  JsonLimits limits;
  limits.max_bytes = kMaxBundleBytes;
  const absl::StatusOr<Json> json = ParseJson(bundle, JsonForm::kCanonical, limits);
  if (!json.ok()) return json.status();
  const Json* media_type = json->Find("mediaType");
  if (media_type == nullptr || media_type->as_string() == nullptr ||
      *media_type->as_string() != kBundleMediaType) {
    return absl::InvalidArgumentError("mediaType: not a Sigstore bundle v0.3");
  }
  LETHE_ASSIGN_OR_RETURN(const Json wanted, ParseJson(*expected, JsonForm::kCanonical, limits));
  return absl::FailedPreconditionError(
      absl::StrCat(FirstDifference(*json, wanted, "").value_or("the bundle"),
                   ": of another certificate or log"));
}

}  // namespace lethe::audit
