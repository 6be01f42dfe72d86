# Every dependency is a Debian 12 package (cmake/install-dependencies.sh); docs/adr gives a line of
# reason for each. Protobuf is found before gRPC so that gRPC keeps the result.

find_package(Threads REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(Eigen3 3.4 CONFIG REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto SSL)
find_package(Boost 1.74 REQUIRED)
find_package(CURL 7.85 REQUIRED)
find_package(SQLite3 3.40 REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(nlohmann_json 3.11 CONFIG REQUIRED)
find_package(CLI11 2.1 CONFIG REQUIRED)
find_package(tomlplusplus 3.3 CONFIG REQUIRED)

# By pkg-config: its CMake file also wants the HTTP server that comes with the whole library.
find_package(PkgConfig REQUIRED)
pkg_check_modules(prometheus_cpp REQUIRED IMPORTED_TARGET GLOBAL prometheus-cpp-core)
pkg_check_modules(prometheus_cpp_pull REQUIRED IMPORTED_TARGET GLOBAL prometheus-cpp-pull)

find_library(LETHE_MPFR_LIBRARY mpfr REQUIRED)
find_library(LETHE_GMP_LIBRARY gmp REQUIRED)
find_path(LETHE_MPFR_INCLUDE mpfr.h REQUIRED)
add_library(lethe_mpfr INTERFACE)
target_include_directories(lethe_mpfr SYSTEM INTERFACE "${LETHE_MPFR_INCLUDE}")
target_link_libraries(lethe_mpfr INTERFACE "${LETHE_MPFR_LIBRARY}" "${LETHE_GMP_LIBRARY}")

# Not by pkg-config: Debian's cjose.pc wants the headers of jansson, which nobody here includes.
find_library(LETHE_CJOSE_LIBRARY cjose REQUIRED)
find_path(LETHE_CJOSE_INCLUDE cjose/cjose.h REQUIRED)
add_library(lethe_cjose INTERFACE)
target_include_directories(lethe_cjose SYSTEM INTERFACE "${LETHE_CJOSE_INCLUDE}")
target_link_libraries(lethe_cjose INTERFACE "${LETHE_CJOSE_LIBRARY}")

if(LETHE_TESTS OR LETHE_FUZZ)
  find_package(GTest 1.12 CONFIG REQUIRED)
endif()
if(LETHE_BENCHMARKS)
  find_package(benchmark 1.7 CONFIG REQUIRED)
endif()
