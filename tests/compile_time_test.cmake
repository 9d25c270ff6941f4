# SPDX-License-Identifier: Apache-2.0
# Compiles a file that includes the umbrella and nothing else, and prints the compiler's user time. No threshold.
# Input: CXX_COMPILER, SOURCE_DIR.
cmake_minimum_required(VERSION 3.25)

set(command ${CXX_COMPILER} -std=c++20 -fsyntax-only -I ${SOURCE_DIR}/include
  -x c++ -include pagoda/pagoda.hpp /dev/null)
# `times` prints what the shell used on its first line and what its children used on its second: user, system.
execute_process(COMMAND sh -c "\"$@\" && times" sh ${command}
  RESULT_VARIABLE result OUTPUT_VARIABLE times ERROR_VARIABLE errors)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the umbrella alone does not compile:\n${errors}")
endif()
string(REGEX MATCH "\n([0-9]+m[0-9.]+s)" line "${times}")
message(STATUS "#include <pagoda/pagoda.hpp>: ${CMAKE_MATCH_1} of user time")
