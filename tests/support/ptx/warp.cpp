// SPDX-License-Identifier: Apache-2.0
#include "ptx/warp.hpp"

#include <algorithm>
#include <limits>

namespace pagoda_test::ptx {
namespace {

constexpr std::uint32_t full = 0xffffffffu;
/// What a register holds that nobody has written: a NaN, and an address that no window holds.
constexpr std::uint64_t poison = 0xffffffffffffffffu;

std::uint64_t value_of(special_register which, const block& b, std::uint32_t thread) {
  const std::uint32_t lane = thread % 32;
  switch (which) {
    using enum special_register;
    case tid_x:
      return thread;
    case tid_y:
    case tid_z:
      return 0;
    case ntid_x:
      return static_cast<std::uint64_t>(b.threads);
    case ntid_y:
    case ntid_z:
      return 1;
    case ctaid_x:
      return b.index.x;
    case ctaid_y:
      return b.index.y;
    case ctaid_z:
      return b.index.z;
    case nctaid_x:
      return b.grid.x;
    case nctaid_y:
      return b.grid.y;
    case nctaid_z:
      return b.grid.z;
    case laneid:
      return lane;
    case warpid:
      return thread / 32;
    case nwarpid:
      return static_cast<std::uint64_t>((b.threads + 31) / 32);
    case lanemask_eq:
      return 1u << lane;
    case lanemask_lt:
      return (1u << lane) - 1;
    case lanemask_le:
      return (2u << lane) - 1;
    case lanemask_gt:
      return ~((2u << lane) - 1) & full;
    case lanemask_ge:
      return ~((1u << lane) - 1) & full;
    case total_shared:
      return b.shared.size();
    case dynamic_shared:
      return static_cast<std::uint64_t>(b.dynamic_shared_bytes);
  }
  return poison;
}

std::string lane_list(std::uint32_t lanes) {
  std::string result;
  for (int lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1) == 0) continue;
    int last = lane;
    while (last + 1 < 32 && (lanes >> (last + 1) & 1) != 0) ++last;
    result += (result.empty() ? "" : ", ") + std::to_string(lane);
    if (last > lane) result += " to " + std::to_string(last);
    lane = last;
  }
  return result;
}

}  // namespace

void warp::start(block& owner, int index) {
  owner_ = &owner;
  index_ = index;
  const int lanes = std::min(32, owner.threads - 32 * index);
  present_ = lanes == 32 ? full : (1u << lanes) - 1;
  exited_ = 0;
  registers_.assign(std::size_t{owner.code->slots} * 32, poison);
  for (const auto& [number, value] : owner.code->constants) std::fill_n(slot(number), 32, value);
  for (const auto& [number, which] : owner.code->special_slots) {
    for (int lane = 0; lane < 32; ++lane) slot(number)[lane] = value_of(which, owner, thread_of(lane));
  }
  ready_.assign(1, {0, present_});
  parked_.clear();
  at_barrier_.clear();
  copies_.fill({});
  for (auto& bytes : local_) bytes.assign(static_cast<std::size_t>(owner.code->local_bytes), std::byte{0xff});
}

void warp::insert(lane_group group) {
  auto at = std::lower_bound(ready_.begin(), ready_.end(), group.pc,
                             [](const lane_group& g, std::int32_t pc) { return g.pc < pc; });
  if (at != ready_.end() && at->pc == group.pc) {
    at->lanes |= group.lanes;
  } else {
    ready_.insert(at, group);
  }
}

void warp::run() {
  while (!ready_.empty()) {
    const lane_group first = ready_.front();
    ready_.erase(ready_.begin());
    run_group(first);
  }
  if (!parked_.empty()) fail_stuck();
}

std::uint32_t warp::enabled_lanes(const instruction& i, std::uint32_t lanes) {
  if (i.predicate < 0) return lanes;
  const std::uint64_t* predicate = slot(static_cast<std::uint32_t>(i.predicate));
  std::uint32_t set = 0;
  for (std::uint32_t lane = 0; lane < 32; ++lane) set |= static_cast<std::uint32_t>(predicate[lane] & 1) << lane;
  return lanes & (i.negated ? ~set : set);
}

