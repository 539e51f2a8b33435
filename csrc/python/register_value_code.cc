// The value codes for NumPy arrays.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/codes/values/level.h"
#include "core/value_code.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/new_container.h"
#include "python/numbers.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

ValueCode ToValueCode(const std::string& form, const py::object& bits,
                      const py::object& block_size,
                      const py::object& relative) {
  ValueCode code;
  code.bits = SmallWholeNumber(bits, "bits");
  code.block_size = WholeNumber(block_size, "block_size");
  code.relative = static_cast<float>(RealNumber(relative, "relative"));
  if (!FindValueForm(form, &code.form)) {
    ThrowArgumentError("no value code is called '" + form +
                       "'; there are float16, bfloat16, qsgd, nearest, sign, "
                       "codebook, bounded and bfp");
  }
  ThrowUnlessOk(CheckValueCode(code));
  return code;
}

// REQUIRES: `code` fits `values`, data[ValueCodeBytes(...)]
void EncodeInto(const Flat& values, const ValueCode& code, std::int64_t seed,
                std::uint8_t* data) {
  WithFloatType(values.dtype, [&](auto zero) {
    RunKernel([&](Parallel& threads, std::int64_t* non_finite) {
      return EncodeValues(values.Read<decltype(zero)>(), values.size, code,
                          static_cast<std::uint64_t>(seed), threads, data,
                          non_finite);
    });
  });
}

py::array_t<std::uint8_t> Encode(const py::object& values_object,
                                 const std::string& form,
                                 const py::object& bits,
                                 const py::object& block_size,
                                 const py::object& relative,
                                 const py::object& seed_object) {
  const ValueCode code = ToValueCode(form, bits, block_size, relative);
  const std::int64_t seed = WholeNumber(seed_object, "seed");
  const Flat values = FloatArray(values_object, "values");
  ThrowUnlessOk(CheckValueCode(code, values.size));
  auto data = NewArrayOf<std::uint8_t>(
      ValueCodeBytes(code, values.size, values.array.itemsize()));
  EncodeInto(values, code, seed, data.mutable_data());
  return data;
}

using value_loops::Wide;

// One vector of a list. Unless `errors` is null, it takes `exact` minus the
// decoded values.
template <typename T, typename WideT = value_loops::WideOf<T>>
struct Vector {
  const T* values;
  const WideT* exact;
  std::int64_t count;
  std::uint8_t* data;
  std::int64_t bytes;
  WideT* errors;
};

template <typename T>
Status EncodeOne(const Vector<T>& vector, const ValueCode& code,
                 std::uint64_t seed, Parallel& threads,
                 std::int64_t* non_finite) {
  Status status = EncodeValues(vector.values, vector.count, code, seed, threads,
                               vector.data, non_finite);
  if (!status.ok() || vector.errors == nullptr) return status;
  const std::unique_ptr<T[]> decoded(
      new T[static_cast<std::size_t>(vector.count)]);
  status = DecodeValues(vector.data, vector.bytes, vector.count, code, threads,
                        decoded.get());
  if (!status.ok()) return status;
  for (std::int64_t i = 0; i < vector.count; ++i) {
    vector.errors[i] = vector.exact[i] - Wide(decoded.get()[i]);
  }
  return {};
}

// Encodes a list of vectors, each as Encode does. `errors` is None, or takes
// `exact` minus the decoded values, of all vectors one after the other.
py::list EncodeEach(const py::sequence& values_objects, const std::string& form,
                    const py::sequence& exact_objects, const py::object& errors,
                    const py::object& bits, const py::object& block_size,
                    const py::object& relative, const py::object& seed_object) {
  const ValueCode code = ToValueCode(form, bits, block_size, relative);
  const std::int64_t seed = WholeNumber(seed_object, "seed");
  py::list codes;
  if (values_objects.empty()) return codes;
  const DType dtype = FloatArray(values_objects[0], "values").dtype;
  WithFloatType(dtype, [&](auto zero) {
    using T = decltype(zero);
    using WideT = value_loops::WideOf<T>;
    constexpr DType kWide =
        sizeof(WideT) == 8 ? DType::kFloat64 : DType::kFloat32;
    std::vector<Flat> held;
    std::vector<Vector<T>> vectors;
    std::vector<std::int64_t> sizes;
    std::int64_t total = 0;
    for (std::size_t i = 0; i < values_objects.size(); ++i) {
      const Flat values = FlatArray(values_objects[i], "values", dtype);
      held.push_back(values);
      ThrowUnlessOk(CheckValueCode(code, values.size));
      const std::int64_t bytes = ValueCodeBytes(code, values.size, sizeof(T));
      auto data = NewArrayOf<std::uint8_t>(bytes);
      vectors.push_back({values.Read<T>(), nullptr, values.size,
                         data.mutable_data(), bytes, nullptr});
      codes.append(std::move(data));
      sizes.push_back(values.size);
      total += values.size;
    }
    if (!errors.is_none()) {
      Flat flat = FlatArray(errors, "errors", kWide, Access::kWrite);
      if (flat.size != total || exact_objects.size() != vectors.size()) {
        ThrowArgumentError(
            "errors has " + std::to_string(flat.size) +
            " elements, and there are " + std::to_string(exact_objects.size()) +
            " exact vectors; the values are " + std::to_string(vectors.size()) +
            " vectors of " + std::to_string(total) + " elements together");
      }
      WideT* write = flat.Write<WideT>();
      for (std::size_t i = 0; i < vectors.size(); ++i) {
        const Flat exact = FlatArray(exact_objects[i], "exact", kWide);
        if (exact.size != sizes[i]) {
          ThrowArgumentError("exact has " + std::to_string(exact.size) +
                             " elements and values has " +
                             std::to_string(sizes[i]));
        }
        held.push_back(exact);
        vectors[i].exact = exact.Read<WideT>();
        vectors[i].errors = write;
        write += sizes[i];
      }
    }
    std::vector<std::int64_t> non_finite(vectors.size());
    std::vector<Status> statuses(vectors.size());
    ForEach(sizes, [&](std::size_t i, Parallel& threads) {
      statuses[i] =
          EncodeOne(vectors[i], code, static_cast<std::uint64_t>(seed), threads,
                    &non_finite[i]);
    });
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      ThrowUnlessOk(statuses[i], non_finite[i]);
    }
  });
  return codes;
}

