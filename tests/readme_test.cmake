# SPDX-License-Identifier: Apache-2.0
# The README's program is the tested file, and its output is what that file prints.
# Usage: cmake -DREADME=<README.md> -DSOURCE=<readme.cpp> -DPROGRAM=<executable> -P readme_test.cmake
file(READ ${README} readme)
file(READ ${SOURCE} source)

function(take_block language result)
  string(FIND "${readme}" "```${language}\n" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "README.md has no ${language} block")
  endif()
  string(LENGTH "```${language}\n" length)
  math(EXPR begin "${begin} + ${length}")
  string(SUBSTRING "${readme}" ${begin} -1 rest)
  string(FIND "${rest}" "```" end)
  string(SUBSTRING "${rest}" 0 ${end} block)
  set(${result} "${block}" PARENT_SCOPE)
endfunction()

take_block(cpp program)
string(FIND "${source}" "#include" begin)
string(SUBSTRING "${source}" ${begin} -1 source)
if(NOT program STREQUAL source)
  message(FATAL_ERROR "The README's program differs from ${SOURCE}: copy the file from its first #include on")
endif()

take_block(text promised)
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT printed STREQUAL promised)
  message(FATAL_ERROR "The README promises\n${promised}but the program (status ${status}) prints\n${printed}")
endif()
