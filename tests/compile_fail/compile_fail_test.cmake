# SPDX-License-Identifier: Apache-2.0
# One case: CASE must not compile, and the compiler must say what each of its lines `// expected-error: <regex>` asks
# for. With PAGODA_CONTROL defined the same file must compile, so that it fails for the reason given and no other.
# The regex is one of CMake's: no {n}, no \d. Input: CXX_COMPILER, SOURCE_DIR, CASE.
cmake_minimum_required(VERSION 3.25)

file(STRINGS ${CASE} expectations REGEX "^// expected-error: ")
if(NOT expectations)
  message(FATAL_ERROR "${CASE} has no line `// expected-error: <regex>`")
endif()

set(command ${CXX_COMPILER} -std=c++20 -fsyntax-only -I ${SOURCE_DIR}/include)

execute_process(COMMAND ${command} -DPAGODA_CONTROL ${CASE} RESULT_VARIABLE result ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "with PAGODA_CONTROL it must compile, and does not:\n${output}")
endif()

execute_process(COMMAND ${command} ${CASE} RESULT_VARIABLE result ERROR_VARIABLE output)
if(result EQUAL 0)
  message(FATAL_ERROR "it must not compile, and does")
endif()
foreach(line IN LISTS expectations)
  string(REGEX REPLACE "^// expected-error: " "" expected "${line}")
  if(NOT output MATCHES "error: [^\n]*${expected}")
    message(FATAL_ERROR "no error matches\n  ${expected}\nThe compiler says:\n${output}")
  endif()
  message(STATUS "refused as expected: ${expected}")
endforeach()
