// SPDX-License-Identifier: Apache-2.0
/// @file step_tables: the tables of a step in device memory, at addresses that never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include <pagoda/block_manager.hpp>
#include <pagoda/block_storage.hpp>
#include <pagoda/cuda/memory.hpp>
#include <pagoda/cuda/table_places.hpp>

namespace pagoda::cuda {

namespace detail {

/// Launches kernels::plan_chunks. Compiled with the backend.
template <class Backend>
struct plan_launcher {
  static void launch(const batch_view& batch, const kernels::chunk_plan& plan, std::int32_t max_items,
                     stream_ref stream);
};

/// An event, or none yet.
template <backend Backend>
class event {
 public:
  event() : event_(Backend::make_event()) {}
  event(event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  event& operator=(event&&) = delete;
  ~event() {
    if (event_ != nullptr) Backend::destroy_event(event_);
  }
  void* get() const noexcept { return event_; }

 private:
  void* event_;
};

/// One staging buffer: what an upload sends. Not to be written while it is sent.
template <backend Backend>
struct stage {
  explicit stage(std::int64_t bytes) : memory(bytes) { std::memset(memory.data(), 0, static_cast<std::size_t>(bytes)); }
  stage(stage&&) noexcept = default;
  ~stage() {
    if (!sent) return;
    try {
      Backend::wait(sending.get());
    } catch (...) {  // the device is lost: nothing reads the buffer any more
    }
  }

  basic_pinned_memory<Backend> memory;
  event<Backend> sending{};
  bool sent = false;
};

}  // namespace detail

/// The tables of a step, their chunk plan and the scratch memory of attention, in device memory.
///
///     pagoda::cuda::step_tables tables(manager, {.sequences = 64, .queries = 64, .new_tokens = 64, .blocks = 4096,
///                                                .query_heads = 32, .value_head_dim = 128});
///     tables.upload(step, stream);                    // the only metadata that a step sends
///     auto view = storage.view(layer, tables);        // the same bytes for every step
///
/// All memory is taken at construction, and every address and every byte of batch() stays what it is: a graph captured
/// once, before or after an upload, serves every step within the limits. Before the first upload the batch is empty.
/// An upload is not to be captured itself. Steps follow each other on one stream, or are ordered by events.
template <backend Backend = device_backend>
class basic_step_tables {
 public:
  /// Throws: invalid_argument for limits that cannot be; out_of_device_memory; cuda_error.
  basic_step_tables(const block_manager& manager, const step_limits& limits)
      : limits_(limits),
        places_(manager.config(), limits),
        found_(sizeof(kernels::table_report)),
        device_(places_.bytes),
        shapes_(places_.groups.size()),
        works_(places_.groups.size()),
        given_(places_.groups.size()),
        entries_(places_.groups.size()) {
    const manager_config& config = manager.config();
    const std::int32_t device = Backend::properties().device;
    std::byte* memory = device_.data();
    for (std::size_t g = 0; g < works_.size(); ++g) {
      const retention& keep = config.groups[g].keep;
      const detail::table_places::group& arrays = places_.groups[g];
      works_[g] = {.backend = Backend::name,
                   .device = device,
                   .limits = limits,
                   .max_items = arrays.max_items,
                   .one_item_each = keep.keeps_all() && limits.blocks * config.block_size <= chunk_tokens,
                   .plan = {detail::array_at<kernels::chunk_item>(memory, arrays.plan_items),
                            detail::array_at<std::int32_t>(memory, arrays.plan_offsets)},
                   .partial_output = detail::array_at<float>(memory, places_.partial_output),
                   .partial_state = detail::array_at<float>(memory, places_.partial_state),
                   .rotated_inputs = detail::array_at<float>(memory, places_.rotated_inputs),
                   .rotated_outputs = detail::array_at<float>(memory, places_.rotated_outputs),
                   .report = detail::array_at<kernels::table_report>(memory, places_.report)};
      shapes_[g].sink_blocks = static_cast<std::int32_t>(keep.sink_blocks(config.block_size));
      shapes_[g].block_size = config.block_size;
      shapes_[g].num_blocks = config.groups[g].num_blocks;
      shapes_[g].keep = keep;
    }
    for (std::size_t i = 0; i < stages; ++i) stages_.emplace_back(places_.uploaded_bytes);
    Backend::fill(memory, 0, places_.zeroed_bytes, {});
    Backend::synchronize({});
  }

