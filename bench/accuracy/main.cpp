// SPDX-License-Identifier: Apache-2.0
// What every quantizer costs in accuracy, as a table in Markdown.
//
//   accuracy                                      sizes and errors of coded rows
//   accuracy --model FILE --tokenizer FILE        and perplexity of a model in llama2.c's format, such as stories260K
//   accuracy --speed --model F --tokenizer F      the speed of generation beside that of plain loops, instead
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <pagoda/block_storage.hpp>
#include <pagoda/quantizer/built_in.hpp>

#include "row_errors.hpp"
#include "story.hpp"

namespace {

using namespace pagoda_bench;

struct arguments {
  std::string model;
  std::string tokenizer;
  bool speed = false;
};

arguments parse(const std::vector<std::string>& given) {
  constexpr const char* usage = ": usage is accuracy [--speed] [--model FILE --tokenizer FILE]";
  arguments result;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == "--speed") {
      result.speed = true;
    } else if ((given[i] == "--model" || given[i] == "--tokenizer") && i + 1 < given.size()) {
      (given[i] == "--model" ? result.model : result.tokenizer) = given[i + 1];
      ++i;
    } else {
      throw std::runtime_error("\"" + given[i] + "\" is no option, or lacks its file" + usage);
    }
  }
  if (result.model.empty() != result.tokenizer.empty()) {
    throw std::runtime_error(std::string("a model and its tokenizer go together") + usage);
  }
  if (result.speed && result.model.empty()) throw std::runtime_error(std::string("--speed needs a model") + usage);
  return result;
}

/// A cell of the table with what ends it; blank where there is no number.
std::string cell(const char* format, std::optional<double> value) {
  if (!value) return " |";
  char text[32];
  std::snprintf(text, sizeof(text), format, *value);
  return std::string(" ").append(text).append(" |");
}

/// Two significant digits, the second even if it is 0.
std::string error_cell(std::optional<double> value) {
  return cell(value == 0.0 ? "%.0f" : "%#.2g", value);
}

template <class List, class T>
inline constexpr bool contains_v = false;
template <class... Types, class T>
inline constexpr bool contains_v<pagoda::type_list<Types...>, T> = (std::is_same_v<Types, T> || ...);

/// f(type_tag<hadamard<Quantizer>>) if the library lists it.
template <class Quantizer, class Function>
std::optional<double> if_rotated(Function&& f) {
  using rotated = pagoda::hadamard<Quantizer>;
  if constexpr (contains_v<pagoda::built_in_quantizers, rotated>) return f(pagoda::type_tag<rotated>{});
  return std::nullopt;
}

template <class Quantizer>
void print_row(const std::vector<float>& gaussian, const std::vector<float>& outliers, story* model) {
  constexpr pagoda::storage_shape shape{.layers = 1, .kv_heads = 8, .head_dim = error_dim};
  const double bits =
      8.0 *
      static_cast<double>(pagoda::row_bytes<Quantizer>(error_dim) + pagoda::row_scale_bytes<Quantizer>(error_dim)) /
      static_cast<double>(error_dim);
  const auto error = [](const std::vector<float>& rows) {
    return [&rows]<class Q>(pagoda::type_tag<Q>) { return std::optional(coding_error<Q>(rows)); };
  };
  const pagoda::type_tag<Quantizer> plain;
  std::printf("| %s |%s %lld |", std::string(Quantizer::name).c_str(), cell("%.4g", bits).c_str(),
              static_cast<long long>(pagoda::block_storage<Quantizer>::bytes_per_token(shape)));
  for (const std::vector<float>* rows : {&gaussian, &outliers}) {
    std::printf("%s%s", error_cell(error(*rows)(plain)).c_str(),
                error_cell(if_rotated<Quantizer>(error(*rows))).c_str());
  }
  if (model != nullptr) {
    const auto ratio = [&]<class Q>(pagoda::type_tag<Q>) { return model->perplexity_ratio(Q::name); };
    std::printf("%s%s", cell("%.4f", ratio(plain)).c_str(), cell("%.4f", if_rotated<Quantizer>(ratio)).c_str());
  }
  std::printf("\n");
}

void print_errors(story* model) {
  std::printf(
      "| KV dtype | bits an element | bytes a token | error, Gaussian rows | rotated | "
      "error, outlier channels | rotated |");
  if (model != nullptr) std::printf(" perplexity ratio | rotated |");
  std::printf("\n|---|---|---|---|---|---|---|%s\n", model == nullptr ? "" : "---|---|");
  const std::vector<float> gaussian = rows_to_code(false);
  const std::vector<float> outliers = rows_to_code(true);
  [&]<class... Types>(pagoda::type_list<Types...>) {
    const auto print = [&]<class Q>(pagoda::type_tag<Q>) {
      if constexpr (!pagoda::is_rotated_v<Q>) print_row<Q>(gaussian, outliers, model);
    };
    (print(pagoda::type_tag<Types>{}), ...);
  }(pagoda::built_in_quantizers{});
  std::printf(
      "\nBits with scales, head_dim %lld; bytes of one layer with 8 kv heads. Errors: relative L2 of %lld rows; "
      "outliers: 4 channels 20 times as large. Rotated: as hadamard<Q>.",
      static_cast<long long>(error_dim), static_cast<long long>(error_rows));
  if (model != nullptr) {
    std::printf(" Perplexity over that of a float cache, head_dim %d: blank where groups do not fit.",
                static_cast<int>(model->head_dim()));
  }
  std::printf("\n");
}

void print_speeds(story& model) {
  std::printf("| KV type | block size | speed over plain loops |\n|---|---|---|\n");
  for (const char* kv : {"float", "half", "int8"}) {
    for (const std::int32_t block_size : {16, 64}) {
      std::printf("| %s | %d | %.2f |\n", kv, static_cast<int>(block_size), model.speed_ratio(kv, block_size));
    }
  }
}

void run(const arguments& given) {
  std::optional<story> model;
  if (!given.model.empty()) model.emplace(given.model, given.tokenizer);
  if (given.speed) {
    print_speeds(*model);
  } else {
    print_errors(model ? &*model : nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse({argv + 1, argv + argc}));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "accuracy: " << error.what() << '\n';
    return 1;
  }
}
