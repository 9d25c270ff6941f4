# SPDX-License-Identifier: Apache-2.0
# A window as long as the text changes nothing; a shorter one frees blocks, and does not depend on how they are cut.
include(${CMAKE_CURRENT_LIST_DIR}/../run_generate.cmake)
use_stories()
foreach(window 200 512)
  expect_text("${expected}" ${files} --steps 200 --kv float --window ${window})
  expect_text("${expected}" ${files} --steps 200 --kv float --window ${window} --sinks 4)
endforeach()

foreach(sinks 0 4)
  run_well(${files} --steps 200 --kv float --window 32 --sinks ${sinks})
  set(with_${sinks}_sinks "${output}")
  if(output STREQUAL "${expected}")
    message(SEND_ERROR "a window of 32 tokens wrote the text of the whole context")
  endif()
  # 32 tokens touch at most three blocks of 16, and the sinks one more.
  if(NOT errors MATCHES "at most ([0-9]+) of" OR CMAKE_MATCH_1 GREATER 4)
    message(SEND_ERROR "a window of 32 tokens holds too many blocks: ${errors}")
  endif()
  foreach(block_size 1 8 64)
    expect_text("${output}" ${files} --steps 200 --kv float --window 32 --sinks ${sinks} --block-size ${block_size}
      --layout tokens_heads_dim --threads 2)
  endforeach()
endforeach()
if(with_0_sinks STREQUAL with_4_sinks)
  message(SEND_ERROR "sinks change nothing")
endif()

file(READ ${stories}/expected_t0_n200.txt prompt)
run_well(${files} --steps 300 --kv float --window 40 --sinks 3 --prompt-chunk 1)
set(continued "${output}")
foreach(chunk 7 64)
  expect_text("${continued}" ${files} --steps 300 --kv float --window 40 --sinks 3 --prompt-chunk ${chunk})
endforeach()
