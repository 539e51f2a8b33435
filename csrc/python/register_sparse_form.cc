// Sparse payloads for NumPy arrays: index codes, uncompressed values, which must be finite, and the body
// of both.
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/all_finite.h"
#include "core/index_code.h"
#include "core/sparse_form.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/new_container.h"
#include "python/numbers.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

// Untrusted bytes as values: in `place`, or without a copy if they are aligned,
// or in a new array.
// REQUIRES: there are whole values; `place` has as many, and does not overlap
//           the bytes
// Raises: PayloadError if one is not finite
py::array FiniteValues(const Bytes& bytes, const py::dtype& dtype,
                       std::optional<Flat> place) {
  const std::int64_t count = bytes.size / dtype.itemsize();
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data);
  const auto alignment = static_cast<std::uintptr_t>(dtype.alignment());
  const bool as_they_lie = !place.has_value() && address % alignment == 0;
  if (as_they_lie) {
    place = Flat{ReadOnlyArray(dtype, count, bytes.data, bytes.owner),
                 DTypeOf(dtype), count};
  } else if (!place.has_value()) {
    place = NewArray(dtype, count);
  }
  Parallel& threads = Threads();
  bool finite = false;
  WithFloatType(place->dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const read = place->Read<T>();
    T* const write = as_they_lie ? nullptr : place->Write<T>();
    const WithoutGil released;
    finite = as_they_lie ? AllFinite(read, count, threads)
                         : CopyFinite(bytes.data, count, write, threads);
  });
  if (!finite) Throw("PayloadError", "a raw value is NaN or infinite");
  return place->array;
}

bool IsFinite(const Flat& values) {
  Parallel& threads = Threads();
  bool finite = false;
  WithFloatType(values.dtype, [&](auto zero) {
    const auto* const read = values.Read<decltype(zero)>();
    const WithoutGil released;
    finite = AllFinite(read, values.size, threads);
  });
  return finite;
}

// `out` is an array of as many values of that dtype, or None.
py::array FiniteFromBytes(const py::object& data_object, const py::dtype& dtype,
                          const py::object& out) {
  const Flat data = FlatArray(data_object, "data", DType::kUInt8);
  WithFloatType(DTypeOf(dtype), [](auto) {});  // refuses other dtypes
  const std::int64_t count = data.size / dtype.itemsize();
  if (count * dtype.itemsize() != data.size) {
    Throw("PayloadError", std::to_string(data.size) +
                              " bytes are no whole numbers of " +
                              std::to_string(dtype.itemsize()) + " bytes each");
  }
  std::optional<Flat> place;
  if (!out.is_none()) {
    place = NewOrGiven(dtype, count, out);
    RequireDisjoint(data, "data", *place, "out");
  }
  return FiniteValues(data.AsBytes(), dtype, std::move(place));
}

// Raises: ArgumentError if no form has this name.
IndexForm IndexFormCalled(const std::string& name) {
  IndexForm form;
  if (!FindIndexForm(name, &form)) {
    ThrowUnlessOk({StatusCode::kInvalidArgument,
                   "form is '" + name + "'; it must be rice or gaps"});
  }
  return form;
}

// The indices of an untrusted code, after a check that its length fits `count`.
// Raises: PayloadError if it is not the code of `count` indices
py::array_t<std::int32_t> DecodedIndices(const Bytes& code, std::int64_t count,
                                         std::int64_t size, IndexForm form) {
  // `count` is as untrusted as the code.
  ThrowUnlessOk(CheckIndexCode(code.size, count, size, form));
  auto indices = NewArrayOf<std::int32_t>(count);
  RunKernel([&] {
    return DecodeIndices(code.data, code.size, count, size, form,
                         indices.mutable_data());
  });
  return indices;
}

