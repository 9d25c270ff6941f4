# SPDX-License-Identifier: Apache-2.0
# Lengths of ShareGPT's conversations: the blocks are the sum of each length over the block size, rounded up.
include(${CMAKE_CURRENT_LIST_DIR}/../run_replay.cmake)
use_data(sharegpt microsoft/sarathi-serve sharegpt_8k_filtered_stats_llama2_tokenizer.csv)
set(trace --trace ${data}/sharegpt_8k_filtered_stats_llama2_tokenizer.csv --format lengths)
run_well(${trace} --json)
expect(format lengths requests 30731 block_tokens 16 blocks 5351534 lookups 0)
expect_between(utilisation 0.9973015 0.9973025)
run_well(${trace} --json --block-tokens 64 --capacity-blocks 1000)
expect(requests 30731)
expect_between(blocks 800 1000)
