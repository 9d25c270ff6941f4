// SPDX-License-Identifier: Apache-2.0
/// @file execute: performs a copy_list on storage in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <pagoda/block_storage.hpp>
#include <pagoda/cache.hpp>
#include <pagoda/copy_list.hpp>
#include <pagoda/cuda/launch.hpp>
#include <pagoda/cuda/runtime.hpp>
#include <pagoda/detail/check_transfer.hpp>
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
///             lacks, invalid_argument for a storage of another block size, for the copies of a transfer() and for a
///             device too old; out_of_device_memory; cuda_error.
/// Stream:     enqueues a launch for each 3,840 bytes of the list and up to three for the copies; never waits. Lists
///             travel in launch arguments; they and moved rows are staged in memory taken and given back in stream
///             order.
/// Complexity: O(bytes moved).
template <class Backend = device_backend, class KeyQuantizer, class ValuePolicy, class Layout, class Memory>
void execute(block_storage<KeyQuantizer, ValuePolicy, Layout, Memory>& storage, const copy_list& copies,
             stream_ref stream = {}, int group = only_group) {
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
template <class Backend = device_backend, class... Policies>
void execute(basic_cache<Policies...>& cache, const copy_list& copies, stream_ref stream = {}) {
  execute<Backend>(cache.storage(), copies, stream);
}

namespace detail {

/// Calls visit(first, count) for every run of copies whose blocks follow each other on both sides.
template <class Visit>
void visit_runs(std::span<const block_copy> copies, Visit&& visit) {
  const auto after = [](block_id block) { return block_id{static_cast<std::int32_t>(block) + 1}; };
  for (std::size_t begin = 0; begin < copies.size();) {
    std::size_t end = begin + 1;
    while (end < copies.size() && copies[end].from == after(copies[end - 1].from) &&
           copies[end].to == after(copies[end - 1].to)) {
      ++end;
    }
    visit(copies[begin], static_cast<std::int64_t>(end - begin));
    begin = end;
  }
}

}  // namespace detail

/// Performs the copies of a transfer(): whole blocks of one storage to blocks of another, in every layer. Each lies in
/// device_memory, of the same device or of two, or in pinned_memory; a borrowed range must be memory of the device or
/// page-locked. Both have the same quantizers, layout and shape; numbers of blocks may differ. No kernel is needed:
/// the copies run on the device's copy engines, beside the kernels of other streams.
///
/// Requires:   the storages hold the blocks of the managers that the transfer was from and to; `group` is their layer
///             group; their bytes do not overlap. The host leaves the blocks alone until the copies are done, and
///             completes the transfer's tickets only then.
/// Throws:     before anything is copied, invalid_argument for storages that differ in shape, block size or pool order,
///             for one storage twice and for copies that are not of a transfer; out_of_range for a block that its
///             storage lacks or a group that the managers lack. cuda_error: what was enqueued before it may run; the
///             blocks that were read are as they were.
/// Stream:     enqueues an asynchronous copy for each run of blocks that follow each other on both sides: one in
///             by_block pools, one for each layer in by_layer pools. Never waits.
/// Complexity: O(bytes moved); O(blocks * layers) on the host, or O(blocks) in by_block pools.
template <class Backend = device_backend, class FromKeys, class FromValues, class FromLayout, class FromMemory,
          class ToKeys, class ToValues, class ToLayout, class ToMemory>
void execute(const block_storage<FromKeys, FromValues, FromLayout, FromMemory>& from,
             block_storage<ToKeys, ToValues, ToLayout, ToMemory>& to, const copy_list& copies, stream_ref stream = {},
             int group = only_group) {
  static_assert(backend<Backend>);
  static_assert(!std::is_same_v<Backend, device_backend> ||
                    (!std::is_same_v<FromMemory, host_memory> && !std::is_same_v<ToMemory, host_memory>),
                "pagoda: one of these storages lies in host_memory, which a device does not reach in stream order: use "
                "cuda::pinned_memory");
  pagoda::detail::check_transfer(from, to, copies, group);
  const bool together = from.order() == pool_order::by_block;
  const std::int32_t layers = from.shape().layers;
  const auto bytes_of_layer = static_cast<std::int64_t>(from.block_bytes(block_id{0}, 0).size());
  const std::int64_t bytes = together ? bytes_of_layer * layers : bytes_of_layer;  // of a block, in one piece
  for (std::int32_t layer = 0; layer < (together ? 1 : layers); ++layer) {
    detail::visit_runs(copies.blocks(group), [&](const block_copy& first, std::int64_t count) {
      Backend::copy(to.block_bytes(first.to, layer).data(), from.block_bytes(first.from, layer).data(), bytes * count,
                    stream);
    });
  }
}

/// The same for two caches, and a transfer() between their managers.
template <class Backend = device_backend, class... From, class... To>
void execute(const basic_cache<From...>& from, basic_cache<To...>& to, const copy_list& copies,
             stream_ref stream = {}) {
  execute<Backend>(from.storage(), to.storage(), copies, stream);
}

}  // namespace pagoda::cuda
