// SPDX-License-Identifier: Apache-2.0
// An eviction policy of one's own: the deepest block of a prefix goes first, so that the beginnings, which many
// requests share, stay. It is checked, given to a block manager, and compared with lru on requests of eight
// applications, each with a system prompt of its own. (Conversations, which come back for their deepest blocks, would
// fare better with lru.)
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <pagoda/conformance/eviction.hpp>
#include <pagoda/pagoda.hpp>

class deepest_first {
 public:
  static constexpr std::string_view name = "deepest_first";
  explicit deepest_first(std::int32_t num_blocks) : order_(num_blocks) {}

  void insert(const pagoda::cached_block& block) noexcept { order_.push(block.id, {-block.depth, ++inserted_}); }
  void erase(pagoda::block_id id) noexcept { order_.erase(id); }
  pagoda::block_id evict() noexcept { return order_.pop_front(); }
  std::int32_t size() const noexcept { return order_.size(); }

 private:
  pagoda::block_heap<std::pair<std::int32_t, std::uint64_t>> order_;  // the smallest key goes first
  std::uint64_t inserted_ = 0;                                        // among equals, the block cached longest ago
};
static_assert(pagoda::eviction_policy<deepest_first>);

namespace {

constexpr int applications = 8;
constexpr int prompt_tokens = 512;    // of an application, the same for all of its requests
constexpr int question_tokens = 700;  // of a request, like no other's

// The share of the requests' blocks that need not be computed.
template <class Policy>
double hit_rate() {
  pagoda::block_manager manager({.groups = {{.num_blocks = 400}}}, pagoda::evict_by<Policy>);
  std::vector<std::int32_t> tokens(prompt_tokens + question_tokens);
  for (int request = 0; request < 400; ++request) {
    for (int i = 0; i < prompt_tokens; ++i) tokens[static_cast<std::size_t>(i)] = request % applications;
    for (int i = prompt_tokens; i < prompt_tokens + question_tokens; ++i) {
      tokens[static_cast<std::size_t>(i)] = applications + request;
    }
    const auto count = static_cast<std::int32_t>(tokens.size());
    auto found = manager.match({.tokens = tokens}, count - 1);  // the last token is computed, for its logits
    const auto rest = count - static_cast<std::int32_t>(found.tokens());
    auto sequence = manager.make_sequence(std::move(found));
    auto step = manager.plan({{sequence, rest}});
    step.commit();  // after the layers have run
    manager.publish(sequence, {.tokens = tokens});
  }  // the sequence ends; its blocks stay in the prefix index until they are needed
  const pagoda::manager_stats stats = manager.snapshot();
  return static_cast<double>(stats.hits) / static_cast<double>(stats.lookups);
}

}  // namespace

int main() {
  const auto report = pagoda::conformance::check_eviction<deepest_first>();
  std::printf("%s: %d checks, %zu faults\n", deepest_first::name.data(), report.checks, report.faults.size());
  for (const std::string& fault : report.faults) std::printf("  %s\n", fault.c_str());

  const double own = hit_rate<deepest_first>();
  const double built_in = hit_rate<pagoda::lru>();
  std::printf("hit rate: %s %.3f, %s %.3f\n", deepest_first::name.data(), own, pagoda::lru::name.data(), built_in);
  return report.ok() && own > built_in ? 0 : 1;
}
