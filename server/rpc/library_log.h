// What gRPC has to say, in the server's log: errors as warnings, at most 20 lines a second, since
// anybody who can connect can cause them (a handshake that fails is one); all else at debug.
#ifndef LETHE_SERVER_RPC_LIBRARY_LOG_H_
#define LETHE_SERVER_RPC_LIBRARY_LOG_H_

#include "core/program/event_log.h"

namespace lethe::rpc {

// For the process. `log` must outlive every use of gRPC. Before its first thread.
void LogGrpcTo(program::EventLog* log);

}  // namespace lethe::rpc

#endif  // LETHE_SERVER_RPC_LIBRARY_LOG_H_