  /// Device memory that tables of these limits take.
  static std::int64_t size_bytes(const block_manager& manager, const step_limits& limits) {
    return detail::table_places(manager.config(), limits).bytes;
  }

  /// Sends a step's tables, and a chunk plan made from them. Views see it once the stream has reached the copy;
  /// launches that need more than it brings are refused from now on. Cancel entries of the step before, or upload it
  /// again.
  ///
  /// Throws:     before anything is sent, logic_error for a step whose copies were not taken; invalid_argument for one
  ///             of a manager of other blocks, block size or retention, or above the limits; what validate() throws for
  ///             broken tables. cuda_error.
  /// Effects:    waits for the device only if the last three uploads are all still on their way; allocates nothing.
  /// Complexity: O(sequences + table entries + chunks); one copy for each layer group, of what is used.
  template <batch_tables Tables>
  void upload(const Tables& tables, stream_ref stream = {}) {
    check_alive();
    if constexpr (requires { tables.copies_pending(); }) {
      if (tables.copies_pending()) {
        pagoda::detail::fail<logic_error>("upload of a step whose copies were not taken: cuda::execute(storage, ",
                                          "step.take_copies()) first, or shared blocks would be written");
      }
    }
    for (std::size_t g = 0; g < given_.size(); ++g) given_[g] = tables.batch(static_cast<int>(g));
    send(stream);
  }

  /// What the step looks like to a layer group: pointers to device memory, the same for every step.
  /// Throws: out_of_range for an unknown group, and for none where there are several.
  batch_view batch(int group = only_group) const {
    const std::size_t g = pagoda::detail::group_index(group, works_.size());
    batch_view view = detail::view_at(device_.data(), places_, g, shapes_[g]);
    view.work = &works_[g];
    return view;
  }

  /// The context lengths on the device, for an engine whose own kernel advances them between the steps of a graph. The
  /// tables must hold the blocks of the tokens to come: plan and upload those first. plan_on_device then follows.
  std::int32_t* device_lengths() const noexcept {
    return detail::array_at<std::int32_t>(device_.data(), places_.context_lengths);
  }

  /// Makes the chunk plans anew from the counts and lengths on the device: one small launch for each layer group.
  /// Can be captured. Throws: cuda_error.
  void plan_on_device(stream_ref stream = {}) const {
    for (std::size_t g = 0; g < works_.size(); ++g) {
      detail::plan_launcher<Backend>::launch(batch(static_cast<int>(g)), works_[g].plan,
                                             static_cast<std::int32_t>(works_[g].max_items), stream);
    }
  }

  /// Waits for the stream and throws out_of_range if a kernel met a block outside the pool, or a length beyond a
  /// sequence's table, since the last check. Such a kernel has read and written nothing there. Kernels look if they
  /// were compiled with PAGODA_CHECK_TABLES, as debug builds are.
  void check(stream_ref stream = {}) {
    check_alive();
    kernels::table_report* report = works_.front().report;
    Backend::copy(found_.data(), report, sizeof(kernels::table_report), stream);
    Backend::synchronize(stream);
    kernels::table_report found;
    std::memcpy(&found, found_.data(), sizeof(found));
    if (found.fault == 0) return;
    Backend::fill(report, 0, sizeof(found), stream);
    if (found.fault == 2) {
      pagoda::detail::fail<out_of_range>("a kernel met logical block ", found.logical_block, " of batch entry ",
                                         found.sequence, ", which its table has not: lengths were advanced past the ",
                                         "planned tokens; plan and upload them first");
    }
    pagoda::detail::fail<out_of_range>(
        "a kernel met block ", found.block, " as logical block ", found.logical_block, " of batch entry ",
        found.sequence, ", outside the pool: a block table on the ",
        "device was overwritten; upload the step again, and keep other writes off the tables");
  }

