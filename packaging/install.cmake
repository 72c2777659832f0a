# `cmake --install`: the two executables, the default configuration, and the agent as a library: find_package(bide) gives
# bide::bide, and <bide.h> says the rest.
set(BIDE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/bide)
set(bide_floors bide_base bide_db bide_kernel bide_flow bide_work bide_web bide_cli)
foreach(floor ${bide_floors})
  string(REGEX REPLACE "^bide_" "" name ${floor})
  set_target_properties(${floor} PROPERTIES EXPORT_NAME ${name})
endforeach()
set_target_properties(bide_cli PROPERTIES EXPORT_NAME bide)
add_library(bide::bide ALIAS bide_cli)

install(TARGETS bide bide-agent RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES packaging/bide.toml DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY packaging/examples DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS)
set(bindir ${CMAKE_INSTALL_FULL_BINDIR})
set(docdir ${CMAKE_INSTALL_FULL_DOCDIR})
configure_file(packaging/systemd/bide.service.in ${CMAKE_BINARY_DIR}/systemd/system/bide.service @ONLY)
configure_file(packaging/systemd/bide-user.service.in ${CMAKE_BINARY_DIR}/systemd/user/bide.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/systemd/system/bide.service DESTINATION lib/systemd/system)
install(FILES ${CMAKE_BINARY_DIR}/systemd/user/bide.service DESTINATION lib/systemd/user)
install(TARGETS ${bide_floors} EXPORT bide ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/bide)
install(EXPORT bide NAMESPACE bide:: FILE bideTargets.cmake DESTINATION ${BIDE_PACKAGE_DIR})

# What <bide.h> includes, and nothing else: the example outside of the tree shows that it is enough.
install(FILES agent/bide.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bide)
foreach(header agent/config.h agent/service.h agent/base/errors.h agent/base/ids.h agent/base/limits.h agent/base/log.h
        agent/base/process_tree.h
        agent/base/time.h agent/flow/ask.h agent/flow/context.h agent/flow/registry.h agent/flow/undo.h
        agent/kernel/states.h agent/kernel/usage_numbers.h db/durability.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bide/${folder})
endforeach()

include(CMakePackageConfigHelpers)
configure_package_config_file(packaging/bideConfig.cmake.in ${CMAKE_BINARY_DIR}/bideConfig.cmake
  INSTALL_DESTINATION ${BIDE_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/bideConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/bideConfig.cmake ${CMAKE_BINARY_DIR}/bideConfigVersion.cmake
  DESTINATION ${BIDE_PACKAGE_DIR})