void warp::run_group(lane_group group) {
  const instruction* code = owner_->code->code.data();
  const std::int32_t meeting = ready_.empty() ? std::numeric_limits<std::int32_t>::max() : ready_.front().pc;
  auto [pc, lanes] = group;
  for (;;) {
    if (pc >= meeting) return insert({pc, lanes});  // others wait there, or are behind now
    const instruction& i = code[pc];
    std::uint32_t on = enabled_lanes(i, lanes);
    if (on != 0) {
      instruction_count& count = owner_->counts[pc];
      ++count.warps;
      count.lanes += static_cast<std::uint64_t>(__builtin_popcount(on));
    }
    if (++*owner_->issued > owner_->options->instruction_limit) {
      fail(i, __builtin_ctz(lanes), "the launch does not end: machine_options::instruction_limit is reached");
    }
    if (i.op.kind == flow::lanes) {
      if (on != 0) i.op.execute(*this, i, on);
      ++pc;
      continue;
    }
    const std::uint32_t off = lanes & ~on;
    switch (i.op.kind) {
      case flow::branch:
        if (off == 0) {
          pc = i.target;
          continue;
        }
        if (on != 0) insert({i.target, on});
        return insert({pc + 1, off});
      case flow::exit:
        exited_ |= on;
        if (off != 0) insert({pc + 1, off});
        return;
      case flow::barrier:
        if (on != 0) at_barrier_.push_back({pc, on});
        if (off != 0) insert({pc + 1, off});
        return;
      default:
        if (on != 0) on = meet(pc, on);
        if (on != 0) i.op.execute(*this, i, on);
        if ((on | off) != 0) insert({pc + 1, on | off});
        return;
    }
  }
}

std::uint32_t warp::meet(std::int32_t pc, std::uint32_t lanes) {
  const auto same = std::find_if(parked_.begin(), parked_.end(), [&](const lane_group& g) { return g.pc == pc; });
  if (same != parked_.end()) {
    lanes |= same->lanes;
    parked_.erase(same);
  }
  const std::uint32_t complete = complete_lanes(owner_->code->code[static_cast<std::size_t>(pc)], lanes);
  if ((lanes & ~complete) != 0) parked_.push_back({pc, lanes & ~complete});
  return complete;
}

std::uint32_t warp::complete_lanes(const instruction& i, std::uint32_t lanes) {
  if (i.op.kind == flow::aligned) {
    if (lanes != full && (present_ != full || exited_ != 0)) {
      fail(i, __builtin_ctz(lanes),
           "an .aligned instruction with a partial warp: it needs all 32 lanes, and only " + lane_list(lanes) +
               " can come");
    }
    return lanes == full ? full : 0;
  }
  const std::uint64_t* masks = row(i, i.operand_count - 1);
  if (lanes == full) {
    bool whole = true;  // the usual case
    for (int lane = 0; lane < 32; ++lane) whole &= static_cast<std::uint32_t>(masks[lane]) == full;
    if (whole) return full;
  }
  std::uint32_t complete = 0;
  for_each_lane(lanes, [&](int lane) {
    const auto mask = static_cast<std::uint32_t>(masks[lane]);
    if ((mask >> lane & 1) == 0) fail(i, lane, "the member mask does not name the lane that calls");
    if (const std::uint32_t absent = mask & (~present_ | exited_); absent != 0) {
      fail(i, lane, "the member mask names absent lanes: " + lane_list(absent) + " ended or never were");
    }
    if ((mask & ~lanes) != 0) return;
    for_each_lane(mask, [&](int other) {
      if (static_cast<std::uint32_t>(masks[other]) != mask) {
        fail(i, lane, "lanes that meet here give different masks: lane " + std::to_string(other));
      }
    });
    complete |= 1u << lane;
  });
  return complete;
}

std::string warp::whereabouts(std::uint32_t lanes) const {
  std::string result;
  const auto add = [&](const std::vector<lane_group>& groups, const char* what) {
    for (const lane_group& g : groups) {
      if ((g.lanes & lanes) == 0) continue;
      const instruction& i = owner_->code->code[static_cast<std::size_t>(g.pc)];
      result += "; lanes " + lane_list(g.lanes & lanes) + what + " line " + std::to_string(i.line) + " (" +
                owner_->code->mnemonics[static_cast<std::size_t>(i.mnemonic)] + ")";
    }
  };
  add(parked_, " wait at");
  add(at_barrier_, " wait at the block's barrier,");
  if ((exited_ & lanes) != 0) result += "; lanes " + lane_list(exited_ & lanes) + " ended";
  if ((lanes & ~present_) != 0) result += "; lanes " + lane_list(lanes & ~present_) + " never were";
  return result;
}

void warp::fail_stuck() const {
  const lane_group& g = parked_.front();
  const instruction& i = owner_->code->code[static_cast<std::size_t>(g.pc)];
  const char* why = i.op.kind == flow::aligned ? "an .aligned instruction with a partial warp"
                                               : "the member mask names lanes that do not come";
  fail(i, __builtin_ctz(g.lanes), std::string(why) + whereabouts(full));
}

void warp::release() {
  for (const lane_group& g : at_barrier_) insert({g.pc + 1, g.lanes});
  at_barrier_.clear();
}

void warp::fail(const instruction& i, int lane, const std::string& why) const {
  const program& code = *owner_->code;
  throw fault({code.readable, owner_->index, static_cast<int>(thread_of(lane)), i.line,
               (*code.lines)[static_cast<std::size_t>(i.line - 1)]},
              why);
}

}  // namespace pagoda_test::ptx
