#include "store/vault/file_kms.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace lethe::store {
namespace {

absl::Status NoSuchEpoch(uint32_t epoch, const std::string& path) {
  return absl::NotFoundError(absl::StrCat("KEK: epoch ", epoch, " is not in ", path));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileKms>> FileKms::Create(const std::string& folder) {
  LETHE_ASSIGN_OR_RETURN(KekFolder files, KekFolder::Make(folder));
  std::unique_ptr<FileKms> kms(new FileKms(std::move(files)));
  LETHE_RETURN_IF_ERROR(kms->Load());
  if (kms->ended_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "KEK: all keys of ", folder,
        " were destroyed; no key is made there again, give the tenant another folder"));
  }
  if (!kms->keys_.empty()) {
    return absl::AlreadyExistsError(absl::StrCat("KEK: ", folder, " holds keys already"));
  }
  LETHE_RETURN_IF_ERROR(kms->CreateEpoch(1));
  return kms;
}

absl::StatusOr<std::unique_ptr<FileKms>> FileKms::Open(const std::string& folder) {
  LETHE_ASSIGN_OR_RETURN(KekFolder files, KekFolder::Open(folder));
  std::unique_ptr<FileKms> kms(new FileKms(std::move(files)));
  LETHE_RETURN_IF_ERROR(kms->Load());
  if (kms->ended_) {
    return absl::NotFoundError(absl::StrCat("KEK: all keys of ", folder, " were destroyed"));
  }
  if (kms->keys_.empty()) {
    return absl::NotFoundError(
        absl::StrCat("KEK: ", folder,
                     " holds no key; put the files kek-* of this tenant back from their"
                     " backup; without them its data cannot be read"));
  }
  return kms;
}

absl::StatusOr<uint32_t> FileKms::Remove(const std::string& folder) {
  return KekFolder::Remove(folder);
}

absl::Status FileKms::Load() {
  LETHE_ASSIGN_OR_RETURN(const KekFolder::Content content, folder_.Recover());
  ended_ = content.ended != 0;
  for (uint32_t epoch : content.epochs) {
    LETHE_ASSIGN_OR_RETURN(SecretBytes key, folder_.Read(epoch));
    keys_.emplace(epoch, SealingKey(std::move(key)));
  }
  if (keys_.size() <= kMaxEpochs) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("KEK: ", Location(), ": holds more than ", kMaxEpochs, " KEKs"));
}

absl::Status FileKms::CreateEpoch(uint32_t epoch) {
  SecretBytes key = SecretBytes::Random(kDataKeyBytes);
  LETHE_RETURN_IF_ERROR(folder_.Write(epoch, key));
  keys_.emplace(epoch, SealingKey(std::move(key)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> FileKms::Epochs() {
  if (keys_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("KEK: all keys of ", Location(), " were destroyed"));
  }
  std::vector<uint32_t> epochs;
  for (const auto& [epoch, key] : keys_) epochs.push_back(epoch);
  return epochs;
}

absl::StatusOr<SealingKey*> FileKms::Find(uint32_t epoch) {
  const auto found = keys_.find(epoch);
  if (found == keys_.end()) return NoSuchEpoch(epoch, Location());
  return &found->second;
}

absl::StatusOr<std::vector<std::string>> FileKms::Wrap(uint32_t epoch,
                                                       std::span<const KeyToWrap> keys) {
  LETHE_ASSIGN_OR_RETURN(SealingKey * kek, Find(epoch));
  std::vector<std::string> wrapped;
  wrapped.reserve(keys.size());
  Nonces nonces(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].key == nullptr || keys[i].key->size() != kDataKeyBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("keys[", i, "]: must have ", kDataKeyBytes, " bytes"));
    }
    LETHE_ASSIGN_OR_RETURN(std::string bytes,
                           kek->SealSecret(keys[i].context, *keys[i].key, &nonces));
    wrapped.push_back(std::move(bytes));
  }
  return wrapped;
}

absl::StatusOr<std::vector<SecretBytes>> FileKms::Unwrap(uint32_t epoch,
                                                         std::span<const KeyToUnwrap> keys) {
  LETHE_ASSIGN_OR_RETURN(SealingKey * kek, Find(epoch));
  std::vector<SecretBytes> unwrapped;
  unwrapped.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    absl::StatusOr<SecretBytes> key =
        keys[i].wrapped.size() == kWrappedKeyBytes
            ? kek->OpenSecret(keys[i].context, keys[i].wrapped)
            : absl::DataLossError(absl::StrCat("must have ", kWrappedKeyBytes, " bytes"));
    if (!key.ok()) {
      return absl::Status(key.status().code(),
                          absl::StrCat("keys[", i, "]: ", key.status().message()));
    }
    unwrapped.push_back(*std::move(key));
  }
  return unwrapped;
}

absl::StatusOr<uint32_t> FileKms::Rotate() {
  LETHE_ASSIGN_OR_RETURN(const uint32_t current, CurrentEpoch());
  if (current == std::numeric_limits<uint32_t>::max()) {
    return absl::ResourceExhaustedError(absl::StrCat("KEK: ", Location(), " has no epoch left"));
  }
  if (keys_.size() >= kMaxEpochs) {
    return absl::ResourceExhaustedError(
        absl::StrCat("KEK: ", Location(), " holds ", keys_.size(),
                     " keys; finish a rotation, which destroys the old ones, first"));
  }
  LETHE_RETURN_IF_ERROR(CreateEpoch(current + 1));
  return current + 1;
}

absl::Status FileKms::Destroy(uint32_t epoch) {
  LETHE_ASSIGN_OR_RETURN(const uint32_t current, CurrentEpoch());
  if (epoch == 0 || epoch > current) return NoSuchEpoch(epoch, Location());
  if (epoch == current) {
    return absl::FailedPreconditionError(
        absl::StrCat("KEK: epoch ", epoch, " is the current one; rotate first"));
  }
  LETHE_RETURN_IF_ERROR(ProveCurrent(current));
  LETHE_RETURN_IF_ERROR(folder_.Erase(epoch));
  keys_.erase(epoch);
  return absl::OkStatus();
}

absl::Status FileKms::ProveCurrent(uint32_t current) {
  LETHE_ASSIGN_OR_RETURN(SecretBytes on_disk, folder_.Read(current));
  const SecretBytes probe = SecretBytes::Random(kDataKeyBytes);
  LETHE_ASSIGN_OR_RETURN(const std::string sealed, keys_.at(current).SealSecret(Location(), probe));
  const absl::StatusOr<SecretBytes> opened =
      SealingKey(std::move(on_disk)).OpenSecret(Location(), sealed);
  if (!opened.ok() || !opened->Equals(probe)) {
    return absl::DataLossError(absl::StrCat("KEK: ", Location(), ": the file of epoch ", current,
                                            " is not the key that is in use; nothing was "
                                            "destroyed. Put the file back from its backup"));
  }
  return absl::OkStatus();
}

absl::Status FileKms::DestroyAll() {
  while (!keys_.empty()) {
    const uint32_t epoch = keys_.begin()->first;
    LETHE_RETURN_IF_ERROR(keys_.size() == 1 ? folder_.EraseLast(epoch) : folder_.Erase(epoch));
    keys_.erase(epoch);
  }
  ended_ = true;
  return absl::OkStatus();
}

}  // namespace lethe::store
