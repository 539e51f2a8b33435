// The Rice code of ascending indices for NumPy arrays.
#include <vector>

#include "core/index_code.h"
#include "python/arrays.h"

namespace fedplug::python {
namespace {

py::array_t<std::uint8_t> Encode(const py::object& indices_object,
                                 std::int64_t size) {
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  auto* const code = new std::vector<std::uint8_t>();
  // The array keeps the vector alive, so that the bytes are not copied out of
  // it.
  const py::capsule owner(code, [](void* vector) {
    delete static_cast<std::vector<std::uint8_t>*>(vector);
  });
  Status status;
  {
    const py::gil_scoped_release release;
    status =
        EncodeIndices(indices.Read<std::int32_t>(), indices.size, size, code);
  }
  ThrowUnlessOk(status);
  return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(code->size()),
                                   code->data(), owner);
}

py::array_t<std::int32_t> Decode(const py::object& code_object,
                                 std::int64_t count, std::int64_t size) {
  const Flat code = FlatArray(code_object, "code", DType::kUInt8);
  // `count` comes from the same untrusted place as the code: an index takes at
  // least one bit, so that no claim can make us allocate more than 32 times the
  // bytes that are there.
  if (count > 8 * code.size) {
    ThrowUnlessOk(
        {StatusCode::kDataLoss, "index code: " + std::to_string(code.size) +
                                    " bytes cannot hold " +
                                    std::to_string(count) + " indices"});
  }
  py::array_t<std::int32_t> indices(count < 0 ? 0 : count);
  std::int32_t* const index = indices.mutable_data();
  Status status;
  {
    const py::gil_scoped_release release;
    status =
        DecodeIndices(code.Read<std::uint8_t>(), code.size, count, size, index);
  }
  ThrowUnlessOk(status);
  return indices;
}

}  // namespace

void RegisterIndexCode(py::module_& module) {
  module.def("encode_indices", &Encode, py::arg("indices"), py::arg("size"));
  module.def("decode_indices", &Decode, py::arg("code"), py::arg("count"),
             py::arg("size"));
}

}  // namespace fedplug::python
