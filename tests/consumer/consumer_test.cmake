# SPDX-License-Identifier: Apache-2.0
# Builds and runs a project that uses Pagoda: from its sources, from an install and from the build tree. A version that
# is too high must be refused. With nvcc, also one that launches kernels, with both CUDA runtimes; without the toolkit,
# the component cuda must be refused.
# Input: CXX_COMPILER, SOURCE_DIR, BUILD_DIR, WORK_DIR, GENERATOR, VERSION, and NVCC, which may be false.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK_DIR})

# run(command...): runs it and stops the test if it fails.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
endfunction()

# configure(name source [-D...]): the command line that configures one consumer, in `configure_command`.
macro(configure name source)
  set(configure_command ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/${source} -B ${WORK_DIR}/${name}
    -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX_COMPILER}
    -D CMAKE_BUILD_TYPE=Debug -D CMAKE_CXX_FLAGS_DEBUG=-O0 ${ARGN})
endmacro()

function(build_and_run name source)
  configure(${name} ${source} ${ARGN})
  run(${configure_command})
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/${name} --config Debug)
  find_program(consumer consumer PATHS ${WORK_DIR}/${name} ${WORK_DIR}/${name}/Debug NO_DEFAULT_PATH NO_CACHE REQUIRED)
  run(${consumer})
  message(STATUS "${name}: built and run")
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)

build_and_run(subdirectory add_subdirectory -D PAGODA_SOURCE_DIR=${SOURCE_DIR})
build_and_run(installed find_package -D PAGODA_PREFIX=${WORK_DIR}/prefix -D WANTED_VERSION=${VERSION})
build_and_run(build_tree find_package -D PAGODA_PREFIX=${BUILD_DIR} -D WANTED_VERSION=${VERSION})

configure(refused find_package -D PAGODA_PREFIX=${WORK_DIR}/prefix -D WANTED_VERSION=99.0)
execute_process(COMMAND ${configure_command} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "find_package(pagoda 99.0) was accepted")
endif()
# CMake names what was found and why it does not do.
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(NOT output MATCHES "compatible with requested version \"99\\.0\"" OR
   NOT output MATCHES "pagodaConfig.cmake, version: ${VERSION}")
  message(FATAL_ERROR "find_package(pagoda 99.0) was refused for another reason:\n${output}")
endif()
message(STATUS "version 99.0: refused")

if(NVCC)
  build_and_run(cuda_static cuda -D PAGODA_PREFIX=${WORK_DIR}/prefix -D PAGODA_CUDART=static)
  build_and_run(cuda_shared cuda -D PAGODA_PREFIX=${BUILD_DIR} -D PAGODA_CUDART=shared)
endif()
configure(cuda_refused cuda -D PAGODA_PREFIX=${WORK_DIR}/prefix -D CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
execute_process(COMMAND ${configure_command} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(result EQUAL 0 OR NOT output MATCHES "component cuda needs the CUDA toolkit, 12 or newer, with nvcc")
  message(FATAL_ERROR "find_package(pagoda COMPONENTS cuda) without a toolkit was not refused as such:\n${output}")
endif()
message(STATUS "component cuda without a toolkit: refused")
