// SPDX-License-Identifier: Apache-2.0
// A trained model and its tokenizer: the expected text is exactly the tokens that made it.
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "byte_reader.hpp"
#include "generation.hpp"
#include "model.hpp"
#include "stories_files.hpp"
#include "tokenizer.hpp"

TEST_CASE("the text is generated, and encodes to the tokens that made it") {
  const std::filesystem::path directory = data_directory() / "stories260K";
  if (!have_files(directory)) return;
  const model weights = parse_model(read_file((directory / "stories260K.bin").string()));
  const tokenizer words(read_file((directory / "tok512.bin").string()), weights.config.vocabulary);
  const std::vector<std::byte> expected_bytes = read_file((directory / "expected_t0_n200.txt").string());
  const std::string expected(reinterpret_cast<const char*>(expected_bytes.data()), expected_bytes.size());
  REQUIRE(expected.size() == 464);

  pagoda::host::thread_pool pool(1);
  transformer engine(weights, pool);
  kv_cache cache(weights.config.kv_shape(), {.dtype = "float", .max_tokens = 200});
  std::string text;
  const std::vector<std::int32_t> beginning = {tokenizer::beginning};
  const generation result = generate(engine, cache, beginning, 200, 64, [&](std::int32_t previous, std::int32_t token) {
    text += words.decode(previous, token);
  });
  CHECK(text == expected);

  const std::vector<std::int32_t> generated(result.tokens.begin() + 1, result.tokens.end());
  CHECK(generated.size() == 200);
  CHECK(words.encode(expected) == generated);
}
