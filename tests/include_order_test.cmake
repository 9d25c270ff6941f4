# SPDX-License-Identifier: Apache-2.0
# The direction of the library: a header includes only headers that stand above it in this list. A new header is
# entered here. Input: CXX_COMPILER, SOURCE_DIR.
cmake_minimum_required(VERSION 3.25)

set(order
  version.hpp
  config.hpp
  error.hpp
  fwd.hpp
  shape.hpp
  dtype.hpp
  policy.hpp

  # Bytes: how a row is coded, where it lies, who holds it.
  detail/vector.hpp
  detail/vector_math.hpp
  detail/vector_int16.hpp
  detail/store_codes.hpp
  detail/half2.hpp
  detail/hadamard.hpp
  detail/static_name.hpp
  detail/scratch.hpp
  quantizer.hpp
  detail/row_loops.hpp
  quantizer/row_codec.hpp
  quantizer/identity.hpp
  quantizer/int8_per_token.hpp
  quantizer/int4_per_token.hpp
  quantizer/fp8_e4m3.hpp
  quantizer/fp8_e5m2.hpp
  quantizer/int8_grouped.hpp
  quantizer/int4_grouped.hpp
  quantizer/hadamard.hpp
  quantizer/built_in.hpp
  layout.hpp
  layout/heads_tokens_dim.hpp
  layout/tokens_heads_dim.hpp
  memory.hpp
  memory/host.hpp
  memory/borrowed.hpp

  # Bookkeeping.
  eviction.hpp
  eviction/block_list.hpp
  eviction/block_heap.hpp
  eviction/lru.hpp
  eviction/fifo.hpp
  eviction/lfu.hpp
  eviction/priority.hpp
  eviction/never.hpp
  eviction/built_in.hpp
  retention.hpp
  block_pool.hpp
  token_history.hpp
  detail/content_key.hpp
  prefix_index.hpp
  copy_list.hpp
  batch_view.hpp
  manager_config.hpp
  statistics.hpp
  detail/evictor.hpp
  detail/reuse_distances.hpp
  detail/manager_eviction.inl
  detail/manager_prefix.inl
  detail/manager_report.inl
  detail/manager_transfer.inl
  detail/manager_plan.inl
  detail/manager_commit.inl
  detail/manager_sequences.inl
  manager_core.hpp
  sequence.hpp
  prefix_match.hpp
  step.hpp
  block_manager.hpp

  # Both together.
  cache_view.hpp
  block_storage.hpp
  detail/check_transfer.hpp
  cache.hpp

  # Attention.
  attention/mask.hpp
  attention/options.hpp
  attention/online_softmax.hpp
  attention/work_plan.hpp
  attention/reference.hpp
  host/executor.hpp
  host/thread_pool.hpp
  host/append.hpp
  host/tile_kernels.hpp
  host/int16_kernels.hpp
  host/panel_kernels.hpp
  host/softmax_tile.hpp
  host/tile_plane.hpp
  host/tile_gather.hpp
  host/query_sight.hpp
  host/item_rows.hpp
  host/attention_job.hpp
  host/attention.hpp
  host/execute.hpp

  # Kernels: what they are written over, on the device and on a CPU.
  simt/execution_context.hpp
  simt/kernel_name.hpp
  simt/device_context.cuh
  simt/detail/fault.hpp
  simt/detail/random.hpp
  simt/detail/fiber.hpp
  simt/detail/shadow_memory.hpp
  simt/detail/warp_exchange.hpp
  simt/detail/matrix_fragments.hpp
  simt/detail/block_scheduler.hpp
  simt/detail/async_copies.hpp
  simt/detail/access_counter.hpp
  simt/detail/block_memory.hpp
  simt/detail/shared_array.hpp
  simt/host_context.hpp
  kernels/attention_arguments.hpp
  kernels/write_words.hpp
  kernels/grid_walk.hpp
  kernels/chunk_plan.hpp
  kernels/plan_chunks.hpp
  kernels/merge.hpp
  kernels/stored_row.hpp
  kernels/row_encoder.hpp
  kernels/row_statistics.hpp
  kernels/append.hpp
  kernels/rotate_rows.hpp
  kernels/copy.hpp
  kernels/score.hpp
  kernels/lane_teams.hpp
  kernels/generic_work.hpp
  kernels/generic_memory.hpp
  kernels/generic_writer.hpp
  kernels/generic_pass.hpp
  kernels/generic_attention.hpp
  kernels/row_output.hpp
  kernels/code_tile.hpp
  kernels/tile_copy.hpp
  kernels/warp_attention.hpp
  kernels/tensor_decode.hpp
  kernels/tensor_prefill.hpp

  # CUDA: the same calls, launched.
  cuda/stream.hpp
  cuda/runtime.hpp
  cuda/memory.hpp
  cuda/device_work.hpp
  cuda/table_places.hpp
  cuda/step_tables.hpp
  cuda/launch.hpp
  cuda/attention.hpp
  cuda/append.hpp
  cuda/execute.hpp
  cuda/launch_rotation.hpp
  cuda/launch_plan.hpp
  cuda/launch_attention.hpp
  cuda/launch_append.hpp
  cuda/launch_execute.hpp
  cuda/host_backend.hpp
  cuda/runtime.cuh
  cuda/attention.cuh
  cuda/append.cuh
  cuda/execute.cuh
  cuda/instantiate.cuh

  # Checks of a user's own policy.
  conformance/report.hpp
  conformance/quantizer.hpp
  conformance/layout.hpp
  conformance/memory.hpp
  conformance/eviction.hpp

  pagoda.hpp
  pagoda.cuh
)