  const step_limits& limits() const noexcept { return limits_; }
  std::int64_t device_bytes() const noexcept { return device_.size_bytes(); }

 private:
  static constexpr std::size_t stages = 3;

  void check_alive() const {
    if (works_.empty()) {
      pagoda::detail::fail<logic_error>("these step_tables were moved from: use the object that they were moved to");
    }
  }

  /// Checks and sends what given_ holds.
  void send(stream_ref stream) {
    std::vector<uploaded_step>& facts = facts_;
    facts.assign(works_.size(), {});
    for (std::size_t g = 0; g < given_.size(); ++g) check_batch(g, facts[g]);

    detail::stage<Backend>& stage = stages_[next_];
    if (stage.sent && !Backend::finished(stage.sending.get())) Backend::wait(stage.sending.get());
    stage.sent = false;
    write_counts(stage.memory.data());
    for (std::size_t g = 0; g < given_.size(); ++g) write_group(stage.memory.data(), g);

    std::int64_t begin = 0;
    for (std::size_t g = 0; g < given_.size(); ++g) {
      const std::int64_t end = places_.groups[g].block_table + entries_[g] * std::int64_t{sizeof(block_id)};
      if (end > begin) Backend::copy(device_.data() + begin, stage.memory.data() + begin, end - begin, stream);
      if (g + 1 < given_.size()) begin = places_.groups[g + 1].block_table;
    }
    Backend::record(stage.sending.get(), stream);
    stage.sent = true;
    next_ = (next_ + 1) % stages;
    for (std::size_t g = 0; g < works_.size(); ++g) works_[g].uploaded = facts[g];
  }

  void check_batch(std::size_t g, uploaded_step& facts) {
    using pagoda::detail::fail;
    const batch_view& given = given_[g];
    const batch_view& shape = shapes_[g];
    const batch_view& first = given_.front();
    if (given.block_size != shape.block_size || given.num_blocks != shape.num_blocks || given.keep != shape.keep ||
        given.sink_blocks != shape.sink_blocks) {
      fail("the step's layer group ", g, " has ", given.num_blocks, " blocks of ", given.block_size,
           " tokens, but the tables are for ", shape.num_blocks, " of ", shape.block_size,
           " and a retention of their own: upload steps of the manager that the tables were made for");
    }
    validate(given, shape.block_size, shape.num_blocks);
    if (given.num_sequences != first.num_sequences || given.context_lengths != first.context_lengths ||
        given.query_offsets != first.query_offsets || given.token_offsets != first.token_offsets) {
      fail("layer group ", g,
           " has counts of its own, but the groups of a step share theirs: pass the batches of one step");
    }
    check_limit("sequences", given.sequences(), limits_.sequences);
    check_limit("queries", given.total_queries(), limits_.queries);
    check_limit("new_tokens", given.total_new_tokens(), limits_.new_tokens);
    facts.queries = given.total_queries();
    facts.new_tokens = given.total_new_tokens();
    std::int64_t entries = 0;
    for (std::int32_t i = 0; i < given.sequences(); ++i) {
      check_limit("queries_per_sequence", given.queries(i), limits_.queries_per_sequence);
      if (given.entries(i) < 0) {
        fail("batch entry ", i, " skips ", given.skipped_blocks[i], " blocks, more than its context of ",
             given.context_length(i), " tokens has: mend skipped_blocks");
      }
      entries += given.entries(i);
      look_at(given, i, facts);
    }
    check_limit("blocks", entries, limits_.blocks);
    entries_[g] = entries;
  }

