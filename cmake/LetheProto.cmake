# lethe_proto_library(NAME PROTOS lethe/v1/a.proto ... [GRPC])
# Generates C++ from protos under proto/ and compiles it without our warnings. Including a generated
# header is a SYSTEM include, so that it cannot break a build with warnings as errors. With GRPC the
# service stubs are generated too, with mocks.

function(lethe_proto_library name)
  cmake_parse_arguments(ARG "GRPC" "" "PROTOS" ${ARGN})
  set(root "${PROJECT_SOURCE_DIR}/proto")
  set(out "${PROJECT_BINARY_DIR}/generated")
  file(MAKE_DIRECTORY "${out}")
  set(sources)
  foreach(proto IN LISTS ARG_PROTOS)
    string(REGEX REPLACE "\\.proto$" "" stem "${proto}")
    set(produced "${out}/${stem}.pb.cc" "${out}/${stem}.pb.h")
    set(arguments --cpp_out=${out})
    if(ARG_GRPC)
      list(APPEND produced "${out}/${stem}.grpc.pb.cc" "${out}/${stem}.grpc.pb.h"
        "${out}/${stem}_mock.grpc.pb.h")
      list(APPEND arguments --grpc_out=generate_mock_code=true:${out}
        --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
    endif()
    add_custom_command(
      OUTPUT ${produced}
      COMMAND protobuf::protoc -I ${root} ${arguments} ${root}/${proto}
      DEPENDS ${root}/${proto}
      COMMENT "protoc ${proto}"
      VERBATIM)
    list(APPEND sources ${produced})
  endforeach()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} SYSTEM PUBLIC $<BUILD_INTERFACE:${out}>)
  target_link_libraries(${name} PUBLIC protobuf::libprotobuf)
  if(ARG_GRPC)
    target_link_libraries(${name} PUBLIC gRPC::grpc++)
  endif()
endfunction()
