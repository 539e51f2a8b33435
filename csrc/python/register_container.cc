// The container for Python bytes.
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "core/container.h"
#include "python/arrays.h"
#include "python/gil.h"

namespace fedplug::python {
namespace {

// An invalid header is a PayloadError, when written as when read.
void ThrowUnlessPayload(const Status& status) {
  if (!status.ok()) Throw("PayloadError", status.message());
}

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

py::bytes Frame(const py::object& body_object, const std::uint8_t* header,
                std::int64_t header_bytes) {
  const std::vector<Bytes> body = PartsOf(body_object);
  std::vector<BodyPart> parts;
  std::int64_t body_bytes = 0;
  for (const Bytes& part : body) {
    parts.push_back({part.data, part.size});
    body_bytes += part.size;
  }
  py::bytes packed(nullptr, static_cast<std::size_t>(
                                ContainerBytes(header_bytes, body_bytes)));
  auto* const data =
      reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(packed.ptr()));
  {
    const WithoutGil released;
    WriteContainer(header, header_bytes, parts, data);
  }
  return packed;
}

py::bytes FrameWith(const py::object& body, const py::bytes& header) {
  return Frame(
      body,
      reinterpret_cast<const std::uint8_t*>(PyBytes_AS_STRING(header.ptr())),
      PyBytes_GET_SIZE(header.ptr()));
}

py::bytes Pack(const py::object& body, const std::string& wire_id,
               const std::string& dtype,
               const std::vector<std::int64_t>& shape) {
  const int code = DTypeCode(dtype);
  if (code == 0) {
    Throw("PayloadError", "dtype '" + dtype + "' has no place in a payload");
  }
  std::vector<std::uint8_t> header;
  ThrowUnlessPayload(EncodeHeader({wire_id, code, Dimensions(shape)}, &header));
  return Frame(body, header.data(), static_cast<std::int64_t>(header.size()));
}

// The fields of a container, and the offset of its body.
struct Container {
  Bytes bytes;
  ContainerHeader header;
  BodyRange body;

  py::tuple With(const py::object& body_object) const {
    return py::make_tuple(header.wire_id, DTypeName(header.dtype),
                          py::tuple(py::cast(header.shape)), body_object);
  }
};

Container ReadFrom(const py::object& buffer) {
  Container container{BytesOf(buffer, "buffer"), {}, {}};
  const Bytes& bytes = container.bytes;
  Status status;
  {
    const WithoutGil released;
    status = ReadContainer(bytes.data, bytes.size, &container.header,
                           &container.body);
  }
  ThrowUnlessPayload(status);
  return container;
}

py::tuple Unpack(const py::object& buffer) {
  const Container container = ReadFrom(buffer);
  return container.With(
      py::bytes(reinterpret_cast<const char*>(container.bytes.data) +
                    container.body.begin,
                static_cast<std::size_t>(container.body.bytes)));
}

py::tuple Read(const py::object& buffer) {
  const Container container = ReadFrom(buffer);
  return container.With(ReadOnlyPart(container.bytes, container.body.begin,
                                     container.body.bytes));
}

}  // namespace

void RegisterContainer(py::module_& module) {
  module.def("frame", &FrameWith, py::arg("body"), py::arg("header"));
  module.def("pack_container", &Pack, py::arg("body"), py::arg("wire_id"),
             py::arg("dtype"), py::arg("shape"));
  module.def("unpack_container", &Unpack, py::arg("buffer"));
  module.def("read_container", &Read, py::arg("buffer"));
}

}  // namespace fedplug::python