  static void check_limit(const char* name, std::int64_t value, std::int64_t limit) {
    if (value > limit) {
      pagoda::detail::fail("the step needs ", name, " = ", value, ", but the tables were made for ", limit,
                           ": raise step_limits::", name, " or plan smaller steps");
    }
  }

  /// Notes what launches have to refuse.
  static void look_at(const batch_view& given, std::int32_t i, uploaded_step& facts) noexcept {
    const std::int32_t context = given.context_length(i);
    const std::int32_t queries = given.queries(i);
    if (given.new_tokens(i) > facts.most_new_tokens) {
      facts.most_new_tokens = given.new_tokens(i);
      facts.most_new_tokens_at = i;
    }
    if (queries > given.new_tokens(i)) facts.more_than_tokens = {i, queries, given.new_tokens(i)};
    if (context == 0) return;
    if (queries > context) facts.more_than_context = {i, queries, context};
    if (given.skipped_blocks[i] == 0 || queries == 0) return;
    const std::int64_t first_kept = (std::int64_t{given.sink_blocks} + given.skipped_blocks[i]) * given.block_size;
    const std::int64_t widest = context - queries + 1 - first_kept;  // of the first query's window
    if (widest < facts.widest_window) {
      facts.widest_window = widest;
      facts.widest_window_at = i;
    }
  }

  void write_counts(std::byte* memory) const noexcept {
    const batch_view& given = given_.front();
    const auto sequences = static_cast<std::size_t>(given.sequences());
    const auto put = [&](std::int64_t place, const std::int32_t* from, std::size_t count) {
      std::memcpy(memory + place, from, count * sizeof(std::int32_t));
    };
    put(places_.num_sequences, given.num_sequences, 1);
    put(places_.context_lengths, given.context_lengths, sequences);
    put(places_.query_offsets, given.query_offsets, sequences + 1);
    put(places_.token_offsets, given.token_offsets, sequences + 1);
  }

  void write_group(std::byte* memory, std::size_t g) const {
    const batch_view& given = given_[g];
    const detail::table_places::group& arrays = places_.groups[g];
    auto* offsets = detail::array_at<std::int64_t>(memory, arrays.table_offsets);
    auto* skipped = detail::array_at<std::int32_t>(memory, arrays.skipped_blocks);
    auto* table = detail::array_at<block_id>(memory, arrays.block_table);
    std::int64_t next = 0;
    for (std::int32_t i = 0; i < given.sequences(); ++i) {
      const std::int64_t entries = given.entries(i);
      offsets[i] = next;
      skipped[i] = given.skipped_blocks[i];
      std::memcpy(table + next, given.block_table + given.table_offsets[i],
                  static_cast<std::size_t>(entries) * sizeof(block_id));
      next += entries;
    }
    offsets[given.sequences()] = next;
    kernels::build_chunk_plan(given,
                              std::span(detail::array_at<kernels::chunk_item>(memory, arrays.plan_items),
                                        static_cast<std::size_t>(arrays.max_items)),
                              std::span(detail::array_at<std::int32_t>(memory, arrays.plan_offsets),
                                        static_cast<std::size_t>(limits_.sequences) + 1));
  }

  step_limits limits_;
  detail::table_places places_;
  basic_pinned_memory<Backend> found_;
  std::vector<detail::stage<Backend>> stages_{};
  std::size_t next_ = 0;
  basic_device_memory<Backend> device_;
  std::vector<batch_view> shapes_;  // of each group: block size, number of blocks, retention
  std::vector<device_work> works_;  // views point into it
  std::vector<batch_view> given_;
  std::vector<std::int64_t> entries_;
  std::vector<uploaded_step> facts_{};
};

using step_tables = basic_step_tables<>;

}  // namespace pagoda::cuda
