// The codes of packed symbols for NumPy arrays.
#include <string>
#include <vector>

#include "core/symbol_code.h"
#include "python/arrays.h"

namespace fedplug::python {
namespace {

SymbolForm FormCalled(const std::string& name) {
  SymbolForm form;
  if (!FindSymbolForm(name, &form)) {
    ThrowUnlessOk({StatusCode::kInvalidArgument,
                   "form is '" + name + "'; it must be rans or adaptive"});
  }
  return form;
}

py::array_t<std::uint8_t> Encode(const py::object& packed_object,
                                 std::int64_t count, std::int64_t bits,
                                 const std::string& name) {
  const SymbolForm form = FormCalled(name);
  const Flat packed = FlatArray(packed_object, "packed", DType::kUInt8);
  ThrowUnlessOk(CheckSymbols(count, bits));
  auto* const code = new std::vector<std::uint8_t>();
  // The array keeps the vector alive, so that the bytes are not copied out of
  // it.
  const py::capsule owner(code, [](void* vector) {
    delete static_cast<std::vector<std::uint8_t>*>(vector);
  });
  Status status;
  {
    const py::gil_scoped_release release;
    status = EncodeSymbols(packed.Read<std::uint8_t>(), packed.size, count,
                           static_cast<int>(bits), form, code);
  }
  ThrowUnlessOk(status);
  return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(code->size()),
                                   code->data(), owner);
}

py::array_t<std::uint8_t> Decode(const py::object& code_object,
                                 std::int64_t count, std::int64_t bits,
                                 const std::string& name) {
  const SymbolForm form = FormCalled(name);
  const Flat code = FlatArray(code_object, "code", DType::kUInt8);
  const auto* const bytes = code.Read<std::uint8_t>();
  ThrowUnlessOk(CheckSymbolCode(bytes, code.size, count, bits, form));
  const int width = static_cast<int>(bits);
  py::array_t<std::uint8_t> packed(PackedSymbolBytes(count, width));
  std::uint8_t* const symbols = packed.mutable_data();
  Status status;
  {
    const py::gil_scoped_release release;
    status = DecodeSymbols(bytes, code.size, count, width, form, symbols);
  }
  ThrowUnlessOk(status);
  return packed;
}

}  // namespace

void RegisterSymbolCode(py::module_& module) {
  module.def("encode_symbols", &Encode, py::arg("packed"), py::arg("count"),
             py::arg("bits"), py::arg("form"));
  module.def("decode_symbols", &Decode, py::arg("code"), py::arg("count"),
             py::arg("bits"), py::arg("form"));
}

}  // namespace fedplug::python
