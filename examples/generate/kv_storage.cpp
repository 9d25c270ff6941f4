// SPDX-License-Identifier: Apache-2.0
#include "kv_storage.hpp"

#include <pagoda/pagoda.hpp>

namespace {

using dtypes = pagoda::type_list<pagoda::identity<float>, pagoda::identity<pagoda::half>,
                                 pagoda::identity<pagoda::bfloat16>, pagoda::int8_per_token>;
using layouts = pagoda::type_list<pagoda::heads_tokens_dim, pagoda::tokens_heads_dim>;

/// The interface over one type of storage.
template <class Quantizer, class Layout>
class typed_storage final : public kv_storage {
 public:
  typed_storage(const pagoda::storage_shape& shape, std::int32_t block_size, pagoda::num_blocks blocks)
      : storage_(shape, block_size, blocks) {}

  void execute(const pagoda::copy_list& copies) override { pagoda::host::execute(storage_, copies); }

  void append(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> keys,
              pagoda::rows_view<const float> values, pagoda::host::thread_pool& pool) override {
    pagoda::host::append(storage_.view(layer, step), keys, values, pool);
  }

  void attention(std::int32_t layer, const pagoda::step& step, pagoda::rows_view<const float> queries,
                 pagoda::rows_view<float> output, pagoda::host::thread_pool& pool) const override {
    // Window 0: each query sees what the layer group retains.
    pagoda::host::attention(storage_.view(layer, step), queries, output, {.causal = true, .window = 0}, pool);
  }

  std::int64_t bytes_per_token() const override { return storage_type::bytes_per_token(storage_.shape()); }
  std::int64_t size_bytes() const override { return storage_.size_bytes(); }

 private:
  using storage_type = pagoda::block_storage<Quantizer, Quantizer, Layout>;
  storage_type storage_;
};

}  // namespace

std::unique_ptr<kv_storage> make_kv_storage(std::string_view dtype, std::string_view layout,
                                            const pagoda::storage_shape& shape, std::int32_t block_size,
                                            pagoda::num_blocks blocks) {
  return pagoda::dispatch(dtypes{}, dtype, [&](auto dtype_tag) {
    return pagoda::dispatch(layouts{}, layout, [&](auto layout_tag) -> std::unique_ptr<kv_storage> {
      using quantizer_type = typename decltype(dtype_tag)::type;
      using layout_type = typename decltype(layout_tag)::type;
      return std::make_unique<typed_storage<quantizer_type, layout_type>>(shape, block_size, blocks);
    });
  });
}
