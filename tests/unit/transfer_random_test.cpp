// SPDX-License-Identifier: Apache-2.0
// Random lives over three tiers: whatever moved, forked, grew, was truncated, evicted or found again, every sequence
// reads the tokens that were written for it. The copies of a transfer run late, as on a stream of their own.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <pagoda/block_manager.hpp>
#include <pagoda/eviction/built_in.hpp>

#include "manager_support.hpp"

namespace {

using pagoda::block_id;
using pagoda::block_manager;
using pagoda::sequence;
using pagoda_test::faults;

constexpr std::int32_t block_size = 4;
constexpr int groups = 2;
constexpr pagoda::retention window{.sinks = 3, .window = 11};

pagoda::manager_config tier_config(std::int32_t blocks) {
  return {.groups = {{.num_blocks = blocks, .layers = {0}}, {.num_blocks = blocks / 2, .keep = window, .layers = {1}}},
          .block_size = block_size,
          .max_sequences = 12,
          .reuse = pagoda::reuse_rule::on_completion};
}

/// A manager and, for each slot of its blocks, the number that was written there.
struct tier {
  tier(std::int32_t blocks, auto policy) : manager(tier_config(blocks), policy) {
    for (auto& slots : storage) slots.assign(static_cast<std::size_t>(blocks * block_size), -1);
  }
  std::int64_t& slot(int group, block_id block, std::int64_t token) {
    const std::int64_t place = static_cast<std::int64_t>(block) * block_size + token % block_size;
    return storage[group][static_cast<std::size_t>(place)];
  }
  void copy_block(int group, block_id from, tier& source, block_id to) {
    for (int i = 0; i < block_size; ++i) slot(group, to, i) = source.slot(group, from, i);
  }

  block_manager manager;
  std::vector<std::int64_t> storage[groups];
};

struct request {
  std::size_t at;  // its tier
  sequence handle;
  std::vector<std::int32_t> tokens;
  bool busy = false;  // a copy of it is on its way
};

class lives {
 public:
  explicit lives(std::uint32_t seed) : random_(seed) {
    tiers_.emplace_back(14, pagoda::evict_by<pagoda::lru>);
    tiers_.emplace_back(25, pagoda::evict_by<pagoda::lfu>);
    tiers_.emplace_back(40, pagoda::evict_by<pagoda::fifo>);
  }

  void turn() {
    const int what = pick(100);
    if (what < 14) return make();
    if (what < 45) return grow();
    if (what < 52) return fork();
    if (what < 56) return truncate();
    if (what < 66) return publish();
    if (what < 78) return move();
    if (what < 95) return arrive();
    end();
  }

  /// Empty if every sequence reads its own tokens and all books are right.
  std::string check() {
    for (tier& each : tiers_) {
      if (const std::string found = faults(each.manager); !found.empty()) return found;
    }
    for (const request& each : requests_) {
      if (each.handle.position() != static_cast<std::int64_t>(each.tokens.size())) return "a position is wrong";
      if (each.busy) continue;
      for (int group = 0; group < groups; ++group) {
        if (!reads_its_own(each, group)) return "a sequence reads what is not its own";
      }
    }
    return {};
  }

  std::int64_t moves = 0;
  std::int64_t shared_moves = 0;
  std::int64_t refused_moves = 0;
  std::int64_t hits = 0;
  std::int64_t evictions() {
    std::int64_t sum = 0;
    for (const tier& each : tiers_) sum += each.manager.snapshot().evictions;
    return sum;
  }

 private:
  struct delivery {
    std::size_t from;
    std::size_t to;
    pagoda::copy_list copies;
    pagoda::ticket read;
    pagoda::ticket written;
  };

  int pick(int end) { return static_cast<int>(random_() % static_cast<std::uint32_t>(end)); }
  request* any() {
    if (requests_.empty()) return nullptr;
    request& chosen = requests_[static_cast<std::size_t>(pick(static_cast<int>(requests_.size())))];
    return chosen.busy ? nullptr : &chosen;
  }

  static std::int64_t number_of(const std::vector<std::int32_t>& tokens, std::size_t end) {
    std::int64_t state = 17;  // keys and values depend on all tokens before
    for (std::size_t i = 0; i <= end; ++i) state = state * 1000003 % 2147483647 + tokens[i];
    return state;
  }

