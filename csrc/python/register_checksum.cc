// `crc32` for Python buffers.
#include "core/crc32.h"
#include "python/arrays.h"

namespace fedplug::python {
namespace {

std::uint32_t Checksum(const py::buffer& data) {
  const py::buffer_info bytes = data.request();
  if (!PyBuffer_IsContiguous(bytes.view(), 'C')) {
    ThrowArgumentError("data is not C-contiguous; pass bytes(data)");
  }
  const auto* const begin = static_cast<const std::uint8_t*>(bytes.ptr);
  const std::int64_t size = bytes.size * bytes.itemsize;
  const py::gil_scoped_release release;
  return Crc32(begin, size);
}

}  // namespace

void RegisterChecksum(py::module_& module) {
  module.def("crc32", &Checksum, py::arg("data"));
}

}  // namespace fedplug::python