py::array_t<std::uint8_t> EncodeIndexArray(const py::object& indices_object,
                                           const py::object& size_object,
                                           const std::string& name) {
  const std::int64_t size = WholeNumber(size_object, "size");
  const IndexForm form = IndexFormCalled(name);
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  std::vector<std::uint8_t> code;
  RunKernel([&] {
    return EncodeIndices(indices.Read<std::int32_t>(), indices.size, size, form,
                         &code);
  });
  return ArrayOfVector(std::move(code));
}

py::array_t<std::int32_t> DecodeIndexArray(const py::object& code_object,
                                           const py::object& count_object,
                                           const py::object& size_object,
                                           const std::string& name) {
  const std::int64_t count = WholeNumber(count_object, "count");
  const std::int64_t size = WholeNumber(size_object, "size");
  const IndexForm form = IndexFormCalled(name);
  const Flat code = FlatArray(code_object, "code", DType::kUInt8);
  return DecodedIndices(code.AsBytes(), count, size, form);
}

py::array_t<std::uint8_t> WriteBody(const py::object& count_object,
                                    const py::object& code_object,
                                    const py::object& values_object) {
  const std::int64_t count = WholeNumber(count_object, "count");
  const Flat code = FlatArray(code_object, "index_code", DType::kUInt8);
  const Flat values = FlatArray(values_object, "values", DType::kUInt8);
  ThrowUnlessOk(CheckSparseBody(count, code.size));
  auto body =
      NewArrayOf<std::uint8_t>(SparseBodyBytes(count, code.size, values.size));
  std::uint8_t* const bytes = body.mutable_data();
  {
    const WithoutGil released;
    WriteSparseBody(count, code.Read<std::uint8_t>(), code.size,
                    values.Read<std::uint8_t>(), values.size, bytes);
  }
  return body;
}

py::tuple Split(const py::object& body_object,
                const py::object& elements_object) {
  const std::int64_t elements = WholeNumber(elements_object, "elements");
  const Flat body = FlatArray(body_object, "body", DType::kUInt8);
  const Bytes bytes{body.array, body.Read<std::uint8_t>(), body.size};
  SparseBodyParts parts;
  ThrowUnlessOk(ReadSparseBody(bytes.data, bytes.size, elements, &parts));
  const std::int64_t code_bytes = parts.values_begin - parts.code_begin;
  return py::make_tuple(
      parts.count, ReadOnlyPart(bytes, parts.code_begin, code_bytes),
      ReadOnlyPart(bytes, parts.values_begin, bytes.size - parts.values_begin));
}

// The entries of a body whose values were written as they are.
py::tuple ReadEntries(const py::object& body_object,
                      const py::object& elements_object, const py::dtype& dtype,
                      const std::string& form) {
  const std::int64_t elements = WholeNumber(elements_object, "elements");
  const IndexForm index_form = IndexFormCalled(form);
  const Flat body = FlatArray(body_object, "body", DType::kUInt8);
  WithFloatType(DTypeOf(dtype), [](auto) {});  // refuses other dtypes
  SparseBodyParts parts;
  const auto* const bytes = body.Read<std::uint8_t>();
  ThrowUnlessOk(ReadSparseBody(bytes, body.size, elements, &parts));
  const Bytes code{body.array, bytes + parts.code_begin,
                   parts.values_begin - parts.code_begin};
  const Bytes data{body.array, bytes + parts.values_begin,
                   body.size - parts.values_begin};
  const std::int64_t wanted = parts.count * dtype.itemsize();
  if (data.size != wanted) {
    Throw("PayloadError", "the bytes of raw values have the wrong length, " +
                              std::to_string(data.size) + "; there must be " +
                              std::to_string(wanted));
  }
  py::array values = FiniteValues(data, dtype, {});
  return py::make_tuple(
      std::move(values),
      DecodedIndices(code, parts.count, elements, index_form));
}

// Floats, as many as there are indices, or bytes.
Flat ValuesOf(const py::object& object, const Flat& indices) {
  if (py::isinstance<py::array_t<std::uint8_t>>(object)) {
    return FlatArray(object, "values", DType::kUInt8);
  }
  Flat values = FloatArray(object, "values");
  RequireSameSize(indices, "indices", values, "values");
  return values;
}

