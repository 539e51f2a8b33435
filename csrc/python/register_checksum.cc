// `crc32` for Python bytes and arrays.
#include "core/crc32.h"
#include "python/arrays.h"
#include "python/gil.h"

namespace fedplug::python {
namespace {

std::uint32_t Checksum(const py::object& data) {
  const Bytes bytes = BytesOf(data, "data");
  const WithoutGil released;
  return Crc32(bytes.data, bytes.size);
}

}  // namespace

void RegisterChecksum(py::module_& module) {
  module.def("crc32", &Checksum, py::arg("data"));
}

}  // namespace fedplug::python
