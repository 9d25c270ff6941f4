// SPDX-License-Identifier: Apache-2.0
// expected-error: one of these head dims is not 1, 3, 5, 7 or 9 times a power of two
#include <pagoda/cuda/host_backend.hpp>
#include <pagoda/quantizer/hadamard.hpp>
#include <pagoda/quantizer/int8_per_token.hpp>

#ifdef PAGODA_CONTROL
constexpr int dim = 192;
#else
constexpr int dim = 208;
#endif
using rotated = pagoda::hadamard<pagoda::int8_per_token>;
template <>
struct pagoda::cuda::head_dims_of<pagoda::cuda::host_backend, rotated, rotated> : pagoda::cuda::head_dim_list<dim> {};

void attend(const pagoda::cache_view<rotated, rotated>& view, const pagoda::rows_view<float>& queries,
            const pagoda::rows_view<float>& output) {
  pagoda::cuda::attention<pagoda::cuda::host_backend>(view, queries, output);
}