void RequireFinite(const Flat& values) {
  if (values.dtype != DType::kUInt8 && !IsFinite(values)) {
    Throw("NonFiniteError",
          "the array holds a NaN or an infinity, which no receiver would take");
  }
}

// The containers of several tensors. The bodies are written in place.
py::list FrameEntriesOfEach(const py::sequence& indices_objects,
                            const py::sequence& elements_objects,
                            const py::sequence& values_objects,
                            const std::vector<py::bytes>& headers,
                            const std::string& form) {
  const IndexForm index_form = IndexFormCalled(form);
  const std::vector<std::int64_t> elements =
      WholeNumbers(elements_objects, "elements");
  const std::size_t count = indices_objects.size();
  if (elements.size() != count || values_objects.size() != count ||
      headers.size() != count) {
    ThrowArgumentError(
        "indices, elements, values and headers have several "
        "lengths; they must have one item for each tensor");
  }
  std::vector<Flat> indices;
  std::vector<Flat> values;
  std::vector<const std::int32_t*> read;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < count; ++i) {
    indices.push_back(FlatArray(indices_objects[i], "indices", DType::kInt32));
    values.push_back(ValuesOf(values_objects[i], indices[i]));
    RequireFinite(values[i]);
    read.push_back(indices[i].Read<std::int32_t>());
    sizes.push_back(indices[i].size);
  }
  std::vector<std::vector<std::uint8_t>> codes(count);
  std::vector<Status> statuses(count);
  ForEach(sizes, [&](std::size_t i, Parallel&) {
    statuses[i] =
        EncodeIndices(read[i], sizes[i], elements[i], index_form, &codes[i]);
  });
  std::vector<NewContainer> containers;
  std::vector<Bytes> data;
  containers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    ThrowUnlessOk(statuses[i]);
    const auto code_bytes = static_cast<std::int64_t>(codes[i].size());
    ThrowUnlessOk(CheckSparseBody(sizes[i], code_bytes));
    data.push_back(values[i].AsBytes());
    containers.emplace_back(
        headers[i], SparseBodyBytes(sizes[i], code_bytes, data[i].size));
  }
  ForEach(sizes, [&](std::size_t i, Parallel&) {
    WriteSparseBody(sizes[i], codes[i].data(),
                    static_cast<std::int64_t>(codes[i].size()), data[i].data,
                    data[i].size, containers[i].body());
    containers[i].Close();
  });
  py::list framed;
  for (const NewContainer& container : containers) {
    framed.append(container.bytes());
  }
  return framed;
}

}  // namespace

void RegisterSparseForm(py::module_& module) {
  module.def(
      "all_finite",
      [](const py::object& values) {
        return IsFinite(FloatArray(values, "values"));
      },
      py::arg("values"));
  module.def("finite_from_bytes", &FiniteFromBytes, py::arg("data"),
             py::arg("dtype"), py::arg("out") = py::none());
  module.def("encode_indices", &EncodeIndexArray, py::arg("indices"),
             py::arg("size"), py::kw_only(), py::arg("form") = "rice");
  module.def("decode_indices", &DecodeIndexArray, py::arg("code"),
             py::arg("count"), py::arg("size"), py::kw_only(),
             py::arg("form") = "rice");
  module.def("sparse_body", &WriteBody, py::arg("count"), py::arg("index_code"),
             py::arg("values"));
  module.def("split_sparse_body", &Split, py::arg("body"), py::arg("elements"));
  module.def("read_entries", &ReadEntries, py::arg("body"), py::arg("elements"),
             py::arg("dtype"), py::kw_only(), py::arg("form") = "rice");
  module.def("frame_entries_of_each", &FrameEntriesOfEach, py::arg("indices"),
             py::arg("elements"), py::arg("values"), py::arg("headers"),
             py::kw_only(), py::arg("form") = "rice");
}

}  // namespace fedplug::python
