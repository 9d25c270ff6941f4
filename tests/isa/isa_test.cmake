# SPDX-License-Identifier: Apache-2.0
# Runs a test program if this processor has its instruction set. Input: ISA, PROCESSOR, PROGRAM.
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${PROCESSOR} ${ISA} RESULT_VARIABLE missing)
if(missing EQUAL 1)
  message(STATUS "[SKIPPED] this processor does not run ${ISA}")
  return()
elseif(NOT missing EQUAL 0)
  message(FATAL_ERROR "${PROCESSOR} ${ISA} ended with ${missing}")
endif()
execute_process(COMMAND ${PROGRAM} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${result}")
endif()
