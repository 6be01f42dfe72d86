# lethe_library(NAME SOURCES a.cc b.cc DEPS x y)     a static library of ours
# lethe_binary(NAME SOURCES main.cc DEPS x y)        a program in build/<preset>/bin
# lethe_test(NAME SOURCES a_test.cc DEPS x [LABELS grpc] [OPTIMIZED])   one GoogleTest program,
#                                                        found by ctest; OPTIMIZED: it computes much itself
# lethe_manual(PROGRAM SECTION SOURCES main.cc DEPS x)   share/man/man<section>/program.<section> in the
#                                                        build, printed by a program made for it
# All compile with our warnings as errors; includes start at the repository root.

add_library(lethe_warnings INTERFACE)
target_compile_options(lethe_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wcast-qual
  -Wnon-virtual-dtor -Woverloaded-virtual -Wdouble-promotion -Wextra-semi -Wimplicit-fallthrough
  # Designated initialisers leave the rest to the members' own defaults, which is what they are for.
  -Wno-missing-field-initializers
  -Werror
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(LETHE_SANITIZE)
  # What a sanitizer adds makes g++ take initialised members for uninitialised ones (its manual says so).
  target_compile_options(lethe_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

function(_lethe_common target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:lethe_warnings>)
endfunction()

function(lethe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  _lethe_common(${name})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS})
endfunction()

function(lethe_binary name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  _lethe_common(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

function(lethe_manual program section)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  set(printer ${program}-manual)
  add_executable(${printer} ${ARG_SOURCES})
  _lethe_common(${printer})
  target_link_libraries(${printer} PRIVATE ${ARG_DEPS})
  set_target_properties(${printer} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  set(folder "${PROJECT_BINARY_DIR}/share/man/man${section}")
  set(page "${folder}/${program}.${section}")
  file(MAKE_DIRECTORY "${folder}")
  add_custom_command(OUTPUT "${page}"
    COMMAND ${printer} > "${page}.new"
    COMMAND ${CMAKE_COMMAND} -E rename "${page}.new" "${page}"
    DEPENDS ${printer} COMMENT "${program}(${section})" VERBATIM)
  add_custom_target(${program}-page ALL DEPENDS "${page}")
endfunction()

function(lethe_test name)
  cmake_parse_arguments(ARG "OPTIMIZED" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  _lethe_common(${name})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    LETHE_SOURCE_DIR="${PROJECT_SOURCE_DIR}" LETHE_BINARY_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  # Half of a build's time goes into tests, and most of that into optimising what runs once. What
  # they test is built as it is published.
  if(NOT ARG_OPTIMIZED)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()
