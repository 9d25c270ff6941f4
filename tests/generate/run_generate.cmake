# SPDX-License-Identifier: Apache-2.0
# What the scripts of cases/ share: running the program and looking at what it wrote.
#   GENERATE WRITE_TINY_FILES   the programs
#   DATA_DIR                    where stories260K/ is, unless the environment variable PAGODA_TEST_DATA says otherwise
#   WORK_DIR                    a directory of the case's own
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})

# run(ARG...): sets exit_code, errors and output, the last in hexadecimal so that every byte counts. If the variable
# `prompt` is set it is the prompt, whatever characters it holds.
function(run)
  if(DEFINED prompt)
    execute_process(COMMAND ${GENERATE} "--prompt=${prompt}" ${ARGN}
      OUTPUT_FILE ${WORK_DIR}/output ERROR_VARIABLE errors RESULT_VARIABLE exit_code)
  else()
    execute_process(COMMAND ${GENERATE} ${ARGN}
      OUTPUT_FILE ${WORK_DIR}/output ERROR_VARIABLE errors RESULT_VARIABLE exit_code)
  endif()
  file(READ ${WORK_DIR}/output output HEX)
  set(exit_code "${exit_code}" PARENT_SCOPE)
  set(errors "${errors}" PARENT_SCOPE)
  set(output "${output}" PARENT_SCOPE)
endfunction()

# run_well(ARG...): as run, but fails the test unless the program succeeds and writes something.
macro(run_well)
  run(${ARGN})
  if(NOT exit_code STREQUAL "0" OR output STREQUAL "")
    message(SEND_ERROR "generate ${ARGN}\nended with ${exit_code}:\n${errors}")
  endif()
endmacro()

# expect_text(HEX ARG...): the program succeeds and writes exactly these bytes.
macro(expect_text expected)
  run_well(${ARGN})
  if(NOT output STREQUAL "${expected}")
    message(SEND_ERROR "generate ${ARGN}\nwrote other bytes than expected, see ${WORK_DIR}/output")
    file(COPY_FILE ${WORK_DIR}/output ${WORK_DIR}/output_at_fault)
  endif()
endmacro()

# use_stories(): sets `files`, the arguments that name the trained model, and `expected`, its text in hexadecimal; ends
# the case as skipped if they are not there.
macro(use_stories)
  if(DEFINED ENV{PAGODA_TEST_DATA})
    set(DATA_DIR $ENV{PAGODA_TEST_DATA})
  endif()
  set(stories ${DATA_DIR}/stories260K)
  foreach(name stories260K.bin tok512.bin expected_t0_n200.txt)
    if(NOT EXISTS ${stories}/${name})
      message("[SKIPPED] ${stories}/${name} is missing: get stories260K.bin and tok512.bin from karpathy/tinyllamas on "
        "Hugging Face and the text from karpathy/llama2.c on GitHub, put them into DIRECTORY/stories260K, and set the "
        "environment variable PAGODA_TEST_DATA to DIRECTORY")
      return()
    endif()
  endforeach()
  set(files --model ${stories}/stories260K.bin --tokenizer ${stories}/tok512.bin)
  file(READ ${stories}/expected_t0_n200.txt expected HEX)
endmacro()
