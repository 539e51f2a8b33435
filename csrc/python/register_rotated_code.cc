// The rotated code for NumPy arrays.
#include <pybind11/stl.h>

#include <cstdint>
#include <utility>

#include "core/rotated_code.h"
#include "python/arrays.h"
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
  py::array_t<std::uint8_t> data(
      RotatedCodeBytes(code, values.size, values.array.itemsize()));
  std::uint8_t* const bytes = data.mutable_data();
  Status status;
  WithFloatType(values.dtype, [&](auto zero) {
    const auto* const read = values.Read<decltype(zero)>();
    const py::gil_scoped_release release;
    status = EncodeRotated(read, values.size, code, threads, bytes);
  });
  ThrowUnlessOk(status);
  return data;
}

void DecodeRotation(const py::object& data_object, const py::object& out,
                    const RotationKey& key, const py::object& levels,
                    std::int64_t block_size) {
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  Flat values = FloatArray(out, "out", Access::kWrite);
  RequireDisjoint(data, "data", values, "out");
  const RotatedCode code = ToRotatedCode(key, levels, block_size);
  Parallel& threads = Threads();
  Status status;
  WithFloatType(values.dtype, [&](auto zero) {
    auto* const write = values.Write<decltype(zero)>();
    const py::gil_scoped_release release;
    status = DecodeRotated(data.Read<std::uint8_t>(), data.size, values.size,
                           code, threads, write);
  });
  ThrowUnlessOk(status);
}

void CheckRotationBytes(const py::object& data_object, std::int64_t count,
                        const py::object& levels, std::int64_t block_size,
                        std::int64_t value_bytes) {
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  ThrowUnlessOk(CheckRotatedBytes(data.size, count,
                                  ToRotatedCode({0, 0}, levels, block_size),
                                  value_bytes));
}

}  // namespace

void RegisterRotatedCode(py::module_& module) {
  module.def("encode_rotated", &EncodeRotation, py::arg("values"),
             py::arg("key"), py::arg("levels"), py::arg("block_size"));
  module.def("decode_rotated", &DecodeRotation, py::arg("data"), py::arg("out"),
             py::arg("key"), py::arg("levels"), py::arg("block_size"));
  module.def("check_rotated_bytes", &CheckRotationBytes, py::arg("data"),
             py::arg("count"), py::arg("levels"), py::arg("block_size"),
             py::arg("value_bytes"));
}

}  // namespace fedplug::python