  block_id block_of(tier& where, const request& each, int group, std::int64_t token) {
    const auto table = where.manager.blocks(each.handle, group);
    const std::int64_t dropped = (each.handle.position() - each.handle.resident(group)) / block_size;
    const std::int64_t logical = token / block_size;
    const std::int64_t sinks = group == 0 ? 0 : 1;
    return table[static_cast<std::size_t>(logical < sinks ? logical : logical - dropped)];
  }

  bool reads_its_own(const request& each, int group) {
    const auto length = static_cast<std::int64_t>(each.tokens.size());
    for (std::int64_t t = 0; t < length; ++t) {
      const bool kept = group == 0 || t < window.sinks || t > length - window.window;
      if (!kept) continue;
      tier& where = tiers_[each.at];
      if (where.slot(group, block_of(where, each, group, t), t) !=
          number_of(each.tokens, static_cast<std::size_t>(t))) {
        return false;
      }
    }
    return true;
  }

  void make() {
    const auto at = static_cast<std::size_t>(pick(2));
    block_manager& manager = tiers_[at].manager;
    if (pick(2) == 0) end();
    if (requests_.size() >= 9 || manager.snapshot().sequences >= 10) return;
    std::vector<std::int32_t> prompt;
    for (int i = pick(30); i >= 0; --i) prompt.push_back(pick(2) == 0 ? 1 : 2 + pick(2));
    pagoda::prefix_match hit = manager.match({prompt}, static_cast<std::int64_t>(prompt.size()) - 1);
    hits += hit.tokens();
    prompt.resize(static_cast<std::size_t>(hit.tokens()));
    requests_.push_back({at, manager.make_sequence(std::move(hit)), std::move(prompt)});
  }

  void grow() {
    request* each = any();
    if (each == nullptr) return;
    tier& where = tiers_[each->at];
    const std::int32_t count = 1 + pick(9);
    auto step = where.manager.try_plan({{each->handle, count}});
    if (!step) return;
    const pagoda::copy_list copies = step->take_copies();
    for (int group = 0; group < groups; ++group) {
      for (const pagoda::block_copy& copy : copies.blocks(group)) where.copy_block(group, copy.from, where, copy.to);
    }
    for (std::int32_t i = 0; i < count; ++i) {
      each->tokens.push_back(pick(2) == 0 ? 1 : 2 + pick(2));
      const auto last = each->tokens.size() - 1;
      for (int group = 0; group < groups; ++group) {
        where.slot(group, block_of(where, *each, group, static_cast<std::int64_t>(last)),
                   static_cast<std::int64_t>(last)) = number_of(each->tokens, last);
      }
    }
    const std::int32_t kept[] = {pick(4) == 0 ? pick(count + 1) : count};
    each->tokens.resize(each->tokens.size() - static_cast<std::size_t>(count - kept[0]));
    const pagoda::ticket issued = step->issued();
    step->commit(kept);
    if (!on_its_way(each->at)) where.manager.complete(issued);
  }

  void fork() {
    const request* parent = any();
    if (parent == nullptr || requests_.size() >= 9 || tiers_[parent->at].manager.snapshot().sequences >= 10) return;
    requests_.push_back({parent->at, tiers_[parent->at].manager.fork(parent->handle), parent->tokens});
  }

  void truncate() {
    request* each = any();
    if (each == nullptr) return;
    const int length = pick(static_cast<int>(each->tokens.size()) + 1);
    try {
      tiers_[each->at].manager.truncate(each->handle, length);
      each->tokens.resize(static_cast<std::size_t>(length));
    } catch (const pagoda::invalid_argument&) {  // a window has dropped what it would need
    }
  }

  void publish() {
    const request* each = any();
    if (each != nullptr) tiers_[each->at].manager.publish(each->handle, {each->tokens});
  }

  void end() {
    if (any() == nullptr) return;
    requests_.erase(requests_.begin() + pick(static_cast<int>(requests_.size())));
  }

