// SPDX-License-Identifier: Apache-2.0
// cp.async: data lands in shared memory only at a wait that covers its group.
#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

/// [shared], [global], size, and optionally how many bytes are read. cp.async.cg copies 16 bytes, .ca 4, 8 or 16.
template <bool Cached, bool Partial>
void execute_copy(warp& w, const instruction& i, std::uint32_t lanes) {
  for_each_lane(lanes, [&](int lane) {
    const auto bytes = static_cast<std::uint32_t>(w.row(i, 2)[lane]);
    if (bytes != 16 && !(Cached && (bytes == 4 || bytes == 8))) {
      w.fail(i, lane, "cp.async cannot copy " + std::to_string(bytes) + " bytes");
    }
    std::uint32_t valid = bytes;
    if constexpr (Partial) {
      valid = static_cast<std::uint32_t>(w.row(i, 3)[lane]);
      if (valid > bytes) w.fail(i, lane, "cp.async reads " + std::to_string(valid) + " bytes, more than it copies");
    }
    const std::uint64_t to = w.row(i, 0)[lane] + static_cast<std::uint64_t>(i.offset[0]);
    const std::uint64_t from = w.row(i, 1)[lane] + static_cast<std::uint64_t>(i.offset[1]);
    const std::uint32_t offset = resolve_shared(w, i, lane, to, bytes);
    if (from % bytes != 0) {
      w.fail(i, lane, "misaligned: the source of a cp.async of " + std::to_string(bytes) + " bytes");
    }
    // What is not read need not exist.
    const std::byte* source = nullptr;
    if (valid != 0) {
      source = resolve_global(w, i, lane, from, 1);
      resolve_global(w, i, lane, from + valid - 1, 1);
    }
    const std::string why = w.owner().shared.begin_copy(w.thread_of(lane), offset, bytes);
    if (!why.empty()) w.fail(i, lane, why);
    w.copies(lane).copies.push_back({offset, bytes, valid, source});
    ++w.copies(lane).open;
  });
}

void execute_commit(warp& w, const instruction&, std::uint32_t lanes) {
  for_each_lane(lanes, [&](int lane) {
    async_queue& queue = w.copies(lane);
    queue.groups.push_back(queue.open);
    queue.open = 0;
  });
}

/// Lands the oldest groups of a lane, all but `in_flight`.
void land(warp& w, const instruction& i, int lane, std::uint64_t in_flight) {
  async_queue& queue = w.copies(lane);
  if (queue.groups.size() <= in_flight) return;
  const auto groups = static_cast<std::ptrdiff_t>(queue.groups.size() - in_flight);
  std::ptrdiff_t copies = 0;
  for (std::ptrdiff_t g = 0; g < groups; ++g)
    copies += static_cast<std::ptrdiff_t>(queue.groups[static_cast<std::size_t>(g)]);
  for (std::ptrdiff_t c = 0; c < copies; ++c) {
    const async_copy& copy = queue.copies[static_cast<std::size_t>(c)];
    const std::string why =
        w.owner().shared.land_copy(w.thread_of(lane), copy.offset, copy.bytes, copy.from, copy.valid);
    if (!why.empty()) w.fail(i, lane, why);
  }
  queue.copies.erase(queue.copies.begin(), queue.copies.begin() + copies);
  queue.groups.erase(queue.groups.begin(), queue.groups.begin() + groups);
}

void execute_wait_group(warp& w, const instruction& i, std::uint32_t lanes) {
  const std::uint64_t* in_flight = w.row(i, 0);
  for_each_lane(lanes, [&](int lane) { land(w, i, lane, in_flight[lane]); });
}

void execute_wait_all(warp& w, const instruction& i, std::uint32_t lanes) {
  execute_commit(w, i, lanes);
  for_each_lane(lanes, [&](int lane) { land(w, i, lane, 0); });
}

template <bool Cached>
void add_copy(opcode_table& table, const std::string& mnemonic) {
  for (const char* hint : {"", ".L2::64B", ".L2::128B", ".L2::256B"}) {
    table.add(mnemonic + hint + "/aa1", {&execute_copy<Cached, false>});
    table.add(mnemonic + hint + "/aa11", {&execute_copy<Cached, true>});
  }
}

}  // namespace

void add_async_opcodes(opcode_table& table) {
  for (const char* shared : {".shared", ".shared::cta"}) {
    add_copy<false>(table, std::string("cp.async.cg") + shared + ".global");
    add_copy<true>(table, std::string("cp.async.ca") + shared + ".global");
  }
  table.add("cp.async.commit_group/", {&execute_commit});
  table.add("cp.async.wait_group/1", {&execute_wait_group});
  table.add("cp.async.wait_all/", {&execute_wait_all});
}

}  // namespace pagoda_test::ptx
