// The difference between two versions of an array, for the bytes of NumPy
// arrays.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/difference_code.h"
#include "python/arrays.h"
#include "python/numbers.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

ElementLayout LayoutOf(const py::object& item_bytes,
                       const py::object& mantissa_bits) {
  return {WholeNumber(item_bytes, "item_bytes"),
          WholeNumber(mantissa_bits, "mantissa_bits")};
}

// The number of elements of an array of bytes.
std::int64_t CountOf(const Flat& bytes, const char* name,
                     ElementLayout layout) {
  ThrowUnlessOk(CheckElements(layout, 0));
  if (bytes.size % layout.bytes != 0) {
    ThrowArgumentError(
        std::string(name) + " has " + std::to_string(bytes.size) +
        " bytes, which are no elements of " + std::to_string(layout.bytes));
  }
  return bytes.size / layout.bytes;
}

// The old version, of as many bytes as the new one. None for a whole array.
std::optional<Flat> OldVersion(const py::object& before, const Flat& after,
                               const char* name) {
  if (before.is_none()) return std::nullopt;
  Flat old = FlatArray(before, "before", DType::kUInt8);
  RequireSameSize(old, "before", after, name);
  return old;
}

const std::uint8_t* DataOf(const std::optional<Flat>& bytes) {
  return bytes.has_value() ? bytes->Read<std::uint8_t>() : nullptr;
}

py::array_t<std::uint8_t> EncodeVersion(const py::object& before_object,
                                        const py::object& after_object,
                                        const py::object& item_bytes,
                                        const py::object& mantissa_bits) {
  const ElementLayout layout = LayoutOf(item_bytes, mantissa_bits);
  const Flat after = FlatArray(after_object, "after", DType::kUInt8);
  const std::int64_t count = CountOf(after, "after", layout);
  const auto before = OldVersion(before_object, after, "after");
  std::vector<std::uint8_t> code;
  RunKernel([&](Parallel& threads) {
    return EncodeDifference(DataOf(before), after.Read<std::uint8_t>(), count,
                            layout, threads, &code);
  });
  return ArrayOfVector(std::move(code));
}

void DecodeVersion(const py::object& code_object,
                   const py::object& before_object,
                   const py::object& out_object, const py::object& item_bytes,
                   const py::object& mantissa_bits) {
  const ElementLayout layout = LayoutOf(item_bytes, mantissa_bits);
  const Flat code = FlatArray(code_object, "code", DType::kUInt8);
  Flat out = FlatArray(out_object, "out", DType::kUInt8, Access::kWrite);
  const std::int64_t count = CountOf(out, "out", layout);
  const auto before = OldVersion(before_object, out, "out");
  RequireDisjoint(code, "code", out, "out");
  if (before.has_value()) RequireDisjoint(*before, "before", out, "out");
  RunKernel([&](Parallel& threads) {
    return DecodeDifference(code.Read<std::uint8_t>(), code.size,
                            DataOf(before), count, layout, threads,
                            out.Write<std::uint8_t>());
  });
}

}  // namespace

void RegisterDifferenceCode(py::module_& module) {
  module.def("encode_difference", &EncodeVersion, py::arg("before"),
             py::arg("after"), py::arg("item_bytes"), py::arg("mantissa_bits"));
  module.def("decode_difference", &DecodeVersion, py::arg("code"),
             py::arg("before"), py::arg("out"), py::arg("item_bytes"),
             py::arg("mantissa_bits"));
}

}  // namespace fedplug::python
