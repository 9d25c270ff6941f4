# SPDX-License-Identifier: Apache-2.0
# How the project builds its own executables. Nothing here reaches a target that links pagoda::pagoda.
find_package(Threads REQUIRED)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

add_library(pagoda_warnings INTERFACE)
target_compile_options(pagoda_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion $<$<BOOL:${PAGODA_WERROR}>:-Werror>)

add_library(pagoda_build INTERFACE)
target_link_libraries(pagoda_build INTERFACE pagoda::pagoda pagoda_warnings Threads::Threads)
if(PAGODA_NATIVE)
  target_compile_options(pagoda_build INTERFACE -march=native)
endif()
if(PAGODA_SANITIZE)
  set(pagoda_sanitizers -fsanitize=${PAGODA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(pagoda_build INTERFACE ${pagoda_sanitizers})
  target_link_options(pagoda_build INTERFACE ${pagoda_sanitizers})
endif()

# pagoda_add_executable(name source...): an executable of the project in <build>/bin.
function(pagoda_add_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE pagoda_build)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin CXX_EXTENSIONS OFF)
endfunction()
