# SPDX-License-Identifier: Apache-2.0
# Mooncake's conversation trace: LRU's hits are those of a plain list, exactly, and LFU with aging is no worse.
include(${CMAKE_CURRENT_LIST_DIR}/../run_replay.cmake)
use_data(mooncake kvcache-ai/Mooncake conversation_trace.jsonl)
set(trace --trace ${data}/conversation_trace.jsonl --format mooncake --json)

foreach(pair 1000:12847 10000:61046 30000:93978 50000:102290)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 capacity)
  list(GET pair 1 hits)
  run_well(${trace} --capacity-blocks ${capacity})
  # Whatever was looked up and not found was stored, and what is not there any more was evicted.
  math(EXPR evictions "288500 - ${hits} - ${capacity}")
  expect(requests 12031 skipped_lines 0 policy lru capacity_blocks ${capacity} lookups 288500 hits ${hits}
    evictions ${evictions} not_cached 0 blocks ${capacity} utilisation 1.0)
endforeach()
expect_between(hit_rate 0.35455 0.35457)

# Without a limit, and with one that is never reached.
foreach(limit IN ITEMS "" "--capacity-blocks;182790" "--capacity-blocks;2147483647")
  run_well(${trace} ${limit})
  expect(lookups 288500 hits 105710 evictions 0 blocks 182790)
endforeach()
run_well(${trace} --capacity-blocks 182789)
expect(evictions 1)

foreach(pair 10000:61046 30000:93978)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 capacity)
  list(GET pair 1 lru_hits)
  run_well(${trace} --capacity-blocks ${capacity} --policy lfu)
  expect_between(hits ${lru_hits} 105710)
  run_well(${trace} --capacity-blocks ${capacity} --policy priority)
  expect(hits ${lru_hits})
  run_well(${trace} --capacity-blocks ${capacity} --policy fifo)
  expect_between(hits 1 ${lru_hits})
  run_well(${trace} --capacity-blocks ${capacity} --policy never)
  expect_between(hits 1 ${lru_hits})
  expect(evictions 0 blocks ${capacity})
endforeach()

# Measured: 25 to 45 ms. The bound leaves room for a busy machine.
run_well(${trace} --capacity-blocks 10000)
expect_between(manager_seconds 0.0001 2)
expect_between(ops_per_second 144250 2885000000)

# The same trace gives the same figures, but for the time that they took.
foreach(policy lru fifo lfu priority never)
  foreach(time 1 2)
    run_well(${trace} --capacity-blocks 5000 --policy ${policy})
    string(REGEX REPLACE "\"(ops_per_second|manager_seconds)\": [^\n]*" "" figures_${time} "${output}")
  endforeach()
  if(NOT figures_1 STREQUAL figures_2)
    message(SEND_ERROR "two runs differ:\n${figures_1}${figures_2}")
  endif()
endforeach()
