# SPDX-License-Identifier: Apache-2.0
# What the scripts of cases/ share: running the program and looking at what it wrote.
#   REPLAY     the program
#   DATA_DIR   where mooncake/, azure/ and sharegpt/ are, unless the environment variable PAGODA_TEST_DATA names another
#              folder
#   WORK_DIR   a directory of the case's own
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})

# run(ARG...): sets exit_code, output and errors.
function(run)
  execute_process(COMMAND ${REPLAY} ${ARGN} RESULT_VARIABLE exit_code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  set(exit_code "${exit_code}" PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
  set(errors "${errors}" PARENT_SCOPE)
endfunction()

# run_well(ARG...): as run, but fails the test unless the program succeeds, writes something, and warns of nothing.
macro(run_well)
  run(${ARGN})
  if(NOT exit_code STREQUAL "0" OR output STREQUAL "" OR NOT errors STREQUAL "")
    message(SEND_ERROR "replay ${ARGN}\nended with ${exit_code}:\n${errors}")
  endif()
endmacro()

# expect_refusal(REGEX ARG...): the program fails, writes no report, and each part of the regular expression is in the
# message.
function(expect_refusal message_regex)
  run(${ARGN})
  if(exit_code STREQUAL "0" OR NOT exit_code MATCHES "^[0-9]+$")
    message(SEND_ERROR "replay ${ARGN}\nended with ${exit_code}: ${errors}")
  endif()
  if(NOT output STREQUAL "")
    message(SEND_ERROR "replay ${ARGN}\nwrote a report although it is refused: ${output}")
  endif()
  if(NOT errors MATCHES "${message_regex}")
    message(SEND_ERROR "replay ${ARGN}\nshould say \"${message_regex}\", but says: ${errors}")
  endif()
endfunction()

# figure(KEY): sets `value` to the member KEY of the JSON object `output`.
macro(figure key)
  string(JSON value ERROR_VARIABLE json_fault GET "${output}" ${key})
  if(NOT json_fault STREQUAL "NOTFOUND")
    message(SEND_ERROR "\"${key}\" cannot be read: ${json_fault}\n${output}")
  endif()
endmacro()

# expect(KEY VALUE...): these members of the JSON object `output` are these.
function(expect)
  while(ARGN)
    list(POP_FRONT ARGN key wanted)
    figure(${key})
    if(NOT value STREQUAL wanted)
      message(SEND_ERROR "${key} is \"${value}\", and should be \"${wanted}\":\n${output}")
    endif()
  endwhile()
endfunction()

# expect_between(KEY LOW HIGH)
function(expect_between key low high)
  figure(${key})
  if(NOT (value GREATER_EQUAL ${low} AND value LESS_EQUAL ${high}))
    message(SEND_ERROR "${key} is ${value}, and should lie between ${low} and ${high}:\n${output}")
  endif()
endfunction()

# use_data(FOLDER SOURCE FILE...): sets `data` to the folder; ends the case as skipped if a file is not there.
macro(use_data folder source)
  if(DEFINED ENV{PAGODA_TEST_DATA})
    set(DATA_DIR $ENV{PAGODA_TEST_DATA})
  endif()
  set(data ${DATA_DIR}/${folder})
  foreach(name ${ARGN})
    if(NOT EXISTS ${data}/${name})
      message("[SKIPPED] ${data}/${name} is missing: get it from ${source} on GitHub, put it into DIRECTORY/${folder}, "
        "and set the environment variable PAGODA_TEST_DATA to DIRECTORY")
      return()
    endif()
  endforeach()
endmacro()
