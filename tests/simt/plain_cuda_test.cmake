# SPDX-License-Identifier: Apache-2.0
# Runs the plain CUDA program and counts what the thread sanitizer reports. Input: PROGRAM, VARIANT, RACES.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${PROGRAM} ${VARIANT} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX MATCHALL "WARNING: ThreadSanitizer: [^(\n]*" reports "${output}")
list(LENGTH reports count)
foreach(report IN LISTS reports)
  if(NOT report STREQUAL "WARNING: ThreadSanitizer: data race ")
    message(FATAL_ERROR "not a data race: ${report}\n${output}")
  endif()
endforeach()
if(NOT count EQUAL RACES)
  message(FATAL_ERROR "${VARIANT}: ${count} races reported, expected ${RACES}; result ${result}\n${output}")
endif()
if(RACES GREATER 0)
  # The sanitizer's own exit code, and the report names the kernel's file.
  if(result EQUAL 0 OR NOT output MATCHES "reversed_and_summed.*plain_cuda\\.cpp:")
    message(FATAL_ERROR "${VARIANT}: result ${result}\n${output}")
  endif()
elseif(NOT result EQUAL 0)
  message(FATAL_ERROR "${VARIANT}: result ${result}\n${output}")
endif()
message(STATUS "${VARIANT}: ${count} races, as expected")
