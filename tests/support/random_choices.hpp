// SPDX-License-Identifier: Apache-2.0
/// @file What random tests of prefix sharing draw: configurations, histories, advice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

#include <pagoda/manager_config.hpp>

#include "text_model.hpp"

namespace pagoda_test {

class random_choices {
 protected:
  explicit random_choices(std::uint64_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  bool chance(std::int64_t percent) { return below(100) < percent; }
  template <class T>
  T any_of(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<std::int64_t>(list.size()))];
  }

  std::uint64_t draw() { return random_(); }

  /// Small pools, so that something is evicted all the time.
  pagoda::manager_config configuration() {
    pagoda::manager_config config;
    config.block_size = any_of({1, 2, 4, 4, 8, 16});
    config.max_sequences = static_cast<std::int32_t>(3 + below(9));
    config.max_batch = chance(70) ? 0 : static_cast<std::int32_t>(1 + below(config.max_sequences));
    config.max_open_steps = static_cast<std::int32_t>(1 + below(3));
    config.max_resident_tokens = chance(75) ? 0 : (1 + below(12)) * config.block_size;
    config.reuse = chance(50) ? pagoda::reuse_rule::on_completion : pagoda::reuse_rule::stream_ordered;
    config.prefix_seed = random_();
    config.prefix_hash_bits = any_of({64, 64, 2, 0});
    config.max_events = 4096;
    config.track_reuse = chance(30);
    const std::int64_t groups = chance(50) ? 1 : 2 + below(2);
    for (std::int32_t g = 0; g < groups; ++g) {
      pagoda::layer_group group{.num_blocks = static_cast<std::int32_t>(4 + below(16)), .layers = {g}};
      const std::int64_t kind = below(4);
      if (kind >= 2) group.keep.window = 1 + below(3 * config.block_size);
      if (kind == 3) group.keep.sinks = below(2 * config.block_size + 1);
      config.groups.push_back(group);
    }
    return config;
  }

  /// How often histories go ways of their own, and whether they have contents.
  void choose_texts(std::int32_t block_size) {
    turn_aside_ = chance(30) ? 0 : 1 + 100 / (3 * block_size);
    contents_ = chance(50);
  }

  /// Goes on as others would that have the same beginning, but for a turn now and then.
  void extend(text& script, std::int64_t size) {
    while (script.size() < size) {
      const std::uint64_t draw = chance(turn_aside_) ? random_() : script.last();
      if (contents_ && draw % 11 == 0) {
        script.push_content(1 + static_cast<std::int64_t>((draw >> 8) % 7), static_cast<int>(draw >> 16 & 1));
      } else {
        script.push(static_cast<std::int32_t>(draw % 3));
      }
    }
  }

  text fresh(std::int64_t size) {
    text script(chance(70) ? 0 : static_cast<int>(below(pagoda_test::num_domains)));
    extend(script, size);
    return script;
  }

  pagoda::block_advice some_advice(std::int64_t now) {
    if (chance(70)) return {};
    pagoda::block_advice advice;
    if (chance(60)) advice.priority = static_cast<std::int32_t>(below(5) * 25);
    if (chance(40)) advice.expires = now + below(6);
    advice.pinned = chance(15);
    return advice;
  }

  /// Empty if the call throws an Exception.
  template <class Exception, class Call>
  static std::string refused(Call call) {
    try {
      call();
    } catch (const Exception&) {
      return "";
    }
    return "a call that had to be refused went through";
  }

 private:
  std::mt19937_64 random_;
  std::int64_t turn_aside_ = 0;  // percent
  bool contents_ = false;
};

}  // namespace pagoda_test
