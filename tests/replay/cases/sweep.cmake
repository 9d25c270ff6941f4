# SPDX-License-Identifier: Apache-2.0
# Hit rates of all policies over capacities: the table, the JSON and the picture of a small trace.
include(${CMAKE_CURRENT_LIST_DIR}/../run_replay.cmake)
set(prompts ${WORK_DIR}/prompts.jsonl)
set(svg ${WORK_DIR}/sweep.svg)
set(sweep --trace ${prompts} --format mooncake --sweep)
file(WRITE ${prompts} "{\"hash_ids\": [10, 11, 12]}\n{\"hash_ids\": [10, 11, 13]}\n{\"hash_ids\": [20, 21]}
{\"hash_ids\": [10, 11, 12]}\n")

# From the longest request's 3 blocks to less than the 6 of all; without a limit there are 5 hits in 11 lookups.
run_well(${sweep} --svg ${svg})
string(JOIN "\n" table
  "^\\| capacity in blocks \\| lru \\| fifo \\| lfu \\| priority \\| never \\|" "(\\|---)+\\|"
  "\\| 3 \\| [^\n]* 0.4545 \\|"
  "\\| 5 \\| 0.3636 \\| [^\n]*" "\\| unlimited \\|( 0.4545 \\|)+\n$")
if(NOT output MATCHES "${table}")
  message(SEND_ERROR "the table is wrong:\n${output}")
endif()
file(READ ${svg} picture)
foreach(part "^<svg " "</svg>\n$" ">lru<" ">fifo<" ">lfu<" ">priority<" ">never<" ">without limit 0.455<" ">hit rate<"
    ">capacity in blocks<")
  if(NOT picture MATCHES "${part}")
    message(SEND_ERROR "the picture lacks ${part}:\n${picture}")
  endif()
endforeach()
# Rates reach to 0.5 over 450 units, capacities from 3 / 1.5 to 5 x 1.5 over 680: lru has 2 and 4 hits of 11.
if(NOT picture MATCHES "<polyline points=\"288.6,([0-9.]+) 551.4,162.7 \"")
  message(SEND_ERROR "the first line is wrong:\n${picture}")
endif()
string(REGEX MATCHALL "<polyline" lines "${picture}")
list(LENGTH lines count)
if(NOT count EQUAL 5)
  message(SEND_ERROR "there are ${count} lines for five policies")
endif()

# The runs of a JSON sweep are those of single replays, but for the time that they took.
run_well(${sweep} --json --capacity-blocks 4,3,4)
expect(trace ${prompts} format mooncake requests 4 skipped_lines 0)
string(JSON runs GET "${output}" runs)
string(JSON count LENGTH "${runs}")
if(NOT count EQUAL 15)
  message(SEND_ERROR "there are ${count} runs of five policies at two capacities and without a limit")
endif()
set(index 0)
foreach(capacity 3 4 "")
  foreach(policy lru fifo lfu priority never)
    set(limit "")
    if(capacity)
      set(limit --capacity-blocks ${capacity})
    endif()
    run_well(--trace ${prompts} --format mooncake --json --policy ${policy} ${limit})
    foreach(key policy capacity_blocks lookups hits evictions not_cached blocks hit_rate)
      figure(${key})
      string(JSON swept GET "${runs}" ${index} ${key})
      if(NOT swept STREQUAL value)
        message(SEND_ERROR "${key} of run ${index} is \"${swept}\", but alone \"${value}\"")
      endif()
    endforeach()
    math(EXPR index "${index} + 1")
  endforeach()
endforeach()

# No capacity lies between what the only request needs and what all need; there is a picture all the same.
file(WRITE ${prompts} "{\"hash_ids\": [1, 2]}\n")
run_well(${sweep} --svg ${svg})
file(READ ${svg} picture)
if(picture MATCHES "nan|inf" OR NOT picture MATCHES "</svg>\n$" OR
    NOT output MATCHES "---\\|\n\\| unlimited \\| 0.0000 ")
  message(SEND_ERROR "one request gives:\n${output}${picture}")
endif()

# The bar is for terminals: every other run of these tests finds standard error empty.
find_program(SCRIPT script)
if(SCRIPT)
  execute_process(COMMAND ${SCRIPT} -qec "'${REPLAY}' --trace '${prompts}' --format mooncake" /dev/null
    OUTPUT_VARIABLE output RESULT_VARIABLE exit_code)
  if(NOT exit_code STREQUAL "0" OR NOT output MATCHES "replay \\[####.* 100 %.*requests")
    message(SEND_ERROR "a terminal shows no bar, or no report: ${exit_code} ${output}")
  endif()
endif()
