// The codes of packed symbols for NumPy arrays.
#include <algorithm>
#include <optional>
#include <string>

#include "core/symbol_code.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/new_container.h"
#include "python/numbers.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

// EncodeSymbols, with a `place` that is called with the GIL and allocates the
// code.
void EncodeSymbolsTo(const std::uint8_t* packed, std::int64_t bytes,
                     std::int64_t count, std::int64_t bits,
                     const CodePlace& place) {
  ThrowUnlessOk(CheckSymbols(count, bits));
  Status status;
  {
    const WithoutGil released;
    status = EncodeSymbols(packed, bytes, count, static_cast<int>(bits),
                           [&](std::int64_t length) {
                             const WithGil taken;
                             return place(length);
                           });
  }
  ThrowUnlessOk(status);
}

py::array_t<std::uint8_t> EncodeSymbolArray(const py::object& packed_object,
                                            const py::object& count_object,
                                            const py::object& bits_object) {
  const std::int64_t count = WholeNumber(count_object, "count");
  const std::int64_t bits = WholeNumber(bits_object, "bits");
  const Flat packed = FlatArray(packed_object, "packed", DType::kUInt8);
  py::array_t<std::uint8_t> code;
  EncodeSymbolsTo(packed.Read<std::uint8_t>(), packed.size, count, bits,
                  [&](std::int64_t length) {
                    code = NewArrayOf<std::uint8_t>(length);
                    return code.mutable_data();
                  });
  return code;
}

// A container of the first bytes uncoded, and the code of the others.
py::bytes FrameSymbols(const py::object& bytes_object,
                       const py::object& start_object,
                       const py::object& count_object, const py::bytes& header,
                       const py::object& bits_object) {
  const std::int64_t start = WholeNumber(start_object, "start");
  const std::int64_t count = WholeNumber(count_object, "count");
  const std::int64_t bits = WholeNumber(bits_object, "bits");
  const Flat bytes = FlatArray(bytes_object, "data", DType::kUInt8);
  if (start < 0 || start > bytes.size) {
    ThrowArgumentError("start is " + std::to_string(start) + ", and data has " +
                       std::to_string(bytes.size) + " bytes");
  }
  const auto* const data = bytes.Read<std::uint8_t>();
  std::optional<NewContainer> container;
  EncodeSymbolsTo(data + start, bytes.size - start, count, bits,
                  [&](std::int64_t length) {
                    container.emplace(header, start + length);
                    return std::copy_n(data, start, container->body());
                  });
  {
    const WithoutGil released;
    container->Close();
  }
  return container->bytes();
}

py::array_t<std::uint8_t> DecodeSymbolArray(const py::object& code_object,
                                            const py::object& count_object,
                                            const py::object& bits_object) {
  const std::int64_t count = WholeNumber(count_object, "count");
  const std::int64_t bits = WholeNumber(bits_object, "bits");
  const Flat code = FlatArray(code_object, "code", DType::kUInt8);
  const auto* const bytes = code.Read<std::uint8_t>();
  ThrowUnlessOk(CheckSymbolCode(bytes, code.size, count, bits));
  const int width = static_cast<int>(bits);
  auto packed = NewArrayOf<std::uint8_t>(PackedSymbolBytes(count, width));
  RunKernel([&] {
    return DecodeSymbols(bytes, code.size, count, width, packed.mutable_data());
  });
  return packed;
}

py::array_t<std::uint8_t> Pack(const py::object& symbols_object,
                               const py::object& bits_object) {
  const std::int64_t bits = WholeNumber(bits_object, "bits");
  const Flat symbols = FlatArray(symbols_object, "symbols", DType::kUInt8);
  ThrowUnlessOk(CheckSymbols(symbols.size, bits));
  const int width = static_cast<int>(bits);
  auto packed =
      NewArrayOf<std::uint8_t>(PackedSymbolBytes(symbols.size, width));
  RunKernel([&] {
    return PackSymbols(symbols.Read<std::uint8_t>(), symbols.size, width,
                       packed.mutable_data());
  });
  return packed;
}

py::array_t<std::uint8_t> Unpack(const py::object& packed_object,
                                 const py::object& count_object,
                                 const py::object& bits_object) {
  const std::int64_t count = WholeNumber(count_object, "count");
  const std::int64_t bits = WholeNumber(bits_object, "bits");
  const Flat packed = FlatArray(packed_object, "packed", DType::kUInt8);
  ThrowUnlessOk(CheckSymbols(count, bits));
  const int width = static_cast<int>(bits);
  if (packed.size != PackedSymbolBytes(count, width)) {
    Throw("PayloadError", "packed symbols: " + std::to_string(count) + " of " +
                              std::to_string(bits) + " bits take " +
                              std::to_string(PackedSymbolBytes(count, width)) +
                              " bytes, not " + std::to_string(packed.size));
  }
  auto symbols = NewArrayOf<std::uint8_t>(count);
  RunKernel([&] {
    return UnpackSymbols(packed.Read<std::uint8_t>(), count, width,
                         symbols.mutable_data());
  });
  return symbols;
}

}  // namespace

void RegisterSymbolCode(py::module_& module) {
  module.def("pack_symbols", &Pack, py::arg("symbols"), py::arg("bits"));
  module.def("unpack_symbols", &Unpack, py::arg("packed"), py::arg("count"),
             py::arg("bits"));
  module.def("encode_symbols", &EncodeSymbolArray, py::arg("packed"),
             py::arg("count"), py::kw_only(), py::arg("bits"));
  module.def("frame_symbols", &FrameSymbols, py::arg("data"), py::arg("start"),
             py::arg("count"), py::arg("header"), py::kw_only(),
             py::arg("bits"));
  module.def("decode_symbols", &DecodeSymbolArray, py::arg("code"),
             py::arg("count"), py::kw_only(), py::arg("bits"));
}

}  // namespace fedplug::python
