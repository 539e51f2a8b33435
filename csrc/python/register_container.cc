// The container for Python bytes.
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "core/container.h"
#include "python/arrays.h"
#include "python/gil.h"

namespace fedplug::python {
namespace {

// One buffer, or a list or tuple of them.
std::vector<Bytes> PartsOf(const py::object& body) {
  if (!py::isinstance<py::list>(body) && !py::isinstance<py::tuple>(body)) {
    return {BytesOf(body, "body")};
  }
  std::vector<Bytes> parts;
  for (const py::handle part : body) {
    const std::string name = "body[" + std::to_string(parts.size()) + "]";
    parts.push_back(
        BytesOf(py::reinterpret_borrow<py::object>(part), name.c_str()));
  }
  return parts;
}

py::bytes Frame(const py::object& body, const py::bytes& header) {
  const std::vector<Bytes> body_parts = PartsOf(body);
  std::vector<BodyPart> parts;
  std::int64_t body_bytes = 0;
  for (const Bytes& part : body_parts) {
    parts.push_back({part.data, part.size});
    body_bytes += part.size;
  }
  const auto* const header_data =
      reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(header.ptr()));
  const std::int64_t header_bytes = PyBytes_GET_SIZE(header.ptr());
  py::bytes packed(nullptr, static_cast<std::size_t>(
                                ContainerBytes(header_bytes, body_bytes)));
  auto* const data =
      reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(packed.ptr()));
  {
    const WithoutGil released;
    WriteContainer(header_data, header_bytes, parts, data);
  }
  return packed;
}

py::tuple Read(const py::object& buffer) {
  const Bytes bytes = BytesOf(buffer, "buffer");
  ContainerHeader header;
  BodyRange body;
  Status status;
  {
    const WithoutGil released;
    status = ReadContainer(bytes.data, bytes.size, &header, &body);
  }
  if (!status.ok()) Throw("PayloadError", status.message());
  return py::make_tuple(header.wire_id, DTypeName(header.dtype),
                        py::tuple(py::cast(header.shape)),
                        ReadOnlyPart(bytes, body.begin, body.bytes));
}

}  // namespace

void RegisterContainer(py::module_& module) {
  module.def("frame", &Frame, py::arg("body"), py::arg("header"));
  module.def("read_container", &Read, py::arg("buffer"));
}

}  // namespace fedplug::python
