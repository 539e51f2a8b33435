// The rotated code for NumPy arrays.
#include <pybind11/stl.h>

#include <cstdint>
#include <utility>

#include "core/rotated_code.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

using RotationKey = std::pair<std::int64_t, std::int64_t>;

RotatedCode ToRotatedCode(const RotationKey& key,
                          const py::object& levels_object,
                          std::int64_t block_size) {
  const Flat levels = FlatArray(levels_object, "levels", DType::kFloat64);
  const auto* const positive = levels.Read<double>();
  return {
      block_size, key.first, key.second, {positive, positive + levels.size}};
}

py::array_t<std::uint8_t> EncodeRotation(const py::object& values_object,
                                         const RotationKey& key,
                                         const py::object& levels,
                                         std::int64_t block_size) {
  const Flat values = FloatArray(values_object, "values");
  const RotatedCode code = ToRotatedCode(key, levels, block_size);
  ThrowUnlessOk(CheckRotatedCode(code, values.size));
  Parallel& threads = Threads();
  auto data = NewArrayOf<std::uint8_t>(
      RotatedCodeBytes(code, values.size, values.array.itemsize()));
  std::uint8_t* const bytes = data.mutable_data();
  Status status;
  WithFloatType(values.dtype, [&](auto zero) {
    const auto* const read = values.Read<decltype(zero)>();
    const WithoutGil released;
    status = EncodeRotated(read, values.size, code, threads, bytes);
  });
  ThrowUnlessOk(status);
  return data;
}

// A number that no value exceeds in magnitude.
double CheckRotation(const py::object& data_object, std::int64_t count,
                     const py::object& levels, std::int64_t block_size,
                     const py::dtype& dtype) {
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  const RotatedCode code = ToRotatedCode({}, levels, block_size);
  double bound = 0;
  Status status;
  WithFloatType(DTypeOf(dtype), [&](auto zero) {
    status = CheckRotated<decltype(zero)>(data.Read<std::uint8_t>(), data.size,
                                          count, code, &bound);
  });
  ThrowUnlessOk(status);
  return bound;
}

// `out` is an array of `count` values of that dtype, or None.
py::array DecodeRotation(const py::object& data_object, std::int64_t count,
                         const RotationKey& key, const py::object& levels,
                         std::int64_t block_size, const py::dtype& dtype,
                         const py::object& out) {
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  const RotatedCode code = ToRotatedCode(key, levels, block_size);
  // `count` is as untrusted as the bytes.
  ThrowUnlessOk(CheckRotatedBytes(data.size, count, code, dtype.itemsize()));
  Flat values = NewOrGiven(dtype, count, out);
  RequireDisjoint(data, "data", values, "out");
  Parallel& threads = Threads();
  Status status;
  WithFloatType(values.dtype, [&](auto zero) {
    auto* const write = values.Write<decltype(zero)>();
    const WithoutGil released;
    status = DecodeRotated(data.Read<std::uint8_t>(), data.size, count, code,
                           threads, write);
  });
  ThrowUnlessOk(status);
  return values.array;
}

}  // namespace

void RegisterRotatedCode(py::module_& module) {
  module.def("encode_rotated", &EncodeRotation, py::arg("values"),
             py::arg("key"), py::arg("levels"), py::arg("block_size"));
  module.def("decode_rotated", &DecodeRotation, py::arg("data"),
             py::arg("count"), py::arg("key"), py::arg("levels"),
             py::arg("block_size"), py::arg("dtype"), py::arg("out"));
  module.def("check_rotated", &CheckRotation, py::arg("data"), py::arg("count"),
             py::arg("levels"), py::arg("block_size"), py::arg("dtype"));
}

}  // namespace fedplug::python
