// A FileKms whose calls a test can refuse or look at.
#ifndef LETHE_TESTS_STORE_HOOKED_KMS_H_
#define LETHE_TESTS_STORE_HOOKED_KMS_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_macros.h"
#include "store/sqlite_tenant_store.h"
#include "store/vault/kms.h"

namespace lethe::store {

struct KmsHooks {
  absl::Status wrap;                                 // not OK: what Wrap answers
  std::function<void()> destroyed_all = [] {};       // after DestroyAll
  std::function<absl::Status()> before_destroy_all;  // not OK: what DestroyAll answers
  // Around Rotate, Wrap and Destroy: "before rotate", "after rotate" and so on. Not OK: what they
  // answer.
  std::function<absl::Status(const std::string& step)> at = [](const std::string&) {
    return absl::OkStatus();
  };
};

class HookedKms final : public Kms {
 public:
  HookedKms(std::unique_ptr<Kms> inner, std::shared_ptr<KmsHooks> hooks)
      : inner_(std::move(inner)), hooks_(std::move(hooks)) {}

  std::string Location() const override { return inner_->Location(); }
  absl::StatusOr<std::vector<uint32_t>> Epochs() override { return inner_->Epochs(); }
  absl::StatusOr<std::vector<std::string>> Wrap(uint32_t epoch,
                                                std::span<const KeyToWrap> keys) override {
    LETHE_RETURN_IF_ERROR(hooks_->wrap);
    LETHE_RETURN_IF_ERROR(hooks_->at("before wrap"));
    return inner_->Wrap(epoch, keys);
  }
  absl::StatusOr<std::vector<SecretBytes>> Unwrap(uint32_t epoch,
                                                  std::span<const KeyToUnwrap> keys) override {
    return inner_->Unwrap(epoch, keys);
  }
  absl::StatusOr<uint32_t> Rotate() override {
    LETHE_RETURN_IF_ERROR(hooks_->at("before rotate"));
    LETHE_ASSIGN_OR_RETURN(const uint32_t epoch, inner_->Rotate());
    LETHE_RETURN_IF_ERROR(hooks_->at("after rotate"));
    return epoch;
  }
  absl::Status Destroy(uint32_t epoch) override {
    LETHE_RETURN_IF_ERROR(hooks_->at("before destroy"));
    LETHE_RETURN_IF_ERROR(inner_->Destroy(epoch));
    return hooks_->at("after destroy");
  }
  absl::Status DestroyAll() override {
    if (hooks_->before_destroy_all) LETHE_RETURN_IF_ERROR(hooks_->before_destroy_all());
    LETHE_RETURN_IF_ERROR(inner_->DestroyAll());
    hooks_->destroyed_all();
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Kms> inner_;
  std::shared_ptr<KmsHooks> hooks_;
};

inline KmsFactory HookedKmsFactory(std::shared_ptr<KmsHooks> hooks) {
  return [hooks](KmsUse use, const std::string& folder,
                 const std::string& uid) -> absl::StatusOr<std::unique_ptr<Kms>> {
    LETHE_ASSIGN_OR_RETURN(std::unique_ptr<Kms> kms, MakeFileKms(use, folder, uid));
    return std::make_unique<HookedKms>(std::move(kms), hooks);
  };
}

}  // namespace lethe::store

#endif  // LETHE_TESTS_STORE_HOOKED_KMS_H_
