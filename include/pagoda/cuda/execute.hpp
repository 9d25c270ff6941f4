// SPDX-License-Identifier: Apache-2.0
/// @file execute: performs a copy_list on storage in device memory.
#pragma once

#include <span>
#include <type_traits>

#include <pagoda/block_storage.hpp>
#include <pagoda/cache.hpp>
#include <pagoda/copy_list.hpp>
#include <pagoda/cuda/launch.hpp>
#include <pagoda/cuda/runtime.hpp>
#include <pagoda/kernels/copy.hpp>

namespace pagoda::cuda {

/// One list and where its bytes lie. The arguments' own lists are filled in at the launch.
template <class KeyQuantizer, class ValueQuantizer>
struct execute_call {
  std::span<const block_copy> blocks{};
  std::span<const row_copy> rows{};
  kernels::copy_blocks::arguments copy_blocks{};
  typename kernels::move_rows<KeyQuantizer, ValueQuantizer>::arguments move_rows{};
};

/// The launches of execute for one pair of quantizers. For CUDA, PAGODA_INSTANTIATE_CUDA_EXECUTE compiles it in one .cu
/// file of the program.
template <class Backend, class KeyQuantizer, class ValueQuantizer>
struct execute_launcher {
  static void launch(const execute_call<KeyQuantizer, ValueQuantizer>& call, const device_properties& device,
                     stream_ref stream);
};

/// Performs the copies that a manager asked for, in every layer of the storage, as if everything were read before
/// anything is written. Rows move as encoded bytes.
///
/// Requires:   the list comes from the manager whose blocks the storage holds; `group` is the storage's layer group.
/// Throws:     before anything is copied, out_of_range for a block that the storage lacks or a group that the manager
///             lacks, invalid_argument for a storage of another block size or a device too old; out_of_device_memory;
///             cuda_error.
/// Stream:     enqueues a launch for each 3,840 bytes of the list and up to three for the copies; never waits. Lists
///             travel in launch arguments; they and moved rows are staged in memory taken and given back in stream
///             order.
/// Complexity: O(bytes moved).
template <class Backend = device_backend, class KeyQuantizer, class ValuePolicy, class Layout, class Memory>
void execute(block_storage<KeyQuantizer, ValuePolicy, Layout, Memory>& storage, const copy_list& copies,
             stream_ref stream = {}, int group = 0) {
  static_assert(backend<Backend>);
  static_assert(!std::is_same_v<Backend, device_backend> || !std::is_same_v<Memory, host_memory>,
                "pagoda: this storage lies in host memory: call host::execute, or use cuda::device_memory");
  using storage_type = block_storage<KeyQuantizer, ValuePolicy, Layout, Memory>;
  using key_quantizer = typename storage_type::key_quantizer;
  using value_quantizer = typename storage_type::value_quantizer;
  check_copies(copies, group, storage.block_size(), storage.blocks());
  if (copies.blocks(group).empty() && copies.rows(group).empty()) return;
  const device_properties device = detail::usable_device<Backend>();
  const execute_call<key_quantizer, value_quantizer> call{
      .blocks = copies.blocks(group),
      .rows = copies.rows(group),
      .copy_blocks = kernels::copy_blocks::make_arguments(storage, {}),
      .move_rows = kernels::move_rows<key_quantizer, value_quantizer>::make_arguments(storage, {})};
  execute_launcher<Backend, key_quantizer, value_quantizer>::launch(call, device, stream);
}

/// The same for a cache and the copies of its own steps.
template <class Backend = device_backend, class KeyQuantizer, class ValuePolicy, class Layout, class BlockSize,
          class Memory>
void execute(basic_cache<KeyQuantizer, ValuePolicy, Layout, BlockSize, Memory>& cache, const copy_list& copies,
             stream_ref stream = {}) {
  execute<Backend>(cache.storage(), copies, stream);
}

}  // namespace pagoda::cuda
