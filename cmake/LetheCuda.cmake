# The CUDA compiler, where there is one, and lethe_cuda_objects for the few files that want it. By
# custom commands: the flags of our C++ (architecture, warnings, sanitizers) are not nvcc's.
#
#   LETHE_CUDA_COMPILES   whether the .cu files are compiled. Where nvcc is there they always are, so that
#                         they cannot rot; programs have the CUDA backend in them with LETHE_CUDA=ON.

find_program(LETHE_NVCC nvcc HINTS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin
  DOC "CUDA compiler, 12.8 or later for every architecture below")
if(LETHE_CUDA)
  set(architectures 80 90 100)
else()
  set(architectures 90)  # one is enough to see that they compile
endif()
set(LETHE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "Compute capabilities, without the point")

set(LETHE_CUDA_COMPILES OFF)
if(LETHE_NVCC)
  get_filename_component(cuda_root "${LETHE_NVCC}" REALPATH)
  get_filename_component(cuda_root "${cuda_root}" DIRECTORY)
  find_library(LETHE_CUDART cudart_static HINTS "${cuda_root}/.." PATH_SUFFIXES lib64 lib
    targets/x86_64-linux/lib)
  if(LETHE_CUDART)
    set(LETHE_CUDA_COMPILES ON)
  endif()
endif()
if(LETHE_CUDA AND NOT LETHE_CUDA_COMPILES)
  message(WARNING "LETHE_CUDA: no nvcc, or no libcudart_static.a beside it; the build goes on without the CUDA "
    "backend. Set CUDA_PATH or LETHE_NVCC to where the CUDA toolkit is.")
elseif(LETHE_CUDA)
  message(STATUS "CUDA backend: ${LETHE_NVCC}, architectures ${LETHE_CUDA_ARCHITECTURES}")
elseif(LETHE_CUDA_COMPILES)
  message(STATUS "CUDA backend: compiled and linked as a test alone (preset cuda puts it into programs)")
else()
  message(STATUS "CUDA backend: not compiled, there is no nvcc")
endif()

# lethe_cuda_objects(VARIABLE a.cu b.cu): the objects' paths.
function(lethe_cuda_objects variable)
  set(flags -std=c++20 -O3 --expt-relaxed-constexpr -Werror all-warnings -Xcompiler=-fPIC,-Wall,-Wextra
    -I ${PROJECT_SOURCE_DIR})
  list(GET LETHE_CUDA_ARCHITECTURES -1 newest)
  foreach(architecture IN LISTS LETHE_CUDA_ARCHITECTURES)
    list(APPEND flags -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  if(LETHE_CUDA)
    # For devices that are newer than all of these.
    list(APPEND flags -gencode arch=compute_${newest},code=compute_${newest})
  endif()
  set(launcher)
  if(LETHE_CCACHE)
    set(launcher ${LETHE_CCACHE})
  endif()
  set(objects)
  foreach(source IN LISTS ARGN)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${source}.o")
    add_custom_command(OUTPUT "${object}"
      COMMAND ${launcher} ${LETHE_NVCC} ${flags} -MD -MF ${object}.d -MT ${object}
        -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}" DEPFILE "${object}.d"
      COMMENT "nvcc ${source}" VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set(${variable} ${objects} PARENT_SCOPE)
endfunction()
