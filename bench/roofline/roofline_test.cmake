# SPDX-License-Identifier: Apache-2.0
# The picture of a small file, and the refusal of every file that is none.
cmake_minimum_required(VERSION 3.25)
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR})

# run(JSON ARG...): sets exit_code and errors; the picture, if any, is in WORK_DIR/out.svg.
function(run json)
  file(WRITE ${WORK_DIR}/in.json "${json}")
  file(REMOVE ${WORK_DIR}/out.svg)
  execute_process(COMMAND ${ROOFLINE} ${ARGN} ${WORK_DIR}/in.json ${WORK_DIR}/out.svg TIMEOUT 10
    RESULT_VARIABLE exit_code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  set(exit_code "${exit_code}" PARENT_SCOPE)
  set(errors "${errors}" PARENT_SCOPE)
endfunction()

# expect_picture(REGEX...): the last run succeeded, and the picture has all of this, no point beyond its top or left.
function(expect_picture)
  if(NOT exit_code STREQUAL "0" OR NOT EXISTS ${WORK_DIR}/out.svg)
    message(FATAL_ERROR "roofline ended with ${exit_code}: ${errors}")
  endif()
  file(READ ${WORK_DIR}/out.svg picture)
  foreach(part IN LISTS ARGN)
    if(NOT picture MATCHES "${part}")
      message(SEND_ERROR "the picture lacks ${part}:\n${picture}")
    endif()
  endforeach()
  if(picture MATCHES "<circle c[xy]=\"-|<circle cx=\"[0-9.]+\" cy=\"-")
    message(SEND_ERROR "a point lies outside the picture:\n${picture}")
  endif()
  string(REGEX MATCHALL "<circle" circles "${picture}")
  list(LENGTH circles count)
  set(points ${count} PARENT_SCOPE)
endfunction()

function(expect_refusal message_regex json)
  run("${json}" ${ARGN})
  if(NOT exit_code STREQUAL "1" OR NOT errors MATCHES "^roofline: .*${message_regex}" OR EXISTS ${WORK_DIR}/out.svg)
    message(SEND_ERROR "${json}\nended with ${exit_code} and should say \"${message_regex}\", but says: ${errors}")
  endif()
endfunction()

set(name "decode/host/kv:half/group:1/threads:1")
set(machine [["read_probe": 1e10, "fma_peak": 1e11]])
set(half "{\"name\": \"decode/host/kv:half/group:1/threads:1\", \"run_type\": \"iteration\",
  \"flops\": 5e9, \"bytes_per_second\": 5e9, ${machine}}")
set(int8 "{\"name\": \"decode/host/kv:int8/group:4/threads:1\", \"run_type\": \"iteration\",
  \"flops\": 2e10, \"bytes_per_second\": 5e9, ${machine}}")
set(other [[{"name": "manager/plan/sequences:16", "run_type": "iteration", "items_per_second": 1e6}]])

# The axes reach from 0.5 to 40 flop per byte and from 2.5 G to 200 Gflop/s over 780 and 480 units: 1 and 5 G lie ln 2 of
# ln 80 from the corner, 4 and 20 G ln 8.
run("{\"benchmarks\": [${half}, ${other}, ${int8}]}")
expect_picture("^<svg " "</svg>\n$" "read probe 10 GB/s" "FMA peak 100 Gflop/s"
  "cx=\"213.4\" cy=\"454.1\"[^\n]*\n[^\n]*>half G1<" "cx=\"460.1\" cy=\"302.2\"[^\n]*\n[^\n]*>int8 G4<")
if(NOT points EQUAL 2)
  message(SEND_ERROR "there are ${points} points for two benchmarks")
endif()
run("{\"benchmarks\": [${half}, ${int8}]}" --match kv:int8)
expect_picture(">int8 G4<")
if(NOT points EQUAL 1)
  message(SEND_ERROR "--match left ${points} points")
endif()

# Of repetitions the medians count, and no other aggregate.
string(REPLACE "\"run_type\": \"iteration\"" "\"run_name\": \"decode/host/kv:half/group:1/threads:1\",
  \"run_type\": \"aggregate\", \"aggregate_name\": \"median\"" median "${half}")
string(REPLACE "median" "mean" mean "${median}")
run("{\"benchmarks\": [${half}, ${half}, ${mean}, ${median}]}")
expect_picture(">half G1<")

expect_refusal("no JSON, see byte" "")
expect_refusal("no JSON, see byte" "{\"benchmarks\": [${half}")
expect_refusal("no list \"benchmarks\"" "[]")
expect_refusal("no list \"benchmarks\"" "{}")
expect_refusal("no list \"benchmarks\"" "{\"benchmarks\": 3}")
expect_refusal("entry of \"benchmarks\" is 7" "{\"benchmarks\": [7]}")
# Nested deeper than a stack could follow.
string(REPEAT "[" 300000 begin)
string(REPEAT "]" 300000 end)
expect_refusal("entry of \"benchmarks\" is a list, but must be an object" "{\"benchmarks\": [${begin}${end}]}")
string(REPLACE "\"flops\": 5e9" "\"flops\": ${begin}${end}" deep "${half}")
expect_refusal("counter \"flops\" of benchmark \"${name}\" is a list, but must be a number" "{\"benchmarks\": [${deep}]}")
expect_refusal("no benchmark has \"decode/host/\"" "{\"benchmarks\": []}")
expect_refusal("no benchmark has \"kv:int4\"" "{\"benchmarks\": [${half}]}" --match kv:int4)
expect_refusal("two benchmarks are of kv half and group 1" "{\"benchmarks\": [${half}, ${half}]}")
expect_refusal("no \"kv:\" in its name" "{\"benchmarks\": [${other}]}" --match manager)
string(REPLACE "\"flops\"" "\"flips\"" lacking "${half}")
expect_refusal("no counter \"flops\"" "{\"benchmarks\": [${lacking}]}")
foreach(value 0 -1 null "\"fast\"" "[1]")
  string(REPLACE "\"flops\": 5e9" "\"flops\": ${value}" wrong "${half}")
  expect_refusal("in.json: counter \"flops\" of benchmark \"${name}\" is .*must be a number from 1 to 1e\\+18: run"
    "{\"benchmarks\": [${wrong}]}")
endforeach()

# Numbers that no machine reaches: an axis of the picture would have no end.
foreach(counter flops bytes_per_second read_probe fma_peak)
  foreach(value 1e308 1e-310 1e300 1e-300 0.5 1e19 5e-324)
    string(REGEX REPLACE "\"${counter}\": [0-9e]+" "\"${counter}\": ${value}" wrong "${half}")
    expect_refusal("in.json: counter \"${counter}\" of benchmark \"${name}\" is [0-9.e+-]+, but must be a number from 1 to "
      "{\"benchmarks\": [${int8}, ${wrong}]}")
  endforeach()
  string(REGEX REPLACE "\"${counter}\": [0-9e]+" "\"${counter}\": 1e999" wrong "${half}")
  expect_refusal("in.json: benchmark \"${name}\": .*1e999.*: run it again, or mend the number"
    "{\"benchmarks\": [${int8}, ${wrong}]}")
endforeach()
string(REPLACE "\"flops\": 5e9, \"bytes_per_second\": 5e9" "\"flops\": 1e18, \"bytes_per_second\": 1" wrong "${half}")
expect_refusal("benchmark \"${name}\" has \"flops\" 1e\\+18 and \"bytes_per_second\" 1, which is 1e\\+18 flop per byte.*1e-06 and"
  "{\"benchmarks\": [${wrong}]}")
string(REPLACE "1e10, \"fma_peak\": 1e11" "1e18, \"fma_peak\": 10" wrong "${half}")
expect_refusal("\"fma_peak\" 10 and \"read_probe\" 1e\\+18, which is 1e-17 flop per byte" "{\"benchmarks\": [${wrong}]}")
# The furthest that is drawn.
string(REPLACE "\"flops\": 5e9, \"bytes_per_second\": 5e9" "\"flops\": 1e18, \"bytes_per_second\": 1e12" far "${half}")
string(REPLACE "1e10, \"fma_peak\": 1e11" "1e6, \"fma_peak\": 1" far "${far}")
run("{\"benchmarks\": [${far}]}")
expect_picture(">half G1<" "read probe 1 MB/s")

expect_refusal("in.json: the input: .*1e999" "{\"context\": 1e999}")

foreach(value "\"yes\"" null 1 "[]")
  string(REPLACE "\"flops\"" "\"error_occurred\": ${value}, \"flops\"" wrong "${half}")
  expect_refusal("in.json: \"error_occurred\" of benchmark \"${name}\" is .*, but must be true or false"
    "{\"benchmarks\": [${wrong}]}")
endforeach()
string(REPLACE "\"flops\"" "\"error_occurred\": false, \"flops\"" fine "${half}")
run("{\"benchmarks\": [${fine}]}")
expect_picture(">half G1<")
string(REPLACE "\"flops\"" "\"error_occurred\": true, \"error_message\": \"out of memory\", \"flops\"" failed "${half}")
expect_refusal("failed: out of memory" "{\"benchmarks\": [${failed}]}")
expect_refusal("\"--color\" is no option" "{}" --color red)

foreach(path ${WORK_DIR}/missing.json ${WORK_DIR})
  execute_process(COMMAND ${ROOFLINE} ${path} ${WORK_DIR}/out.svg RESULT_VARIABLE exit_code ERROR_VARIABLE errors)
  if(NOT exit_code STREQUAL "1" OR NOT errors MATCHES "cannot read ${path}: pass a file of")
    message(SEND_ERROR "${path} ended with ${exit_code}: ${errors}")
  endif()
endforeach()
file(WRITE ${WORK_DIR}/in.json "{\"benchmarks\": [${half}]}")
execute_process(COMMAND ${ROOFLINE} ${WORK_DIR}/in.json ${WORK_DIR} RESULT_VARIABLE exit_code ERROR_VARIABLE errors)
if(NOT exit_code STREQUAL "1" OR NOT errors MATCHES "cannot write ${WORK_DIR}: pass another file")
  message(SEND_ERROR "a directory for the picture ended with ${exit_code}: ${errors}")
endif()
execute_process(COMMAND ${ROOFLINE} ${WORK_DIR}/in.json ${WORK_DIR}/in.json RESULT_VARIABLE exit_code ERROR_VARIABLE errors)
file(READ ${WORK_DIR}/in.json kept)
if(NOT exit_code STREQUAL "1" OR NOT errors MATCHES "in.json is the input: pass another file" OR NOT kept MATCHES "^{")
  message(SEND_ERROR "the input as the picture ended with ${exit_code}: ${errors}")
endif()
