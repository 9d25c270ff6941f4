# SPDX-License-Identifier: Apache-2.0
# Compiles umbrella.cu with nvcc. Without nvcc it says so, and CTest counts it as skipped.
# Input: SOURCE_DIR, NVCC, OBJECT.
cmake_minimum_required(VERSION 3.25)

if(NOT NVCC)
  message(STATUS "skipped: nvcc was not found")
  return()
endif()
execute_process(
  COMMAND ${NVCC} -std=c++20 -Werror all-warnings -I ${SOURCE_DIR}/include -c ${CMAKE_CURRENT_LIST_DIR}/umbrella.cu
          -o ${OBJECT}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${NVCC} does not compile the umbrella:\n${output}")
endif()
message(STATUS "${NVCC} compiles <pagoda/pagoda.hpp>")
