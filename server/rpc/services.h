// The services of proto/lethe/v1: each handler converts, makes one call, converts back.
#ifndef LETHE_SERVER_RPC_SERVICES_H_
#define LETHE_SERVER_RPC_SERVICES_H_

#include <chrono>
#include <cstddef>

#include "lethe/v1/backup_service.grpc.pb.h"
#include "lethe/v1/certificate_service.grpc.pb.h"
#include "lethe/v1/erasure_service.grpc.pb.h"
#include "lethe/v1/job_service.grpc.pb.h"
#include "lethe/v1/memory_service.grpc.pb.h"
#include "lethe/v1/tenant_service.grpc.pb.h"
#include "lethe/v1/worker_service.grpc.pb.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/handlers.h"
#include "server/rpc/insert_stream.h"
#include "server/service/service.h"

namespace lethe::rpc {

// The service outlives the handlers.

class TenantHandlers final : public RawService<v1::TenantService::Service> {
 public:
  TenantHandlers(service::Service* service, const Shared& shared);
};

class ErasureHandlers final : public RawService<v1::ErasureService::Service> {
 public:
  ErasureHandlers(service::Service* service, const Shared& shared);
};

class MemoryHandlers final : public RawService<v1::MemoryService::Service> {
 public:
  // `max_streams` bounds the streams of each kind (InsertStream, QueryStream) that are open at
  // once. `start_thread` as ServerOptions::start_thread.
  MemoryHandlers(service::Service* service,
                 const Shared& shared,
                 size_t max_streams,
                 const StartThread& start_thread);

  void StopCalls() override;
  void WaitForCalls(std::chrono::system_clock::time_point deadline) override;

 private:
  CallRegistry insert_streams_;
  CallRegistry query_streams_;
};

class CertificateHandlers final : public RawService<v1::CertificateService::Service> {
 public:
  // `max_exports` bounds the exports that run at once; one whose reader takes nothing for
  // `max_write` is cancelled.
  CertificateHandlers(service::Service* service,
                      const Shared& shared,
                      size_t max_exports,
                      absl::Duration max_write);

  void StopCalls() override;
  void WaitForCalls(std::chrono::system_clock::time_point deadline) override;

 private:
  CallRegistry exports_;
};

class BackupHandlers final : public RawService<v1::BackupService::Service> {
 public:
  // `max_backups` bounds the backups that run at once, and the restores; one whose other side takes
  // or sends nothing for `max_pause` is cancelled.
  BackupHandlers(service::Service* service,
                 const Shared& shared,
                 size_t max_backups,
                 absl::Duration max_pause);

  void StopCalls() override;
  void WaitForCalls(std::chrono::system_clock::time_point deadline) override;

 private:
  CallRegistry backups_;
  CallRegistry restores_;
};

class JobHandlers final : public RawService<v1::JobService::Service> {
 public:
  // `max_streams` bounds the watches, and the downloads, that are open at once; one whose reader
  // takes nothing for `max_write` is cancelled.
  JobHandlers(service::Service* service,
              const Shared& shared,
              size_t max_streams,
              absl::Duration max_write);

  void StopCalls() override;
  void WaitForCalls(std::chrono::system_clock::time_point deadline) override;

 private:
  service::Service* const service_;
  CallRegistry watches_;
  CallRegistry downloads_;
};

class WorkerHandlers final : public RawService<v1::WorkerService::Service> {
 public:
  // `max_streams` bounds the streams of all workers together; one whose other side takes or sends
  // nothing for `max_pause` is cancelled.
  WorkerHandlers(service::Service* service,
                 const Shared& shared,
                 size_t max_streams,
                 absl::Duration max_pause);

  void StopCalls() override;
  void WaitForCalls(std::chrono::system_clock::time_point deadline) override;

 private:
  CallRegistry streams_;
};

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_SERVICES_H_
