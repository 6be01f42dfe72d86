# The CUDA compiler, where there is one, and lethe_cuda_objects for the few files that want it. By
# custom commands: the flags of our C++ (architecture, warnings, sanitizers) are not nvcc's.
#
#   LETHE_CUDA_COMPILES   whether the .cu files are compiled. Where nvcc is there and can they always are, so
#                         that they cannot rot; programs have the CUDA backend in them with LETHE_CUDA=ON.

find_program(LETHE_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin
  DOC "CUDA compiler, 12.8 or later for every architecture below")
# Empty in the cache unless somebody chose: a default that stood there would outlive the one that follows.
set(LETHE_CUDA_ARCHITECTURES "" CACHE STRING
  "Compute capabilities, without the point; empty: 80, 90 and 100 with LETHE_CUDA, else 90")

# The architectures of this configuration, the newest last.
if(LETHE_CUDA_ARCHITECTURES)
  set(lethe_cuda_architectures ${LETHE_CUDA_ARCHITECTURES})
elseif(LETHE_CUDA)
  set(lethe_cuda_architectures 80 90 100)
else()
  set(lethe_cuda_architectures 90)  # one is enough to see that they compile
endif()
foreach(architecture IN LISTS lethe_cuda_architectures)
  if(NOT architecture MATCHES "^[1-9][0-9]+[a-z]?$")
    message(FATAL_ERROR "LETHE_CUDA_ARCHITECTURES: \"${architecture}\" is no compute capability as nvcc has them (90)")
  endif()
endforeach()
list(SORT lethe_cuda_architectures COMPARE NATURAL)
list(GET lethe_cuda_architectures -1 lethe_cuda_newest)

set(lethe_cuda_flags -std=c++20 -O3 --expt-relaxed-constexpr -Werror all-warnings -Xcompiler=-fPIC,-Wall,-Wextra)
foreach(architecture IN LISTS lethe_cuda_architectures)
  list(APPEND lethe_cuda_flags -gencode arch=compute_${architecture},code=sm_${architecture})
endforeach()
if(LETHE_CUDA)
  # For devices that are newer than all of these.
  list(APPEND lethe_cuda_flags -gencode arch=compute_${lethe_cuda_newest},code=compute_${lethe_cuda_newest})
endif()

# Whether nvcc makes an object of C++20 with our flags; sets `variable` to why not, or to nothing. What has
# worked is tried again when the compiler or the flags are others.
function(_lethe_try_nvcc variable)
  get_filename_component(nvcc "${LETHE_NVCC}" REALPATH)
  file(TIMESTAMP "${nvcc}" changed)
  set(tried "${nvcc};${changed};$ENV{NVCC_CCBIN};$ENV{NVCC_PREPEND_FLAGS};$ENV{NVCC_APPEND_FLAGS};${lethe_cuda_flags}")
  set(${variable} "" PARENT_SCOPE)
  if("${LETHE_NVCC_TRIED}" STREQUAL "${tried}")
    return()
  endif()
  set(trial "${CMAKE_BINARY_DIR}/CMakeFiles/lethe_nvcc_trial")
  # A header of the host's library, in which its compiler counts, and a kernel.
  file(WRITE "${trial}.cu" [[
#include <concepts>
#include <span>
template <std::integral T>
__global__ void Fill(T* to) {
  *to = T{1};
}
template __global__ void Fill(int*);
std::size_t SizeOf(std::span<const int> numbers) { return numbers.size(); }
]])
  file(REMOVE "${trial}.o")
  execute_process(COMMAND "${LETHE_NVCC}" ${lethe_cuda_flags} -c "${trial}.cu" -o "${trial}.o"
    RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 120)
  if(result EQUAL 0 AND EXISTS "${trial}.o")
    set(LETHE_NVCC_TRIED "${tried}" CACHE INTERNAL "What nvcc has compiled with")
    return()
  endif()
  if(said MATCHES "unsupported (GNU|clang) version")
    set(why "the host compiler is newer than it knows (set NVCC_CCBIN to an older one, or take a newer CUDA)")
  elseif(said MATCHES "Value '[^']*' is not defined for option 'std'|(unrecognized|unknown)[^\n]*std=c\\+\\+20")
    set(why "it is too old for C++20 (CUDA 12.8 or later)")
  elseif(said MATCHES "Unsupported gpu architecture '([^']*)'")
    set(why "it does not know ${CMAKE_MATCH_1} (CUDA 12.8 or later knows 80 to 100; LETHE_CUDA_ARCHITECTURES chooses)")
  else()
    set(why "a small file does not compile (ended with: ${result})")
  endif()
  # Semicolons and lines would be CMake's own.
  string(REGEX MATCH "[^\n]*([Ee]rror|fatal)[^\n]*" line "${said}")
  if(line STREQUAL "")
    string(REGEX MATCH "[^\n]+" line "${said}")
  endif()
  set(${variable} "${why}: ${line}" PARENT_SCOPE)
endfunction()

set(LETHE_CUDA_COMPILES OFF)
set(lethe_cuda_why "there is no nvcc; set CUDA_PATH or LETHE_NVCC to where the CUDA toolkit is")
if(LETHE_NVCC)
  get_filename_component(cuda_root "${LETHE_NVCC}" REALPATH)
  get_filename_component(cuda_root "${cuda_root}" DIRECTORY)
  find_library(LETHE_CUDART cudart_static HINTS "${cuda_root}/.." PATH_SUFFIXES lib64 lib
    targets/x86_64-linux/lib)
  if(NOT LETHE_CUDART)
    set(lethe_cuda_why "there is no libcudart_static.a beside ${LETHE_NVCC}")
  else()
    _lethe_try_nvcc(why)
    if(why STREQUAL "")
      set(LETHE_CUDA_COMPILES ON)
    else()
      set(lethe_cuda_why "${LETHE_NVCC}: ${why}")
    endif()
  endif()
endif()
list(JOIN lethe_cuda_architectures ", " architectures)
if(LETHE_CUDA AND NOT LETHE_CUDA_COMPILES)
  message(WARNING "LETHE_CUDA: the build goes on without the CUDA backend: ${lethe_cuda_why}")
elseif(LETHE_CUDA)
  message(STATUS "CUDA backend: ${LETHE_NVCC}, architectures ${architectures}")
elseif(LETHE_CUDA_COMPILES)
  message(STATUS "CUDA backend: compiled for ${architectures} and linked as a test alone (preset cuda puts it into "
    "programs)")
else()
  message(STATUS "CUDA backend: not compiled: ${lethe_cuda_why}")
endif()

# lethe_cuda_objects(VARIABLE a.cu b.cu): the objects' paths.
function(lethe_cuda_objects variable)
  set(launcher)
  if(LETHE_CCACHE)
    set(launcher ${LETHE_CCACHE})
  endif()
  set(objects)
  foreach(source IN LISTS ARGN)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${source}.o")
    add_custom_command(OUTPUT "${object}"
      COMMAND ${launcher} ${LETHE_NVCC} ${lethe_cuda_flags} -I ${PROJECT_SOURCE_DIR} -MD -MF ${object}.d -MT ${object}
        -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}" DEPFILE "${object}.d"
      COMMENT "nvcc ${source}" VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()
