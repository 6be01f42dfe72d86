# Whole-program settings. Flags that change the ABI or the arithmetic (architecture, contraction,
# sanitizers) are global; warnings are per target (LetheTargets.cmake).

option(LETHE_TESTS "Build the tests" ON)
option(LETHE_BENCHMARKS "Build lethe-bench" ON)
option(LETHE_FUZZ "Build the programs of libFuzzer (clang++; preset fuzz)" OFF)
option(LETHE_CUDA "Put the CUDA backend of the batched path into programs (preset cuda)" OFF)
set(LETHE_MARCH "x86-64-v3" CACHE STRING "Value of -march for every target; empty for none")
set(LETHE_SANITIZE "" CACHE STRING "Value of -fsanitize for every target; empty for none")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

if(LETHE_MARCH)
  add_compile_options(-march=${LETHE_MARCH})
endif()
# A product and a sum must not become one fused operation behind our back: double-double arithmetic
# and the published error bounds count roundings (docs/math.md, section 4).
add_compile_options(-ffp-contract=off)
if(LETHE_SANITIZE)
  add_compile_options(-fsanitize=${LETHE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LETHE_SANITIZE})
  if(LETHE_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
endif()

find_program(LETHE_CCACHE ccache)
if(LETHE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${LETHE_CCACHE}")
endif()
find_program(LETHE_MOLD mold)
if(LETHE_MOLD)
  # g++ 12 knows -fuse-ld=mold; clang 14 does too.
  add_link_options(-fuse-ld=mold)
endif()
