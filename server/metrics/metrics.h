// What the server shows of itself, in the text format of Prometheus. docs/monitoring.md lists every
// metric; a test holds it against a running server.
//
// Names of methods, codes, tenants (where asked for) and a few fixed words are labels; subjects,
// token ids and callers never are. The number of series is bounded: by methods and codes, and by
// how many tenants may be shown.
//
// Threads: safe. Cost: of a call, two counters and a histogram; of Text, O(tenants) and some reads
// of /proc.
#ifndef LETHE_SERVER_METRICS_METRICS_H_
#define LETHE_SERVER_METRICS_METRICS_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "core/program/event_log.h"
#include "server/service/call_observer.h"
#include "server/service/service.h"

namespace lethe::metrics {

struct MetricsOptions {
  // So many of the open tenants, those with the most tokens, are shown by name.
  size_t tenants = 0;
};

class Metrics final : public service::CallObserver {
 public:
  // Both outlive this.
  Metrics(service::Service* service, const program::EventLog* log, const MetricsOptions& options);
  ~Metrics() override;

  service::MethodObserver* ForMethod(absl::string_view service,
                                     absl::string_view method,
                                     bool stream) override;

  // What only the program knows.
  void SetServing(bool serving);           // whether health says so
  void SetFoldersWritable(bool writable);  // Service::CheckFolders
  void Reloaded(bool succeeded);           // a reload of the settings

  std::string Text() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lethe::metrics

#endif  // LETHE_SERVER_METRICS_METRICS_H_
