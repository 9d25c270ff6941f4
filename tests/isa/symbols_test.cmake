# SPDX-License-Identifier: Apache-2.0
# The objects that were set apart define one symbol that others can see, the table; those that were not, more.
# Input: NM, APART and MIXED (lists of objects), PROGRAM.

cmake_minimum_required(VERSION 3.25)

# visible_symbols(file result): the names of the symbols that the file defines for others.
function(visible_symbols file result)
  execute_process(COMMAND ${NM} --defined-only --extern-only --format=posix ${file}
    OUTPUT_VARIABLE lines RESULT_VARIABLE failure)
  if(failure)
    message(FATAL_ERROR "${NM} ${file} failed")
  endif()
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  list(TRANSFORM lines REPLACE " .*" "")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

foreach(object IN LISTS APART)
  visible_symbols(${object} symbols)
  if(NOT symbols MATCHES "^kernels_avx[0-9]+$")
    message(FATAL_ERROR "${object} lets others see more than its table, or no table:\n${symbols}")
  endif()
endforeach()

foreach(object IN LISTS MIXED)
  visible_symbols(${object} symbols)
  if(NOT symbols MATCHES "work_plan")
    message(FATAL_ERROR "the control ${object} shares no copy of Pagoda's inline functions: this test proves nothing")
  endif()
endforeach()

visible_symbols(${PROGRAM} symbols)
if(NOT "kernels_avx2" IN_LIST symbols OR NOT "kernels_avx512" IN_LIST symbols)
  message(FATAL_ERROR "${PROGRAM} lacks a table:\n${symbols}")
endif()
list(FILTER symbols INCLUDE REGEX "[0-9]avx(2|512)")  # a mangled part of a name
if(symbols)
  message(FATAL_ERROR "${PROGRAM} has visible code of an instruction set:\n${symbols}")
endif()
