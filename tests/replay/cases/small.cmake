# SPDX-License-Identifier: Apache-2.0
# Small traces whose figures can be worked out by hand, and the form of the reports.
include(${CMAKE_CURRENT_LIST_DIR}/../run_replay.cmake)

set(trace ${WORK_DIR}/prompts.jsonl)
file(WRITE ${trace} [[
{"timestamp": 0, "input_length": 1500, "output_length": 3, "hash_ids": [10, 11, 12]}
{"hash_ids": [10, 11, 13]}
{"hash_ids": [20, 21]}
{"hash_ids": [10, 11, 12]}
]])

# Nothing is taken back: 0, 2, 0 and 3 hits, six different blocks.
run_well(--trace ${trace} --format mooncake --json)
expect(trace ${trace} format mooncake requests 4 skipped_lines 0 policy lru block_tokens 1 lookups 11 hits 5 evictions 0
  not_cached 0 blocks 6 utilisation 1.0)
expect_between(hit_rate 0.45454 0.45455)
string(JSON members LENGTH "${output}")
if(NOT members EQUAL 17)
  message(SEND_ERROR "there are ${members} members:\n${output}")
endif()

# Four blocks: the second request leaves 12, 13, 11, 10, from the oldest use; the third takes the place of 12 and 13;
# the fourth finds 10 and 11 and takes the place of 21.
run_well(--trace ${trace} --format mooncake --json --capacity-blocks 4)
expect(capacity_blocks 4 hits 4 evictions 3 blocks 4)
# The first blocks leave first, so that the fourth request finds none.
run_well(--trace ${trace} --format mooncake --json --capacity-blocks 4 --policy fifo)
expect(policy fifo hits 2)
# Three blocks, all taken by the first request, for good: 13 and then 20 and 21 find no room.
run_well(--trace ${trace} --format mooncake --json --capacity-blocks 3 --policy never)
expect(policy never hits 5 evictions 0 not_cached 3 blocks 3)

run_well(--trace ${trace} --format mooncake --capacity-blocks 4)
foreach(line "requests +4" "skipped lines +0" "capacity in blocks +4" "policy +lru" "lookups +11" "hits +4"
    "hit rate +0.3636" "evictions +3" "not cached +0" "blocks +4" "utilisation +1.000000" "operations a second +[0-9]+"
    "manager time +[0-9.]+ ms")
  if(NOT output MATCHES "\n${line}\n")
    message(SEND_ERROR "the table lacks \"${line}\":\n${output}")
  endif()
endforeach()

# Lines may end with CR LF, the last one with nothing; columns stand in any order.
string(ASCII 13 cr)
set(trace ${WORK_DIR}/lengths.csv)
file(WRITE ${trace} "TIMESTAMP,GeneratedTokens,ContextTokens${cr}\nx,4,12${cr}\nx,1,16${cr}\nx,0,32")
run_well(--trace ${trace} --format azure --json)
expect(format azure requests 3 blocks 5 utilisation 0.8125 block_tokens 16)
run_well(--trace ${trace} --format azure --json --block-tokens 1)
expect(blocks 65 utilisation 1.0)
run_well(--trace ${trace} --format azure --json --block-tokens 65536)
expect(blocks 3)
# Of four blocks the second request leaves one, so that the first and then the second end for the third.
run_well(--trace ${trace} --format azure --json --capacity-blocks 4)
expect(blocks 4)
expect_between(mean_running 1.6666 1.6667)
run_well(--trace ${trace} --format azure --json --capacity-blocks 3)
expect(blocks 2)
expect_between(mean_running 1.3333 1.3334)
run_well(--trace ${trace} --format azure --capacity-blocks 3)
if(NOT output MATCHES "\nmean running requests +1.3\n" OR output MATCHES "lookups")
  message(SEND_ERROR "the table of a trace of lengths is wrong:\n${output}")
endif()

file(WRITE ${trace} "num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n10,6,16,1.7\n1,16,17,0.1\n")
run_well(--trace ${trace} --format lengths --json)
expect(format lengths requests 2 blocks 3)