set(include_dir ${SOURCE_DIR}/include)
set(faults "")

file(GLOB_RECURSE headers RELATIVE ${include_dir}/pagoda
  ${include_dir}/pagoda/*.hpp ${include_dir}/pagoda/*.inl ${include_dir}/pagoda/*.cuh)
foreach(header IN LISTS headers)
  list(FIND order ${header} place)
  if(place EQUAL -1)
    list(APPEND faults "${header} is missing in the list of tests/include_order_test.cmake")
    continue()
  endif()
  file(STRINGS ${include_dir}/pagoda/${header} lines REGEX "^ *# *include [<\"]")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "[<\"]([^>\"]+)[>\"]" unused "${line}")
    set(included ${CMAKE_MATCH_1})
    if(line MATCHES "\"")
      list(APPEND faults "${header} includes \"${included}\": write <pagoda/...>")
    elseif(included MATCHES "^pagoda/(.*)$")
      set(included ${CMAKE_MATCH_1})
      list(FIND order ${included} included_place)
      if(included_place EQUAL -1)
        list(APPEND faults "${header} includes ${included}, which is not in the list")
      elseif(NOT included_place LESS place)
        list(APPEND faults "${header} includes ${included}, which stands below it")
      endif()
    endif()
  endforeach()
endforeach()
foreach(header IN LISTS order)
  if(NOT header IN_LIST headers)
    list(APPEND faults "${header} is in the list of tests/include_order_test.cmake and does not exist")
  endif()
endforeach()

# The umbrella stays cheap: neither its headers nor what those include open any of these.
set(source ${CMAKE_CURRENT_BINARY_DIR}/include_order.cpp)
file(WRITE ${source} "#include <pagoda/pagoda.hpp>\n")
execute_process(COMMAND ${CXX_COMPILER} -std=c++20 -M -I ${include_dir} ${source}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "the umbrella cannot be preprocessed:\n${errors}")
endif()
string(REGEX MATCHALL "[^ \n\\]+" files "${output}")
foreach(file IN LISTS files)
  if(file MATCHES "/(thread|functional|iostream|sstream|regex)$")
    list(APPEND faults "<pagoda/pagoda.hpp> reaches ${file}")
  endif()
endforeach()

if(faults)
  list(JOIN faults "\n  " faults)
  message(FATAL_ERROR "${faults}")
endif()
list(LENGTH headers count)
message(STATUS "${count} headers in order")