// The container of a body that is written where it belongs.
py::bytes FrameValues(const py::object& values_object, const py::bytes& header,
                      const std::string& form, const py::object& bits,
                      const py::object& block_size, const py::object& relative,
                      const py::object& seed_object) {
  const ValueCode code = ToValueCode(form, bits, block_size, relative);
  const std::int64_t seed = WholeNumber(seed_object, "seed");
  const Flat values = FloatArray(values_object, "values");
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

// The largest magnitude of the values that Decode would return.
double Check(const py::object& data_object, const py::object& count_object,
             const std::string& form, const py::object& dtype,
             const py::object& bits, const py::object& block_size,
             const py::object& relative) {
  const std::int64_t count = WholeNumber(count_object, "count");
  const ValueCode code = ToValueCode(form, bits, block_size, relative);
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  const auto* const bytes = data.Read<std::uint8_t>();
  Parallel& threads = Threads();
  Status status;
  double largest = 0;
  WithFloatType(DTypeOf(py::dtype::from_args(dtype)), [&](auto zero) {
    const WithoutGil released;
    status = CheckValues(bytes, data.size, count, code, threads, &zero);
    largest = static_cast<double>(Wide(zero));
  });
  ThrowUnlessOk(status);
  return largest;
}

// `out` is an array of `count` values of that dtype, or None.
py::array Decode(const py::object& data_object, const py::object& count_object,
                 const std::string& form, const py::object& dtype_object,
                 const py::object& bits, const py::object& block_size,
                 const py::object& relative, const py::object& out) {
  const std::int64_t count = WholeNumber(count_object, "count");
  const py::dtype dtype = py::dtype::from_args(dtype_object);
  const ValueCode code = ToValueCode(form, bits, block_size, relative);
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  const auto* const bytes = data.Read<std::uint8_t>();
  // `count` is as untrusted as the bytes.
  ThrowUnlessOk(
      CheckValueBytes(bytes, data.size, count, code, dtype.itemsize()));
  Flat values = NewOrGiven(dtype, count, out);
  RequireDisjoint(data, "data", values, "out");
  WithFloatType(values.dtype, [&](auto zero) {
    RunKernel([&](Parallel& threads) {
      return DecodeValues(bytes, data.size, count, code, threads,
                          values.Write<decltype(zero)>());
    });
  });
  return values.array;
}

}  // namespace

void RegisterValueCode(py::module_& module) {
  const auto float32 = py::dtype::of<float>();
  module.def("encode_values", &Encode, py::arg("values"), py::arg("form"),
             py::kw_only(), py::arg("bits") = 8, py::arg("block_size") = 256,
             py::arg("relative") = 0.01, py::arg("seed") = 0);
  module.def("encode_values_of_each", &EncodeEach, py::arg("values"),
             py::arg("form"), py::kw_only(), py::arg("exact") = py::tuple(),
             py::arg("errors") = py::none(), py::arg("bits") = 8,
             py::arg("block_size") = 256, py::arg("relative") = 0.01,
             py::arg("seed") = 0);
  module.def("frame_values", &FrameValues, py::arg("values"), py::arg("header"),
             py::arg("form"), py::kw_only(), py::arg("bits") = 8,
             py::arg("block_size") = 256, py::arg("relative") = 0.01,
             py::arg("seed") = 0);
  module.def("decode_values", &Decode, py::arg("data"), py::arg("count"),
             py::arg("form"), py::kw_only(), py::arg("dtype") = float32,
             py::arg("bits") = 8, py::arg("block_size") = 256,
             py::arg("relative") = 0.01, py::arg("out") = py::none());
  module.def("check_values", &Check, py::arg("data"), py::arg("count"),
             py::arg("form"), py::kw_only(), py::arg("dtype") = float32,
             py::arg("bits") = 8, py::arg("block_size") = 256,
             py::arg("relative") = 0.01);
}

}  // namespace fedplug::python
