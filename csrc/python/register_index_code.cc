// The codes of ascending indices for NumPy arrays.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/index_code.h"
#include "python/arrays.h"
#include "python/decoding.h"
#include "python/gil.h"

namespace fedplug::python {

IndexForm IndexFormCalled(const std::string& name) {
  IndexForm form;
  if (!FindIndexForm(name, &form)) {
    ThrowUnlessOk({StatusCode::kInvalidArgument,
                   "form is '" + name + "'; it must be rice or gaps"});
  }
  return form;
}

py::array DecodedIndices(const Bytes& code, std::int64_t count,
                         std::int64_t size, IndexForm form,
                         std::optional<Flat> place) {
  // `count` is as untrusted as the code.
  ThrowUnlessOk(CheckIndexCode(code.size, count, size, form));
  if (!place.has_value()) {
    place = NewArray(py::dtype::of<std::int32_t>(), count);
  }
  std::int32_t* const index = place->Write<std::int32_t>();
  Status status;
  {
    const WithoutGil released;
    status = DecodeIndices(code.data, code.size, count, size, form, index);
  }
  ThrowUnlessOk(status);
  return place->array;
}

namespace {

py::array_t<std::uint8_t> Encode(const py::object& indices_object,
                                 std::int64_t size, const std::string& name) {
  const IndexForm form = IndexFormCalled(name);
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  auto* const code = new std::vector<std::uint8_t>();
  // The array keeps the vector alive, so that the bytes are not copied out of
  // it.
  const py::capsule owner(code, [](void* vector) {
    delete static_cast<std::vector<std::uint8_t>*>(vector);
  });
  Status status;
  {
    const WithoutGil released;
    status = EncodeIndices(indices.Read<std::int32_t>(), indices.size, size,
                           form, code);
  }
  ThrowUnlessOk(status);
  return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(code->size()),
                                   code->data(), owner);
}

// `out` is an array of `count` indices, or None.
py::array Decode(const py::object& code_object, std::int64_t count,
                 std::int64_t size, const std::string& name,
                 const py::object& out) {
  const IndexForm form = IndexFormCalled(name);
  const Flat code = FlatArray(code_object, "code", DType::kUInt8);
  std::optional<Flat> place;
  if (!out.is_none()) {
    place = FlatArray(out, "out", DType::kInt32, Access::kWrite);
    if (place->size != count) {
      ThrowArgumentError("out has " + std::to_string(place->size) +
                         " elements; it must have " + std::to_string(count));
    }
    RequireDisjoint(code, "code", *place, "out");
  }
  return DecodedIndices(code.AsBytes(), count, size, form, std::move(place));
}

}  // namespace

void RegisterIndexCode(py::module_& module) {
  module.def("encode_indices", &Encode, py::arg("indices"), py::arg("size"),
             py::arg("form"));
  module.def("decode_indices", &Decode, py::arg("code"), py::arg("count"),
             py::arg("size"), py::arg("form"), py::arg("out"));
}

}  // namespace fedplug::python
