// SPDX-License-Identifier: Apache-2.0
// Control, barriers and fences. The scheduler of warp.cpp does what these are for; few have a function.
#include "ptx/lanes.hpp"

namespace pagoda_test::ptx {
namespace {

void execute_nothing(warp&, const instruction&, std::uint32_t) {}

void execute_trap(warp& w, const instruction& i, std::uint32_t lanes) {
  w.fail(i, __builtin_ctz(lanes), "the kernel traps");
}

/// All lanes of the mask have come: what they wrote to shared memory before is ordered before what they read after.
void execute_warp_barrier(warp& w, const instruction& i, std::uint32_t lanes) {
  if (lanes != w.present()) {
    w.fail(i, __builtin_ctz(lanes),
           "bar.warp.sync of a part of the warp: the checks of shared memory know only whole warps");
  }
  w.owner().shared.warp_barrier(w.thread_of(0) / 32);
}

}  // namespace

void add_control_opcodes(opcode_table& table) {
  for (const char* branch : {"bra/l", "bra.uni/l"}) table.add(branch, {&execute_nothing, flow::branch});
  for (const char* end : {"ret/", "exit/", "ret.uni/"}) table.add(end, {&execute_nothing, flow::exit});
  for (const char* barrier : {"bar.sync/1", "barrier.sync/1", "barrier.sync.aligned/1", "bar.cta.sync/1"}) {
    table.add(barrier, {&execute_nothing, flow::barrier});
  }
  table.add("bar.warp.sync/1", {&execute_warp_barrier, flow::collective});
  table.add("trap/", {&execute_trap});
  for (const char* order : {"membar.cta/", "membar.gl/", "membar.sys/", "fence.acq_rel.cta/", "fence.acq_rel.gpu/",
                            "fence.acq_rel.sys/", "fence.sc.gpu/", "fence.sc.sys/"}) {
    table.add(order, {&execute_nothing});
  }
}

}  // namespace pagoda_test::ptx
