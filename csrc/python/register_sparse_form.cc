// The body of a sparse payload for NumPy arrays.
#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/all_finite.h"
#include "core/index_code.h"
#include "core/sparse_form.h"
#include "python/arrays.h"
#include "python/decoding.h"
#include "python/each.h"
#include "python/gil.h"
#include "python/new_container.h"
#include "python/threads.h"

namespace fedplug::python {
namespace {

py::array_t<std::uint8_t> Write(std::int64_t count,
                                const py::object& code_object,
                                const py::object& values_object) {
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

py::tuple Split(const py::object& body_object, std::int64_t elements) {
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
py::tuple ReadEntries(const py::object& body_object, std::int64_t elements,
                      const py::dtype& dtype, const std::string& form) {
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
      DecodedIndices(code, parts.count, elements, index_form, {}));
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
  if (values.dtype == DType::kUInt8) return;
  Parallel& threads = Threads();
  bool finite = false;
  WithFloatType(values.dtype, [&](auto zero) {
    const auto* const read = values.Read<decltype(zero)>();
    const WithoutGil released;
    finite = AllFinite(read, values.size, threads);
  });
  if (!finite) {
    Throw("NonFiniteError",
          "the array holds a NaN or an infinity, which no receiver would take");
  }
}

// The body is written in place.
py::bytes FrameEntries(const py::object& indices_object, std::int64_t elements,
                       const py::object& values_object, const py::bytes& header,
                       const std::string& form) {
  const IndexForm index_form = IndexFormCalled(form);
  const Flat indices = FlatArray(indices_object, "indices", DType::kInt32);
  const Flat values = ValuesOf(values_object, indices);
  RequireFinite(values);
  std::vector<std::uint8_t> code;
  Status status;
  {
    const WithoutGil released;
    status = EncodeIndices(indices.Read<std::int32_t>(), indices.size, elements,
                           index_form, &code);
  }
  ThrowUnlessOk(status);
  const std::int64_t count = indices.size;
  const auto code_bytes = static_cast<std::int64_t>(code.size());
  const Bytes data = values.AsBytes();
  ThrowUnlessOk(CheckSparseBody(count, code_bytes));
  const NewContainer container(header,
                               SparseBodyBytes(count, code_bytes, data.size));
  {
    const WithoutGil released;
    WriteSparseBody(count, code.data(), code_bytes, data.data, data.size,
                    container.body());
    container.Close();
  }
  return container.bytes();
}

// The containers of several tensors, each as FrameEntries writes it.
py::list FrameEntriesOfEach(const py::list& indices_objects,
                            const std::vector<std::int64_t>& elements,
                            const py::list& values_objects,
                            const std::vector<py::bytes>& headers,
                            const std::string& form) {
  const IndexForm index_form = IndexFormCalled(form);
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
  module.def("sparse_body", &Write, py::arg("count"), py::arg("index_code"),
             py::arg("values"));
  module.def("split_sparse_body", &Split, py::arg("body"), py::arg("elements"));
  module.def("read_entries", &ReadEntries, py::arg("body"), py::arg("elements"),
             py::arg("dtype"), py::arg("form"));
  module.def("frame_entries", &FrameEntries, py::arg("indices"),
             py::arg("elements"), py::arg("values"), py::arg("header"),
             py::arg("form"));
  module.def("frame_entries_of_each", &FrameEntriesOfEach, py::arg("indices"),
             py::arg("elements"), py::arg("values"), py::arg("headers"),
             py::arg("form"));
}

}  // namespace fedplug::python
