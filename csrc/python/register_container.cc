// The container for Python bytes.
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "core/container.h"
#include "python/arrays.h"

namespace fedplug::python {
namespace {

// A header that cannot be written is an error of the payload, as one that
// cannot be read is.
void ThrowUnlessPayload(const Status& status) {
  if (!status.ok()) Throw("PayloadError", status.message());
}

py::buffer_info Contiguous(const py::buffer& buffer, const char* name) {
  py::buffer_info info = buffer.request();
  if (!PyBuffer_IsContiguous(info.view(), 'C')) {
    ThrowArgumentError(std::string(name) + " is not C-contiguous; pass bytes(" +
                       name + ")");
  }
  return info;
}

std::vector<std::uint32_t> Dimensions(const std::vector<std::int64_t>& shape) {
  std::vector<std::uint32_t> dimensions;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || dimension > UINT32_MAX) {
      Throw("PayloadError", "a shape with a dimension of " +
                                std::to_string(dimension) +
                                " cannot be sent; it must be below 2**32");
    }
    dimensions.push_back(static_cast<std::uint32_t>(dimension));
  }
  return dimensions;
}

py::bytes Pack(const py::buffer& body_buffer, const std::string& wire_id,
               const std::string& dtype,
               const std::vector<std::int64_t>& shape) {
  const py::buffer_info body = Contiguous(body_buffer, "body");
  const int code = DTypeCode(dtype);
  if (code == 0) {
    Throw("PayloadError", "dtype '" + dtype + "' has no place in a payload");
  }
  std::vector<std::uint8_t> header;
  ThrowUnlessPayload(EncodeHeader({wire_id, code, Dimensions(shape)}, &header));
  const auto header_bytes = static_cast<std::int64_t>(header.size());
  const std::int64_t body_bytes = body.size * body.itemsize;
  py::bytes packed(nullptr, static_cast<std::size_t>(
                                ContainerBytes(header_bytes, body_bytes)));
  auto* const data =
      reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(packed.ptr()));
  {
    const py::gil_scoped_release release;
    WriteContainer(header.data(), header_bytes,
                   static_cast<const std::uint8_t*>(body.ptr), body_bytes,
                   data);
  }
  return packed;
}

py::tuple Unpack(const py::buffer& buffer) {
  const py::buffer_info info = Contiguous(buffer, "buffer");
  const auto* const data = static_cast<const std::uint8_t*>(info.ptr);
  ContainerHeader header;
  BodyRange body;
  Status status;
  {
    const py::gil_scoped_release release;
    status = ReadContainer(data, info.size * info.itemsize, &header, &body);
  }
  ThrowUnlessPayload(status);
  return py::make_tuple(
      header.wire_id, DTypeName(header.dtype),
      py::tuple(py::cast(header.shape)),
      py::bytes(reinterpret_cast<const char*>(data + body.begin),
                static_cast<std::size_t>(body.bytes)));
}

}  // namespace

void RegisterContainer(py::module_& module) {
  module.def("pack_container", &Pack, py::arg("body"), py::arg("wire_id"),
             py::arg("dtype"), py::arg("shape"));
  module.def("unpack_container", &Unpack, py::arg("buffer"));
}

}  // namespace fedplug::python
