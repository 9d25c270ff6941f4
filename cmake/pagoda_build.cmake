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

# pagoda_need(package debian_package): finds a package that the tests and benchmarks are built with, or says what to do.
macro(pagoda_need package debian_package)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found: install it (Debian: apt-get install ${debian_package}), or configure "
      "with -D PAGODA_BUILD_TESTS=OFF -D PAGODA_BUILD_BENCH=OFF, as the preset quickstart does")
  endif()
endmacro()

# pagoda_add_executable(name source...): an executable of the project in <build>/bin.
function(pagoda_add_executable name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE pagoda_build)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin CXX_EXTENSIONS OFF)
endfunction()

# pagoda_add_generate_parts(): the library generate_parts, once, whether or not the examples are built.
function(pagoda_add_generate_parts)
  if(NOT TARGET generate_parts)
    add_subdirectory(${PROJECT_SOURCE_DIR}/examples/generate ${PROJECT_BINARY_DIR}/generate_parts)
  endif()
endfunction()

# pagoda_compile_lightly(target...): -O1 at most, for code that only tests run, whose speed matters less than the time to
# compile it. Builds with sanitizers have a level of their own.
function(pagoda_compile_lightly)
  if(NOT PAGODA_SANITIZE)
    foreach(target IN LISTS ARGN)
      target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O1>)  # behind the configuration's level, it counts
    endforeach()
  endif()
endfunction()
