// The value codes for NumPy arrays.
#include <string>

#include "core/value_code.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/new_container.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

ValueCode ToValueCode(const std::string& form, int bits,
                      std::int64_t block_size, float relative) {
  ValueCode code;
  if (!FindValueForm(form, &code.form)) {
    ThrowArgumentError("no value code is called '" + form +
                       "'; there are float16, bfloat16, blockwise8, qsgd, "
                       "terngrad, sign, codebook, bounded and bfp");
  }
  code.bits = bits;
  code.block_size = block_size;
  code.relative = relative;
  ThrowUnlessOk(CheckValueCode(code));
  return code;
}

// REQUIRES: `code` fits `values`; data[ValueCodeBytes(...)]
void EncodeInto(const Flat& values, const ValueCode& code, std::int64_t seed,
                std::uint8_t* data) {
  Parallel& threads = Threads();
  Status status;
  std::int64_t non_finite = 0;
  WithFloatType(values.dtype, [&](auto zero) {
    const auto* const read = values.Read<decltype(zero)>();
    const WithoutGil released;
    status =
        EncodeValues(read, values.size, code, static_cast<std::uint64_t>(seed),
                     threads, data, &non_finite);
  });
  ThrowUnlessOk(status, non_finite);
}

py::array_t<std::uint8_t> Encode(const py::object& values_object,
                                 const std::string& form, int bits,
                                 std::int64_t block_size, float relative,
                                 std::int64_t seed) {
  const Flat values = FloatArray(values_object, "values");
  const ValueCode code = ToValueCode(form, bits, block_size, relative);
  ThrowUnlessOk(CheckValueCode(code, values.size));
  auto data = NewArrayOf<std::uint8_t>(
      ValueCodeBytes(code, values.size, values.array.itemsize()));
  EncodeInto(values, code, seed, data.mutable_data());
  return data;
}

// The container of a body that is written where it belongs.
py::bytes FrameValues(const py::object& values_object, const py::bytes& header,
                      const std::string& form, int bits,
                      std::int64_t block_size, float relative,
                      std::int64_t seed) {
  const Flat values = FloatArray(values_object, "values");
  const ValueCode code = ToValueCode(form, bits, block_size, relative);
  ThrowUnlessOk(CheckValueCode(code, values.size));
  const NewContainer container(
      header, ValueCodeBytes(code, values.size, values.array.itemsize()));
  EncodeInto(values, code, seed, container.body());
  {
    const WithoutGil released;
    container.Close();
  }
  return container.bytes();
}

// `out` is an array of `count` values of that dtype, or None.
py::array Decode(const py::object& data_object, std::int64_t count,
                 const std::string& form, const py::dtype& dtype, int bits,
                 std::int64_t block_size, float relative,
                 const py::object& out) {
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  const ValueCode code = ToValueCode(form, bits, block_size, relative);
  const auto* const bytes = data.Read<std::uint8_t>();
  // `count` comes from the same untrusted place as the bytes.
  ThrowUnlessOk(
      CheckValueBytes(bytes, data.size, count, code, dtype.itemsize()));
  Flat values = NewOrGiven(dtype, count, out);
  RequireDisjoint(data, "data", values, "out");
  Parallel& threads = Threads();
  Status status;
  WithFloatType(values.dtype, [&](auto zero) {
    auto* const write = values.Write<decltype(zero)>();
    const WithoutGil released;
    status = DecodeValues(bytes, data.size, count, code, threads, write);
  });
  ThrowUnlessOk(status);
  return values.array;
}

}  // namespace

void RegisterValueCode(py::module_& module) {
  module.def("encode_values", &Encode, py::arg("values"), py::arg("form"),
             py::arg("bits"), py::arg("block_size"), py::arg("relative"),
             py::arg("seed"));
  module.def("frame_values", &FrameValues, py::arg("values"), py::arg("header"),
             py::arg("form"), py::arg("bits"), py::arg("block_size"),
             py::arg("relative"), py::arg("seed"));
  module.def("decode_values", &Decode, py::arg("data"), py::arg("count"),
             py::arg("form"), py::arg("dtype"), py::arg("bits"),
             py::arg("block_size"), py::arg("relative"), py::arg("out"));
}

}  // namespace fedplug::python
