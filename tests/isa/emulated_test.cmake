# SPDX-License-Identifier: Apache-2.0
# Runs a program on an emulated processor and compares how it ends. Input: QEMU, PROGRAM, CPU, EXPECTED (a regular
# expression of the output, or of what ended the program).
cmake_minimum_required(VERSION 3.25)
if(NOT QEMU)
  message(STATUS "[SKIPPED] qemu-x86_64 was not found (Debian: qemu-user)")
  return()
endif()
execute_process(COMMAND ${QEMU} -cpu ${CPU} ${PROGRAM} 100
  OUTPUT_VARIABLE output ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT "${result}" STREQUAL "0")
  string(APPEND output "${result}\n")
endif()
if(NOT output MATCHES "${EXPECTED}")
  message(FATAL_ERROR "on ${CPU} the program ended with ${result} and printed\n${output}${errors}")
endif()
message(STATUS "${CPU}: ${output}")
