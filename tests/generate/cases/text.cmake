# SPDX-License-Identifier: Apache-2.0
# The expected text, byte for byte: with the defaults, and from a float cache whatever its blocks and threads.
include(${CMAKE_CURRENT_LIST_DIR}/../run_generate.cmake)
use_stories()
expect_text("${expected}" ${files} --steps 200)
foreach(block_size 1 8 16 32 64 128)
  foreach(layout heads_tokens_dim tokens_heads_dim)
    foreach(threads 1 2)
      expect_text("${expected}" ${files} --steps 200 --kv float --block-size ${block_size} --layout ${layout}
        --threads ${threads})
    endforeach()
  endforeach()
endforeach()
