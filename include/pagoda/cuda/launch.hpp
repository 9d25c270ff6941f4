// SPDX-License-Identifier: Apache-2.0
/// @file How kernels are launched on a backend: a grid that fits the device and strides over the work.
#pragma once

#include <cstdint>
#include <string_view>

#include <pagoda/cuda/device_work.hpp>
#include <pagoda/cuda/runtime.hpp>
#include <pagoda/simt/kernel_name.hpp>

namespace pagoda::cuda::detail {

using pagoda::detail::fail;

/// What every launch needs of the device. Throws: cuda_error if there is none; invalid_argument for one too old.
template <backend Backend>
device_properties usable_device() {
  const device_properties device = Backend::properties();
  if (device.compute_capability < 80) {
    fail("device ", device.device, " has compute capability ", device.compute_capability / 10, ".",
         device.compute_capability % 10, ", but the kernels need 8.0 (asynchronous copies): use a newer device, or ",
         "pagoda::host");
  }
  return device;
}

/// The same for a call with tables. Throws: also invalid_argument if they lie on another device.
template <backend Backend>
device_properties usable_device(std::string_view call, const device_work& work) {
  const device_properties device = usable_device<Backend>();
  if (work.device != device.device) {
    fail(call, ": the view's tables lie on device ", work.device, ", but the current one is ", device.device,
         ": make the tables' device the current one");
  }
  return device;
}

/// Enqueues a kernel over so many units of work; none if there is none. Throws: invalid_argument if the device has not
/// the shared memory that the kernel needs; cuda_error if the launch fails.
template <simt::kernel K, backend Backend>
void launch_units(const device_properties& device, const typename K::arguments& arguments, std::int64_t units,
                  stream_ref stream) {
  if (units <= 0) return;
  if (units > INT32_MAX) {
    fail("kernel ", simt::kernel_name<K>(), " would have ", units,
         " units of work, but counts them with 31 bits: ", "lower step_limits or split the batch");
  }
  if (K::shared_bytes > device.shared_bytes) {
    fail("kernel ", simt::kernel_name<K>(), " needs ", K::shared_bytes,
         " bytes of shared memory, but a block of device ", device.device, " has at most ", device.shared_bytes,
         ": use a device with more, a smaller head_dim or fewer bits for keys and values");
  }
  const std::int32_t resident = Backend::template resident_blocks<K>();
  if (resident < 1) {
    fail("kernel ", simt::kernel_name<K>(), " with ", K::threads, " threads and ", K::shared_bytes,
         " bytes of shared memory does not fit a multiprocessor of device ", device.device, ": use a newer device");
  }
  const std::int64_t fitting = std::int64_t{resident} * device.multiprocessors;
  const auto blocks = static_cast<std::uint32_t>(units < fitting ? units : fitting);
  Backend::template launch<K>({blocks, 1, 1}, arguments, stream);
}

}  // namespace pagoda::cuda::detail
