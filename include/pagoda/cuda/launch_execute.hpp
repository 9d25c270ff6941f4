// SPDX-License-Identifier: Apache-2.0
/// @file The launches of execute. Included where kernels are compiled: by execute.cuh and host_backend.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include <pagoda/cuda/execute.hpp>
#include <pagoda/cuda/memory.hpp>
#include <pagoda/kernels/write_words.hpp>

namespace pagoda::cuda::detail {

/// Writes bytes of the host to device memory, through launch arguments. Up to 15 bytes behind them are written, too.
template <class Backend>
void launch_send(std::byte* to, std::span<const std::byte> bytes, const device_properties& device, stream_ref stream) {
  constexpr std::size_t piece = std::size_t{kernels::write_words::capacity} * sizeof(simt::words4);
  for (std::size_t begin = 0; begin < bytes.size(); begin += piece) {
    const std::span<const std::byte> part = bytes.subspan(begin, std::min(piece, bytes.size() - begin));
    kernels::write_words::arguments arguments;
    arguments.to = reinterpret_cast<simt::words4*>(to + begin);
    arguments.count = static_cast<std::int32_t>((part.size() + sizeof(simt::words4) - 1) / sizeof(simt::words4));
    std::memcpy(arguments.words, part.data(), part.size());
    launch_units<kernels::write_words, Backend>(device, arguments, 1, stream);
  }
}

template <class Backend, class KeyQuantizer, class ValueQuantizer>
void launch_execute(const execute_call<KeyQuantizer, ValueQuantizer>& call, const device_properties& device,
                    stream_ref stream) {
  using rows_kernel = kernels::move_rows<KeyQuantizer, ValueQuantizer>;
  constexpr std::string_view what = "copies of a list";
  check_range(what, static_cast<std::int64_t>(call.blocks.size()), 0, INT32_MAX);
  check_range(what, static_cast<std::int64_t>(call.rows.size()), 0, INT32_MAX);
  kernels::copy_blocks::arguments blocks = call.copy_blocks;
  typename rows_kernel::arguments rows = call.move_rows;
  blocks.list.max_copies = static_cast<std::int32_t>(call.blocks.size());
  rows.list.max_copies = static_cast<std::int32_t>(call.rows.size());
  const std::int64_t block_units = kernels::copy_blocks::max_units(blocks);
  const std::int64_t row_units = rows_kernel::max_units(rows);

  // One piece of memory: both lists, then the rows between gather and scatter.
  const std::int64_t rows_at = round_up(static_cast<std::int64_t>(call.blocks.size_bytes()), 16, what);
  const std::int64_t staged_at = round_up(rows_at + static_cast<std::int64_t>(call.rows.size_bytes()), 16, what);
  const basic_device_memory<Backend> scratch(checked_add(staged_at, rows_kernel::row_scratch_bytes(rows), what),
                                             stream);
  launch_send<Backend>(scratch.data(), std::as_bytes(call.blocks), device, stream);
  launch_send<Backend>(scratch.data() + rows_at, std::as_bytes(call.rows), device, stream);

  blocks.list.copies = reinterpret_cast<const block_copy*>(scratch.data());
  launch_units<kernels::copy_blocks, Backend>(device, blocks, block_units, stream);
  rows.list.copies = reinterpret_cast<const row_copy*>(scratch.data() + rows_at);
  rows.scratch = scratch.data() + staged_at;
  for (const kernels::row_phase phase : {kernels::row_phase::gather, kernels::row_phase::scatter}) {
    rows.phase = phase;
    launch_units<rows_kernel, Backend>(device, rows, row_units, stream);
  }
}

}  // namespace pagoda::cuda::detail
