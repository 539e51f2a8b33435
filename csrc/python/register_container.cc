// The container and its checksum for Python bytes.
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/parallel.h"
#include "core/container.h"
#include "core/crc32.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/new_container.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

std::uint32_t Checksum(const py::object& data) {
  const Bytes bytes = BytesOf(data, "data");
  const WithoutGil released;
  return Crc32(bytes.data, bytes.size);
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

py::bytes Frame(const py::object& body, const py::bytes& header) {
  const std::vector<Bytes> parts = PartsOf(body);
  std::int64_t body_bytes = 0;
  for (const Bytes& part : parts) body_bytes += part.size;
  const NewContainer container(header, body_bytes);
  {
    const WithoutGil released;
    std::uint8_t* end = container.body();
    for (const Bytes& part : parts)
      end = std::copy_n(part.data, part.size, end);
    container.Close();
  }
  return container.bytes();
}

// The containers of several bodies, a thread for each.
py::list FrameOfEach(const py::sequence& bodies,
                     const std::vector<py::bytes>& headers) {
  if (bodies.size() != headers.size()) {
    ThrowArgumentError("there are " + std::to_string(bodies.size()) +
                       " bodies and " + std::to_string(headers.size()) +
                       " headers; there must be one for each");
  }
  std::vector<Bytes> data;
  std::vector<NewContainer> containers;
  containers.reserve(headers.size());
  for (std::size_t i = 0; i < headers.size(); ++i) {
    data.push_back(BytesOf(bodies[i], "a body"));
    containers.emplace_back(headers[i], data[i].size);
  }
  {
    Parallel& threads = Threads();
    const WithoutGil released;
    threads.Run(static_cast<int>(data.size()), [&](int number) {
      const auto i = static_cast<std::size_t>(number);
      std::copy_n(data[i].data, data[i].size, containers[i].body());
      containers[i].Close();
    });
  }
  py::list framed;
  for (const NewContainer& container : containers) {
    framed.append(container.bytes());
  }
  return framed;
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
  module.def("crc32", &Checksum, py::arg("data"));
  module.def("frame", &Frame, py::arg("body"), py::arg("header"));
  module.def("frame_of_each", &FrameOfEach, py::arg("bodies"),
             py::arg("headers"));
  module.def("unframe", &Read, py::arg("buffer"));
}

}  // namespace fedplug::python
