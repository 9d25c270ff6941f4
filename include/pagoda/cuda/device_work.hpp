// SPDX-License-Identifier: Apache-2.0
/// @file What a view of cuda::step_tables carries for the launchers: limits, scratch memory, what was uploaded last.
#pragma once

#include <cstdint>
#include <string_view>

#include <pagoda/attention/mask.hpp>
#include <pagoda/batch_view.hpp>
#include <pagoda/kernels/chunk_plan.hpp>
#include <pagoda/quantizer.hpp>

namespace pagoda::cuda {

/// The largest step that a cuda::step_tables holds. Its memory follows from them, and so do the grids of launches: a
/// captured graph serves every step within the same limits.
struct step_limits {
  std::int32_t sequences = 0;             ///< of a batch
  std::int32_t queries = 0;               ///< query rows of the whole batch
  std::int32_t new_tokens = 0;            ///< of the whole batch
  std::int64_t blocks = 0;                ///< block table entries of the whole batch, in any one layer group
  std::int32_t queries_per_sequence = 1;  ///< 1: decode; up to 8: speculation; more: prefill, too
  std::int32_t query_heads = 0;
  std::int32_t value_head_dim = 0;
  /// The largest head_dim, of keys or values, that a hadamard quantizer codes; 0: there is none. Work memory follows:
  /// two floats for each element of max(queries, new_tokens) rows of query_heads.
  std::int32_t rotated_head_dim = 0;

  friend constexpr bool operator==(const step_limits&, const step_limits&) = default;
};

/// An entry of a batch with more queries than it may have.
struct too_many_queries {
  std::int32_t entry = -1;  ///< -1: there is none
  std::int32_t queries = 0;
  std::int32_t limit = 0;
};

/// What the last upload brought, so that launches can refuse what does not fit it.
struct uploaded_step {
  std::int32_t queries = 0;
  std::int32_t new_tokens = 0;
  std::int32_t most_new_tokens = 0;        ///< of a sequence
  std::int32_t most_new_tokens_at = 0;     ///< its index
  too_many_queries more_than_tokens{};     ///< more than new tokens
  too_many_queries more_than_context{};    ///< more than context, neither of them 0
  std::int64_t widest_window = unlimited;  ///< that no query needs a dropped token for
  std::int32_t widest_window_at = -1;
};

/// The launchers' side of one layer group of a step_tables. It stays at one address of host memory.
struct device_work {
  std::string_view backend{};
  std::int32_t device = 0;
  step_limits limits{};
  std::int64_t max_items = 0;  ///< of the chunk plan
  bool one_item_each = false;  ///< no sequence within the limits is cut into chunks: nothing is ever merged
  kernels::chunk_plan plan{};  // device memory, and all that follows
  float* partial_output = nullptr;
  float* partial_state = nullptr;
  float* rotated_inputs = nullptr;   ///< queries or new keys, if limits.rotated_head_dim is set
  float* rotated_outputs = nullptr;  ///< outputs to be rotated back, or new values
  kernels::table_report* report = nullptr;
  uploaded_step uploaded{};
};

namespace detail {

using pagoda::detail::fail;

inline void check_limits(const step_limits& limits) {
  constexpr std::int64_t most = INT32_MAX - 1;
  check_range("step_limits::sequences", limits.sequences, 1, 1 << 20);
  check_range("step_limits::queries", limits.queries, 0, most);
  check_range("step_limits::new_tokens", limits.new_tokens, 0, most);
  check_range("step_limits::blocks", limits.blocks, 1, most);
  check_range("step_limits::queries_per_sequence", limits.queries_per_sequence, 1, most);
  check_range("step_limits::query_heads", limits.query_heads, 1, 1 << 20);
  check_range("step_limits::value_head_dim", limits.value_head_dim, 8, max_head_dim);
  check_range("step_limits::rotated_head_dim", limits.rotated_head_dim, 0, max_head_dim);
}

/// Queries of a sequence that have room in a partial result.
constexpr std::int32_t decode_queries(const step_limits& limits) noexcept {
  return limits.queries_per_sequence < kernels::max_decode_queries ? limits.queries_per_sequence
                                                                   : kernels::max_decode_queries;
}

/// The work of a view that a function of pagoda::cuda was given. Throws: invalid_argument for a view with tables of
/// the host's or of another backend.
template <class Backend>
const device_work& work_of(std::string_view call, const batch_view& batch) {
  if (batch.work == nullptr) {
    fail(call, ": the view's tables lie in host memory: make it from cuda::step_tables, view(layer, tables)");
  }
  const device_work& work = *batch.work;
  if (work.backend != Backend::name) {
    fail(call, ": the view's tables are of the backend \"", work.backend, "\", the call is of \"",
         std::string_view(Backend::name), "\": use one backend for storage, tables and calls");
  }
  return work;
}

/// There is work memory for rows that Quantizer rotates, if it does. Throws: invalid_argument.
template <class Quantizer>
void check_rotation(std::string_view call, std::string_view name, const device_work& work, std::int64_t heads,
                    std::int64_t dim) {
  if constexpr (is_rotated_v<Quantizer>) {
    check_row<Quantizer>(name, dim);
    if (dim > work.limits.rotated_head_dim) {
      fail(call, ": quantizer ", std::string_view(Quantizer::name), " rotates rows of ", dim,
           " elements, but the tables have work memory for ", work.limits.rotated_head_dim,
           ": raise step_limits::rotated_head_dim to ", dim);
    }
    if (heads > work.limits.query_heads) {
      fail(call, ": rows of ", heads, " heads are to be rotated, but the tables were made for ",
           work.limits.query_heads, ": raise step_limits::query_heads");
    }
  }
}

/// Rows that a kernel reads or writes 16 bytes at a time.
template <class T>
void check_device_rows(std::string_view call, std::string_view name, const rows_view<T>& rows) {
  if (rows.tokens() == 0) return;
  if (rows.data() == nullptr) fail(call, ": the rows of ", name, " are a null pointer: pass device memory");
  constexpr std::int64_t element = sizeof(T);
  const auto misplaced = reinterpret_cast<std::uintptr_t>(rows.data()) % 16;
  if (misplaced != 0) {
    fail(call, ": the rows of ", name, " begin ", misplaced,
         " bytes past a multiple of 16: kernels move 16 bytes at a time; ", "begin the rows on a multiple of 16 bytes");
  }
  if ((rows.tokens() > 1 && rows.strides().token * element % 16 != 0) ||
      (rows.heads() > 1 && rows.strides().head * element % 16 != 0)) {
    fail(call, ": the rows of ", name, " have strides of (", rows.strides().token * element, ", ",
         rows.strides().head * element,
         ") bytes, but kernels move 16 bytes at a time: pass strides that are multiples of ", 16 / element,
         " elements");
  }
}

}  // namespace detail
}  // namespace pagoda::cuda
