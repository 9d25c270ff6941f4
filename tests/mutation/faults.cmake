# SPDX-License-Identifier: Apache-2.0
# The planted faults, and which way notices each: host (the host context), ptx (the interpreter of nvcc's PTX), gates
# (the machine code). A bracket argument [[...]] is plain text.

# Barriers and asynchronous copies.
pagoda_add_fault(decode_reuses_a_slot_too_early host kernels/tensor_decode.hpp
  [[      ctx.sync_warp();  // the slot is read, and may be written]] "")
pagoda_add_fault(decode_writes_results_into_a_busy_ring host kernels/tensor_decode.hpp
  [[    ctx.sync();  // the ring is free]] "")
pagoda_add_fault(prefill_reuses_a_slot_too_early host kernels/tensor_prefill.hpp
  [[      ctx.sync();  // the slot is read, and may be written]] "")
pagoda_add_fault(queries_are_read_before_they_are_staged host kernels/warp_attention.hpp
  [[    ctx.sync_warp();  // staged rows are written]] "")
pagoda_add_fault(decode_does_not_await_its_keys host kernels/tensor_decode.hpp
  [[in_flight<slots - 1>);  // keys]] [[in_flight<slots>);]])
pagoda_add_fault(prefill_does_not_await_its_values host kernels/tensor_prefill.hpp
  [[in_flight<slots - 1>);  // values]] [[in_flight<slots>);]])

# Addresses.
pagoda_add_fault(block_offsets_of_32_bits host kernels/tile_copy.hpp
  [[block_stride(static_cast<std::uint64_t>(plane.block_stride))]]
  [[block_stride(static_cast<std::uint32_t>(plane.block_stride) * 0x100000001u)]])
pagoda_add_fault(the_next_block_of_the_table host kernels/tile_copy.hpp
  [[token >> args.view.block_shift]] [[(token + tile_rows) >> args.view.block_shift]])
pagoda_add_fault(scales_of_another_row host kernels/warp_attention.hpp
  [[ctx.lds(shared, scales + row * key_tile::scale_bytes, scale)]]
  [[ctx.lds(shared, scales + (row ^ 8) * key_tile::scale_bytes, scale)]])
pagoda_add_fault(append_writes_to_the_next_slot host kernels/append.hpp
  [[position & (]] [[(position + 1) & (]])

# Arithmetic and masks.
pagoda_add_fault(rows_of_an_operand_are_swapped host kernels/code_tile.hpp
  [[{a[i], b[i], a[i + 1], b[i + 1]}]] [[{b[i], a[i], a[i + 1], b[i + 1]}]])
pagoda_add_fault(values_behind_the_end_are_not_zeroed host kernels/tile_copy.hpp
  [[return (1u << high) - (1u << low);]] [[return 0xffffu;]])
pagoda_add_fault(old_outputs_are_not_rescaled host kernels/warp_attention.hpp
  [[output_[n][i][k] *= rescale[n][k & 1];]] [[output_[n][i][k] *= 1.0f;]])
pagoda_add_fault(the_mask_lets_one_key_more_through host kernels/warp_attention.hpp
  [[visible_[n][c] = query_of_[n][c] < keys.queries ? count : 0u;]]
  [[visible_[n][c] = query_of_[n][c] < keys.queries ? count + 1 : 0u;]])
pagoda_add_fault(chunks_are_merged_with_equal_weights host kernels/merge.hpp
  [[ctx.exp2(load_state(ctx, args, index).max - all.max)]] [[1.0f]])
pagoda_add_fault(statistics_miss_half_of_the_row host kernels/row_statistics.hpp
  [[ctx.shfl_xor(stats.max, distance)]] [[stats.max]])

# What only nvcc sees: the wrappers around the machine's instructions.
pagoda_add_fault(mma_operand_registers_are_swapped ptx simt/device_context.cuh
  [["r"(b[0]), "r"(b[1]));
  }
  __device__ __forceinline__ void mma_m16n8k16(bfloat16]]
  [["r"(b[1]), "r"(b[0]));
  }
  __device__ __forceinline__ void mma_m16n8k16(bfloat16]])
pagoda_add_fault(ldmatrix_forgets_to_transpose ptx simt/device_context.cuh
  [[m8n8.x4.trans.shared]] [[m8n8.x4.shared]])
pagoda_add_fault(cp_async_ignores_its_zero_fill ptx simt/device_context.cuh
  [["r"(valid ? 16 : 0)]] [["r"(16)]])
pagoda_add_fault(shuffle_by_the_wrong_operation ptx simt/device_context.cuh
  [[__shfl_xor_sync(mask, value, lanes)]] [[__shfl_sync(mask, value, lanes)]])
pagoda_add_fault(device_barrier_is_missing ptx simt/device_context.cuh
  [[{ __syncthreads(); }]] [[{}]])

# What is right but slow.
pagoda_add_fault(keys_are_read_four_bytes_at_a_time gates kernels/tile_copy.hpp
  [[        ctx.cp_async16(shared, at + place, from, Values]]
  [[        for (int w = 0; w < 16; w += 4) ctx.cp_async4(shared, at + place + w, from + w, Values]])
pagoda_add_fault(registers_are_spilled gates simt/device_context.cuh
  [[__launch_bounds__(K::threads, resident_blocks<K>)]] [[__launch_bounds__(K::threads, 8)]])
