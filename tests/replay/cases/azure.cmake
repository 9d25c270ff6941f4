# SPDX-License-Identifier: Apache-2.0
# The Azure traces: every request on blocks of its own, at its final length.
include(${CMAKE_CURRENT_LIST_DIR}/../run_replay.cmake)
use_data(azure Azure/AzurePublicDataset AzureLLMInferenceTrace_code.csv AzureLLMInferenceTrace_conv.csv)

# expect_blocks(NAME REQUESTS BLOCK_TOKENS BLOCKS UTILISATION): the utilisation to six digits.
function(expect_blocks name requests block_tokens blocks utilisation)
  set(trace --trace ${data}/AzureLLMInferenceTrace_${name}.csv --format azure --block-tokens ${block_tokens})
  run_well(${trace} --json)
  expect(requests ${requests} skipped_lines 0 block_tokens ${block_tokens} blocks ${blocks} lookups 0 hits 0
    evictions 0)
  foreach(key hit_rate capacity_blocks mean_running)
    string(JSON type TYPE "${output}" ${key})
    if(NOT type STREQUAL "NULL")
      message(SEND_ERROR "${key} should be null:\n${output}")
    endif()
  endforeach()
  run_well(${trace})
  if(NOT output MATCHES "\nblocks +${blocks}\nutilisation +${utilisation}\n")
    message(SEND_ERROR "there should be ${blocks} blocks and a utilisation of ${utilisation}:\n${output}")
  endif()
endfunction()
expect_blocks(code 8819 16 1148326 0.996335)
expect_blocks(code 8819 64 290424 0.984868)
expect_blocks(code 8819 256 76144 0.939106)
expect_blocks(conv 19366 16 1662197 0.994562)
expect_blocks(conv 19366 64 422614 0.977936)
expect_blocks(conv 19366 256 112328 0.919828)

# A limit that all of them need changes nothing; with one block less the first request ends when the last one comes.
set(trace --trace ${data}/AzureLLMInferenceTrace_code.csv --format azure --json)
run_well(${trace} --capacity-blocks 1148326)
expect(blocks 1148326 mean_running 4410.0)
run_well(${trace} --capacity-blocks 1148325)
expect_between(blocks 1148000 1148325)
expect_between(mean_running 4409 4409.9999)
# The pool is all but full: what is left does not hold the next request's 466 blocks at most.
run_well(${trace} --capacity-blocks 10000)
expect_between(blocks 9000 10000)
expect_between(mean_running 60 100)