  /// Moves some of the sequences of a tier; the old ones end at once, or stay.
  void move() {
    const auto from = static_cast<std::size_t>(pick(3));
    const std::size_t to = (from + 1 + static_cast<std::size_t>(pick(2))) % 3;
    std::vector<std::size_t> chosen;
    std::vector<pagoda::sequence_id> ids;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i].at != from || requests_[i].busy || pick(3) == 0) continue;
      chosen.push_back(i);
      ids.push_back(requests_[i].handle);
    }
    try {
      pagoda::transferred made = transfer(tiers_[from].manager, ids, tiers_[to].manager);
      check_sharing(from, to, ids, made);
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        request& each = requests_[chosen[i]];
        std::swap(each.handle, made.sequences[i]);
        each.busy = true;
        each.at = to;
        // The old one goes on, or ends here; its blocks are still to be read.
        const bool stays = pick(5) == 0 && requests_.size() < 9;
        std::vector<std::int32_t> tokens = each.tokens;
        if (stays) requests_.push_back({from, std::move(made.sequences[i]), std::move(tokens)});
      }
      moves += chosen.empty() ? 0 : 1;
      deliveries_.push_back({from, to, std::move(made.copies), made.read, made.written});
    } catch (const pagoda::out_of_blocks&) {
      ++refused_moves;
    } catch (const pagoda::capacity_exceeded&) {
      ++refused_moves;
    }
  }

  /// Two places hold one block on one side if they do on the other, and each block is copied once.
  void check_sharing(std::size_t from, std::size_t to, const std::vector<pagoda::sequence_id>& ids,
                     const pagoda::transferred& made) {
    for (int group = 0; group < groups; ++group) {
      std::map<block_id, block_id> there;
      std::map<block_id, block_id> back;
      std::size_t places = 0;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto old = tiers_[from].manager.blocks(ids[i], group);
        const auto twin = tiers_[to].manager.blocks(made.sequences[i], group);
        REQUIRE(old.size() == twin.size());
        for (std::size_t k = 0; k < old.size(); ++k) {
          REQUIRE(there.emplace(old[k], twin[k]).first->second == twin[k]);
          REQUIRE(back.emplace(twin[k], old[k]).first->second == old[k]);
        }
        places += old.size();
      }
      REQUIRE(made.copies.blocks(group).size() == there.size());
      for (const pagoda::block_copy& copy : made.copies.blocks(group)) REQUIRE(there.at(copy.from) == copy.to);
      shared_moves += there.size() < places ? 1 : 0;
    }
  }

  bool on_its_way(std::size_t at) const {
    return std::any_of(deliveries_.begin(), deliveries_.end(),
                       [&](const delivery& each) { return each.from == at || each.to == at; });
  }

  /// The oldest copies run now.
  void arrive() {
    if (deliveries_.empty()) return;
    const delivery& oldest = deliveries_.front();
    for (int group = 0; group < groups; ++group) {
      for (const pagoda::block_copy& copy : oldest.copies.blocks(group)) {
        tiers_[oldest.to].copy_block(group, copy.from, tiers_[oldest.from], copy.to);
      }
    }
    tiers_[oldest.from].manager.complete(oldest.read);
    tiers_[oldest.to].manager.complete(oldest.written);
    deliveries_.pop_front();
    for (request& each : requests_) each.busy = each.busy && on_its_way(each.at);
  }

  std::mt19937 random_;
  std::deque<tier> tiers_;
  std::vector<request> requests_;
  std::deque<delivery> deliveries_;
};

TEST_CASE("random lives over three tiers") {
  std::int64_t moves = 0;
  std::int64_t shared_moves = 0;
  std::int64_t refused_moves = 0;
  std::int64_t hits = 0;
  std::int64_t evictions = 0;
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    lives world(seed);
    for (int turn = 0; turn < 500; ++turn) {
      CAPTURE(turn);
      world.turn();
      REQUIRE(world.check() == "");
    }
    moves += world.moves;
    shared_moves += world.shared_moves;
    refused_moves += world.refused_moves;
    hits += world.hits;
    evictions += world.evictions();
  }
  CHECK(moves > 500);
  CHECK(shared_moves > 100);
  CHECK(refused_moves > 20);
  CHECK(hits > 1000);
  CHECK(evictions > 100);
}

}  // namespace
