// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <cmath>
#include <cstdlib>

#include "byte_reader.hpp"

namespace {

void check_positive(const char* name, std::int64_t value) {
  if (value < 1) refuse("the model file has ", name, " ", value, ", but it must be at least 1: this is no model file");
}

struct header {
  model_config config;
  bool shared_classifier;
};

header read_header(byte_reader& file) {
  model_config config;
  config.dim = file.number<std::int32_t>("the header");
  config.hidden_dim = file.number<std::int32_t>("the header");
  config.layers = file.number<std::int32_t>("the header");
  config.heads = file.number<std::int32_t>("the header");
  config.kv_heads = file.number<std::int32_t>("the header");
  const auto vocabulary = std::int64_t{file.number<std::int32_t>("the header")};
  config.context_length = file.number<std::int32_t>("the header");

  check_positive("dim", config.dim);
  check_positive("hidden_dim", config.hidden_dim);
  check_positive("n_layers", config.layers);
  check_positive("n_heads", config.heads);
  check_positive("n_kv_heads", config.kv_heads);
  check_positive("the magnitude of vocab_size", std::abs(vocabulary));
  check_positive("seq_len", config.context_length);
  if (config.dim % config.heads != 0) {
    refuse("the model file has dim ", config.dim, ", which its ", config.heads, " heads do not divide: export it anew");
  }
  if (config.heads % config.kv_heads != 0) {
    refuse("the model file has ", config.heads, " heads, which its ", config.kv_heads,
           " kv heads do not divide: export it anew");
  }
  pagoda::check_range("the magnitude of vocab_size", std::abs(vocabulary), 1, INT32_MAX);
  config.vocabulary = static_cast<std::int32_t>(std::abs(vocabulary));
  pagoda::check_shape(config.kv_shape());
  return {config, vocabulary > 0};
}

std::int64_t product(const char* name, std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) result = pagoda::checked_multiply(result, factor, name);
  return result;
}

/// Bytes that must follow the header.
std::int64_t tensor_bytes(const header& header) {
  const model_config& c = header.config;
  const std::int64_t floats[] = {
      product("tok_emb", {c.vocabulary, c.dim}),
      product("rms_att and rms_ffn", {2, c.layers, c.dim}),
      product("wq and wo", {2, c.layers, c.dim, c.dim}),
      product("wk and wv", {2, c.layers, c.kv_dim(), c.dim}),
      product("w1, w2 and w3", {3, c.layers, c.hidden_dim, c.dim}),
      c.dim,
      product("rotary tables", {c.context_length, c.head_dim()}),
      header.shared_classifier ? 0 : product("wcls", {c.vocabulary, c.dim}),
  };
  std::int64_t sum = 0;
  for (const std::int64_t part : floats) sum = pagoda::checked_add(sum, part, "weights");
  return product("bytes of the weights", {sum, sizeof(float)});
}

std::vector<float> read_tensor(byte_reader& file, const char* name, std::int64_t size) {
  std::vector<float> values = file.floats(size, name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      refuse("the model file has ", values[i], " as element ", i, " of ", name,
             ", but weights must be finite: download the file again");
    }
  }
  return values;
}

matrix read_matrix(byte_reader& file, const char* name, std::int64_t rows, std::int64_t columns) {
  return {rows, columns, read_tensor(file, name, rows * columns)};
}

}  // namespace

model parse_model(std::span<const std::byte> bytes) {
  byte_reader file(bytes, "model file");
  const header header = read_header(file);
  const model_config& c = header.config;
  if (const std::int64_t needed = tensor_bytes(header); file.remaining() != needed) {
    refuse("the model file has ", file.remaining(), " bytes after its header, but a model of dim ", c.dim,
           ", hidden_dim ", c.hidden_dim, ", ", c.layers, " layers, ", c.heads, " heads, ", c.kv_heads, " kv heads, ",
           c.vocabulary, " tokens and context length ", c.context_length, " has ", needed,
           file.remaining() < needed ? ": it is truncated; download it again"
                                     : ": it has trailing bytes; pass a version-0 file of llama2.c");
  }

  // The file holds each tensor for all layers before the next tensor.
  model result;
  result.config = c;
  result.layers.resize(static_cast<std::size_t>(c.layers));
  result.embedding = read_tensor(file, "tok_emb", std::int64_t{c.vocabulary} * c.dim);
  for (auto& layer : result.layers) layer.attention_norm = read_tensor(file, "rms_att", c.dim);
  for (auto& layer : result.layers) layer.query = read_matrix(file, "wq", c.dim, c.dim);
  for (auto& layer : result.layers) layer.key = read_matrix(file, "wk", c.kv_dim(), c.dim);
  for (auto& layer : result.layers) layer.value = read_matrix(file, "wv", c.kv_dim(), c.dim);
  for (auto& layer : result.layers) layer.attention_output = read_matrix(file, "wo", c.dim, c.dim);
  for (auto& layer : result.layers) layer.feed_forward_norm = read_tensor(file, "rms_ffn", c.dim);
  for (auto& layer : result.layers) layer.gate = read_matrix(file, "w1", c.hidden_dim, c.dim);
  for (auto& layer : result.layers) layer.down = read_matrix(file, "w2", c.dim, c.hidden_dim);
  for (auto& layer : result.layers) layer.up = read_matrix(file, "w3", c.hidden_dim, c.dim);
  result.final_norm = read_tensor(file, "rms_final", c.dim);
  file.floats(std::int64_t{c.context_length} * c.head_dim(), "rotary tables");  // unused: the angles are computed
  result.classifier = header.shared_classifier ? matrix(c.vocabulary, c.dim, result.embedding)
                                               : read_matrix(file, "wcls", c.vocabulary, c.dim);
  return result;
}
