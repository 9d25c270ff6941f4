// SPDX-License-Identifier: Apache-2.0
#include "kv_storage_part.hpp"

template std::unique_ptr<kv_storage> make_storage_of_part<3>(const kv_storage_names&, const pagoda::storage_shape&,
                                                             std::int32_t, pagoda::num_blocks);
