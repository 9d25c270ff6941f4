# SPDX-License-Identifier: Apache-2.0
# The package files: find_package(pagoda) works on an install and on a build tree.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

target_include_directories(pagoda INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(pagoda_package_dir ${CMAKE_INSTALL_DATADIR}/cmake/pagoda)
configure_package_config_file(cmake/pagodaConfig.cmake.in pagodaConfig.cmake INSTALL_DESTINATION ${pagoda_package_dir})
configure_file(cmake/pagodaCuda.cmake pagodaCuda.cmake COPYONLY)
# Before 1.0 a minor version may change the API.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(pagoda_compatibility SameMinorVersion)
else()
  set(pagoda_compatibility SameMajorVersion)
endif()
write_basic_package_version_file(pagodaConfigVersion.cmake COMPATIBILITY ${pagoda_compatibility} ARCH_INDEPENDENT)

# Targets that link pagoda can be exported from a build tree even when nothing of pagoda is installed.
export(TARGETS pagoda NAMESPACE pagoda:: FILE ${PROJECT_BINARY_DIR}/pagodaTargets.cmake)

if(PAGODA_INSTALL)
  install(TARGETS pagoda EXPORT pagodaTargets)
  install(EXPORT pagodaTargets NAMESPACE pagoda:: DESTINATION ${pagoda_package_dir})
  install(FILES ${PROJECT_BINARY_DIR}/pagodaConfig.cmake ${PROJECT_BINARY_DIR}/pagodaConfigVersion.cmake
                ${PROJECT_BINARY_DIR}/pagodaCuda.cmake
          DESTINATION ${pagoda_package_dir})
  install(DIRECTORY include/pagoda DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inl" PATTERN "*.cuh")
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endif()
