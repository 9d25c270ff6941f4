# SPDX-License-Identifier: Apache-2.0
# Every command line that cannot be is refused: no report, a code that is not 0, and a message that names what is wrong.
include(${CMAKE_CURRENT_LIST_DIR}/../run_replay.cmake)
set(prompts ${WORK_DIR}/prompts.jsonl)
set(lengths ${WORK_DIR}/lengths.csv)
file(WRITE ${prompts} "{\"hash_ids\": [1]}\n{\"hash_ids\": [1, 2, 3]}\n{\"hash_ids\": [1, 2]}\n")
file(WRITE ${lengths} "TIMESTAMP,ContextTokens,GeneratedTokens\nx,10,10\nx,40,9\n")
set(mooncake --trace ${prompts} --format mooncake)
set(azure --trace ${lengths} --format azure)

# What is refused below works otherwise.
run_well(${mooncake} --capacity-blocks 3 --policy priority --block-tokens 1)
run_well(${azure} --capacity-blocks 4 --block-tokens 16)
run(${azure} --policy never)
if(NOT exit_code STREQUAL "0" OR NOT errors MATCHES "--policy changes nothing here")
  message(SEND_ERROR "a policy for requests that share nothing should be noted, but it ended with ${exit_code}: ${errors}")
endif()
run_well(${mooncake} --sweep --capacity-blocks 3,4 --svg ${WORK_DIR}/sweep.svg)

expect_refusal("--trace is required" --format mooncake)
expect_refusal("--format is required" --trace ${prompts})
expect_refusal("not expected:.*--colour" ${mooncake} --colour red)
expect_refusal("not expected: more" ${mooncake} more)
foreach(format Mooncake csv)
  expect_refusal("--format is \"${format}\", but must be mooncake, azure or lengths"
    --trace ${prompts} "--format=${format}")
endforeach()
foreach(policy mru LRU "lru,fifo")
  expect_refusal("--policy is \"${policy}\", but must be one of lru, fifo, lfu, priority, never"
    ${mooncake} "--policy=${policy}")
endforeach()
foreach(number 0 -1 +4 0x10 1e3 4.0 2147483648 x "4," ",4" "4 ")
  expect_refusal("--capacity-blocks is \".*\", but must be a whole number from 1 to 2147483647"
    ${mooncake} "--capacity-blocks=${number}")
  expect_refusal("--block-tokens is \".*\", but must be a whole number" ${azure} "--block-tokens=${number}")
endforeach()
foreach(number 3 12 131072 "16,16")
  expect_refusal("--block-tokens is ${number}, but must be a power of two from 1 to 65536"
    ${azure} --block-tokens ${number})
endforeach()
expect_refusal("--block-tokens is 16, but a block of a mooncake trace is one of its hash_ids"
  ${mooncake} --block-tokens 16)

expect_refusal("the request of line 2 has 3 blocks, but --capacity-blocks is 2: .* 3" ${mooncake} --capacity-blocks 2)
expect_refusal("the request of line 2 has 3 blocks, but --capacity-blocks is 2"
  ${mooncake} --sweep --capacity-blocks 4,2)
expect_refusal("the request of line 2 has 2 blocks, but --capacity-blocks is 1: .* 4" ${azure} --capacity-blocks 1)
file(WRITE ${WORK_DIR}/vast.csv "TIMESTAMP,ContextTokens,GeneratedTokens\nx,2147483647,0\nx,0,2147483647\n")
foreach(flags "--json" "--capacity-blocks=2147483647")
  expect_refusal("have 4294967294 blocks, but a manager has at most 2147483646: pass --capacity-blocks 2147483646"
    --trace ${WORK_DIR}/vast.csv --format azure --block-tokens 1 ${flags})
endforeach()
expect_refusal("--capacity-blocks has 2 numbers" ${mooncake} --capacity-blocks 3,4)
expect_refusal("--sweep.*share no blocks" ${azure} --sweep)
expect_refusal("--sweep takes all policies" ${mooncake} --sweep --policy lru)
expect_refusal("--svg draws a sweep" ${mooncake} --svg ${WORK_DIR}/other.svg)
expect_refusal("--svg is .*, which cannot be written" ${mooncake} --sweep --svg ${WORK_DIR}/missing/sweep.svg)

# A file that is not there: where to get one.
foreach(pair mooncake:kvcache-ai/Mooncake azure:Azure/AzurePublicDataset lengths:microsoft/sarathi-serve)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 format)
  list(GET pair 1 source)
  foreach(path ${WORK_DIR}/missing ${WORK_DIR})
    expect_refusal("--trace is ${path}, which cannot be read.*${source}" --trace ${path} --format ${format})
  endforeach()
endforeach()
if(EXISTS /dev/full)
  execute_process(COMMAND ${REPLAY} ${mooncake} OUTPUT_FILE /dev/full RESULT_VARIABLE exit_code ERROR_VARIABLE errors)
  if(NOT exit_code STREQUAL "1" OR NOT errors MATCHES "the report could not be written")
    message(SEND_ERROR "a full disk ended with ${exit_code}: ${errors}")
  endif()
endif()
