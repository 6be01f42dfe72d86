# What `cmake --install` puts where, below CMAKE_INSTALL_PREFIX:
#   bin/                     lethed, lethe, lethe-verify, lethe-worker
#   lib/, include/lethe/     the client library; find_package(lethe CONFIG) gives lethe::client and, for
#                            tests with GoogleMock, lethe::client_mocks
#   share/lethe/proto/       the wire contract, for clients in other languages
#   share/lethe/deploy/      scripts that make backups and try them
#   share/man/, share/bash-completion/, share/zsh/
#   share/doc/lethe/         documents, sample settings, licence
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS lethed lethe lethe-verify lethe-worker RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

# The client. Only what a user includes; the rest of client/ and core/ is ours.
set(LETHE_CLIENT_HEADERS
  client/async_client.h client/client.h client/connection.h client/erasure_types.h client/insert_writer.h
  client/job_types.h client/options.h
  client/query_stream.h client/retry.h client/stream_range.h client/types.h
  client/mocks/mock_connection.h core/base/mutex.h core/jobs/job_config.h)
foreach(header IN LISTS LETHE_CLIENT_HEADERS)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES "${PROJECT_SOURCE_DIR}/${header}"
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lethe/${folder}")
endforeach()
add_library(lethe_client_mocks INTERFACE)
target_link_libraries(lethe_client_mocks INTERFACE lethe_client)
foreach(name base client client_mocks jobs proto)
  set_target_properties(lethe_${name} PROPERTIES EXPORT_NAME ${name})
endforeach()
target_compile_features(lethe_client PUBLIC cxx_std_20)
install(TARGETS lethe_base lethe_client lethe_client_mocks lethe_jobs lethe_proto EXPORT lethe-targets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lethe")
set(package "${CMAKE_INSTALL_LIBDIR}/cmake/lethe")
install(EXPORT lethe-targets NAMESPACE lethe:: DESTINATION "${package}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/lethe-config.cmake.in"
  "${PROJECT_BINARY_DIR}/lethe-config.cmake" INSTALL_DESTINATION "${package}")
# Before 1.0 a minor version may change interfaces.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/lethe-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lethe-config.cmake"
  "${PROJECT_BINARY_DIR}/lethe-config-version.cmake" DESTINATION "${package}")

install(DIRECTORY "${PROJECT_SOURCE_DIR}/proto/lethe/v1"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/lethe/proto/lethe" FILES_MATCHING PATTERN "*.proto")

# What makes backups and tries them; it runs the programs by their names.
install(PROGRAMS deploy/backup.sh deploy/restore_drill.sh DESTINATION "${CMAKE_INSTALL_DATADIR}/lethe/deploy")
install(FILES deploy/lib/lethed.sh DESTINATION "${CMAKE_INSTALL_DATADIR}/lethe/deploy/lib")

# Made by the programs themselves.
set(shells "${PROJECT_BINARY_DIR}/share/completion")
file(MAKE_DIRECTORY "${shells}")
add_custom_command(OUTPUT "${shells}/lethe" "${shells}/_lethe"
  COMMAND lethe completion bash > "${shells}/lethe"
  COMMAND lethe completion zsh > "${shells}/_lethe"
  DEPENDS lethe COMMENT "completion of lethe" VERBATIM)
add_custom_target(lethe-completion ALL DEPENDS "${shells}/lethe" "${shells}/_lethe")
install(FILES "${shells}/lethe" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${shells}/_lethe" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")
install(DIRECTORY "${PROJECT_BINARY_DIR}/share/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}"
  PATTERN "*.new" EXCLUDE)

install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY client/examples DESTINATION "${CMAKE_INSTALL_DOCDIR}/client")
