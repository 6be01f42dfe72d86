// The log of the server: core/program/event_log.h under the names that the service uses.
#ifndef LETHE_SERVER_SERVICE_EVENT_LOG_H_
#define LETHE_SERVER_SERVICE_EVENT_LOG_H_

#include "core/program/event_log.h"

namespace lethe::service {

using program::EventLog;
using program::LogField;
using program::LogLevel;
using program::LogLevelName;
using program::ParseLogLevel;

}  // namespace lethe::service

#endif  // LETHE_SERVER_SERVICE_EVENT_LOG_H_
