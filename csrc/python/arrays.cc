#include "python/arrays.h"

#include <functional>
#include <limits>
#include <new>
#include <utility>
#include <vector>

#include "core/base/block_pool.h"
#include "python/gil.h"

namespace fedplug::python {

// Before Python 3.12 its header declares these with C++ linkage.
extern "C" {
PyAPI_FUNC(int) PyTraceMalloc_Track(unsigned int domain, std::uintptr_t block,
                                    std::size_t bytes);
PyAPI_FUNC(int)
    PyTraceMalloc_Untrack(unsigned int domain, std::uintptr_t block);
}

namespace {

// The domain of NumPy's memory in tracemalloc.
constexpr unsigned int kTraceDomain = 389047;

void GiveBack(void* block) {
  PyTraceMalloc_Untrack(kTraceDomain, reinterpret_cast<std::uintptr_t>(block));
  ResultPool().GiveBack(block);
}

// Empty if there cannot be such an array, which NumPy then refuses.
std::optional<std::size_t> BytesOfArray(const py::dtype& dtype,
                                        const std::vector<py::ssize_t>& shape) {
  auto bytes = static_cast<std::size_t>(dtype.itemsize());
  for (const py::ssize_t size : shape) {
    if (size < 0) return std::nullopt;
    const auto times = static_cast<std::size_t>(size);
    constexpr std::size_t kMost = std::numeric_limits<py::ssize_t>::max();
    if (times != 0 && bytes > kMost / times) return std::nullopt;
    bytes *= times;
  }
  return bytes;
}

const char* NameOf(DType dtype) {
  constexpr const char* kNames[] = {"float32", "float64", "float16", "bfloat16",
                                    "int32",   "int64",   "uint8",   "other"};
  return kNames[static_cast<std::size_t>(dtype)];
}

std::string Text(const py::handle& object) {
  return FromPython([&] { return PyObject_Str(object.ptr()); })
      .cast<std::string>();
}

// The attribute may run Python code.
py::object Attribute(const py::handle& object, const char* name) {
  return FromPython([&] { return PyObject_GetAttrString(object.ptr(), name); });
}

// Checks the memory layout of an array of any dtype.
Flat UsableArray(const py::object& object, const char* name, Access access) {
  const std::string parameter = name;
  if (!py::isinstance<py::array>(object)) {
    Throw("DTypeError", parameter + " must be a NumPy array, not " +
                            Text(py::type::of(object).attr("__name__")));
  }
  py::array array = py::reinterpret_borrow<py::array>(object);
  if ((array.flags() & py::array::c_style) == 0) {
    ThrowArgumentError(parameter +
                       " is not C-contiguous; pass numpy.ascontiguousarray(" +
                       parameter + ")");
  }
  if ((array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_) == 0) {
    ThrowArgumentError(parameter +
                       " is not aligned to its dtype; pass a copy of it");
  }
  if (access == Access::kWrite && !array.writeable()) {
    ThrowArgumentError(
        parameter +
        " is read-only, but it is updated in place; pass a writeable array");
  }
  const DType dtype = DTypeOf(array.dtype());
  const std::int64_t size = array.size();
  return {std::move(array), dtype, size};
}

[[noreturn]] void ThrowWrongDType(const Flat& flat, const char* name,
                                  const std::string& wanted) {
  Throw("DTypeError", std::string(name) + " has dtype " +
                          Text(flat.array.dtype()) + "; it must be " + wanted);
}

}  // namespace

DType DTypeOf(const py::dtype& dtype) {
  constexpr char kOrderOfThisMachine = PY_BIG_ENDIAN ? '>' : '<';
  const char order = dtype.byteorder();
  // NumPy reports '=' for most native dtypes, but not for all.
  if (order != '=' && order != '|' && order != kOrderOfThisMachine) {
    return DType::kOther;
  }
  const char kind = dtype.kind();
  const py::ssize_t bytes = dtype.itemsize();
  if (kind == 'f' && bytes == 4) return DType::kFloat32;
  if (kind == 'f' && bytes == 8) return DType::kFloat64;
  if (kind == 'f' && bytes == 2) return DType::kFloat16;
  if (kind == 'i' && bytes == 4) return DType::kInt32;
  if (kind == 'i' && bytes == 8) return DType::kInt64;
  if (kind == 'u' && bytes == 1) return DType::kUInt8;
  // NumPy has no bfloat16. Packages register it under this name.
  if (bytes == 2 && Text(Attribute(dtype, "name")) == "bfloat16")
    return DType::kBFloat16;
  return DType::kOther;
}

Bytes BytesOf(const py::object& object, const char* name) {
  const std::string parameter = name;
  const auto require_contiguous = [&](bool contiguous) {
    if (contiguous) return;
    ThrowArgumentError(parameter + " is not C-contiguous; pass bytes(" +
                       parameter + ")");
  };
  if (py::isinstance<py::array>(object)) {
    const auto array = py::reinterpret_borrow<py::array>(object);
    require_contiguous((array.flags() & py::array::c_style) != 0);
    return {array, static_cast<const std::uint8_t*>(array.data()),
            array.nbytes()};
  }
  if (PyObject_CheckBuffer(object.ptr()) == 0) {
    ThrowArgumentError(parameter +
                       " must be bytes, a buffer or a NumPy array, not " +
                       Text(py::type::of(object).attr("__name__")));
  }
  auto view = FromPython([&] { return PyMemoryView_FromObject(object.ptr()); });
  const Py_buffer* const buffer = PyMemoryView_GET_BUFFER(view.ptr());
  require_contiguous(PyBuffer_IsContiguous(buffer, 'C') != 0);
  return {std::move(view), static_cast<const std::uint8_t*>(buffer->buf),
          buffer->len};
}

Flat FlatArray(const py::object& object, const char* name, DType dtype,
               Access access) {
  Flat flat = UsableArray(object, name, access);
  if (flat.dtype != dtype) ThrowWrongDType(flat, name, NameOf(dtype));
  return flat;
}

Flat FloatArray(const py::object& object, const char* name, Access access) {
  Flat flat = UsableArray(object, name, access);
  switch (flat.dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kFloat16:
    case DType::kBFloat16:
      return flat;
    default:
      ThrowWrongDType(flat, name, "float32, float64, float16 or bfloat16");
  }
}

Flat WideFloatArray(const py::object& object, const char* name, Access access) {
  Flat flat = UsableArray(object, name, access);
  if (flat.dtype == DType::kFloat32 || flat.dtype == DType::kFloat64) {
    return flat;
  }
  ThrowWrongDType(flat, name,
                  "float32 or float64 (fedplug.ops.widened widens 16 bits)");
}

Flat ArrayLike(const Flat& like, const char* like_name,
               const py::object& object, const char* name, Access access) {
  Flat flat = UsableArray(object, name, access);
  if (flat.dtype != like.dtype)
    ThrowWrongDType(flat, name,
                    std::string(NameOf(like.dtype)) + ", as " + like_name);
  return flat;
}

ResidualUpdate CheckResidual(const Flat& delta, const char* delta_name,
                             const py::object& residual, const char* name,
                             const py::object& out, const char* out_name) {
  const auto like_delta = [&](const py::object& object, const char* its_name,
                              Access access) {
    Flat flat = ArrayLike(delta, delta_name, object, its_name, access);
    RequireSameSize(delta, delta_name, flat, its_name);
    return flat;
  };
  if (out.is_none()) {
    if (residual.is_none()) {
      ThrowArgumentError(std::string(name) + " is None; then " + out_name +
                         " must be an array, for what is left behind");
    }
    Flat in_place = like_delta(residual, name, Access::kWrite);
    RequireDisjoint(delta, delta_name, in_place, name);
    return {in_place, in_place};
  }
  std::optional<Flat> in;
  if (!residual.is_none()) in = like_delta(residual, name, Access::kRead);
  Flat written = like_delta(out, out_name, Access::kWrite);
  RequireDisjoint(delta, delta_name, written, out_name);
  if (in.has_value()) RequireDisjointOrSame(*in, name, written, out_name);
  return {std::move(in), std::move(written)};
}

py::array NewArrayOfShape(const py::dtype& dtype,
                          const std::vector<py::ssize_t>& shape) {
  const std::optional<std::size_t> bytes = BytesOfArray(dtype, shape);
  if (bytes.value_or(0) < kPooledFrom) return py::array(dtype, shape);
  void* const block = ResultPool().Take(*bytes);
  if (block == nullptr) throw std::bad_alloc();
  const py::capsule owner(block, GiveBack);
  PyTraceMalloc_Track(kTraceDomain, reinterpret_cast<std::uintptr_t>(block),
                      *bytes);
  return py::array(dtype, shape, block, owner);
}

Flat NewArray(const py::dtype& dtype, std::int64_t size) {
  return {NewArrayOfShape(dtype, {size}), DTypeOf(dtype), size};
}

Flat NewArrayLike(const Flat& like, std::int64_t size) {
  return NewArray(like.array.dtype(), size);
}

py::array_t<std::uint8_t> ArrayOfVector(std::vector<std::uint8_t> bytes) {
  auto* const kept = new std::vector<std::uint8_t>(std::move(bytes));
  const py::capsule owner(kept, [](void* vector) {
    delete static_cast<std::vector<std::uint8_t>*>(vector);
  });
  return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(kept->size()),
                                   kept->data(), owner);
}

Flat NewOrGiven(const py::dtype& dtype, std::int64_t size,
                const py::object& out) {
  if (out.is_none()) return NewArray(dtype, size);
  Flat given = UsableArray(out, "out", Access::kWrite);
  if (given.dtype == DTypeOf(dtype) && given.size == size) return given;
  ThrowArgumentError("out has " + std::to_string(given.size) + " elements of " +
                     Text(given.array.dtype()) + "; it must have " +
                     std::to_string(size) + " of " + Text(dtype));
}

py::array ReadOnlyArray(const py::dtype& dtype, std::int64_t size,
                        const void* data, const py::object& owner) {
  py::array array(dtype, std::vector<py::ssize_t>{size}, data, owner);
  py::detail::array_proxy(array.ptr())->flags &=
      ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

py::array ReadOnlyPart(const Bytes& bytes, std::int64_t begin,
                       std::int64_t size) {
  return ReadOnlyArray(py::dtype::of<std::uint8_t>(), size, bytes.data + begin,
                       bytes.owner);
}

void RequireDisjoint(const Flat& a, const char* a_name, const Flat& b,
                     const char* b_name) {
  const auto* a_begin = static_cast<const char*>(a.array.data());
  const auto* b_begin = static_cast<const char*>(b.array.data());
  const auto before = std::less_equal<>();
  if (before(a_begin + a.array.nbytes(), b_begin) ||
      before(b_begin + b.array.nbytes(), a_begin))
    return;
  ThrowArgumentError(std::string(a_name) + " and " + b_name +
                     " share memory; pass a copy of one of them");
}

void RequireDisjointOrSame(const Flat& a, const char* a_name, const Flat& b,
                           const char* b_name) {
  const bool same =
      a.array.data() == b.array.data() && a.array.nbytes() == b.array.nbytes();
  if (!same) RequireDisjoint(a, a_name, b, b_name);
}

void RequireSameSize(const Flat& a, const char* a_name, const Flat& b,
                     const char* b_name) {
  if (a.size == b.size) return;
  ThrowArgumentError(std::string(a_name) + " has " + std::to_string(a.size) +
                     " elements and " + b_name + " has " +
                     std::to_string(b.size) +
                     "; they must have the same number");
}

void Throw(const char* error_class, const std::string& message,
           const py::dict& keywords) {
  const py::object errors =
      FromPython([] { return PyImport_ImportModule("fedplug.errors"); });
  const py::object type = errors.attr(error_class);
  const py::tuple arguments = py::make_tuple(message);
  const py::object error = FromPython([&] {
    return PyObject_Call(type.ptr(), arguments.ptr(), keywords.ptr());
  });
  PyErr_SetObject(type.ptr(), error.ptr());
  throw py::error_already_set();
}

void ThrowArgumentError(const std::string& message) {
  Throw("ArgumentError", message);
}

void ThrowUnlessOk(const Status& status, std::int64_t non_finite) {
  switch (status.code()) {
    case StatusCode::kOk:
      return;
    case StatusCode::kInvalidArgument:
      ThrowArgumentError(status.message());
    case StatusCode::kNonFinite:
      Throw("NonFiniteError", status.message(),
            py::dict(py::arg("count") = non_finite));
    case StatusCode::kDataLoss:
      Throw("PayloadError", status.message());
    case StatusCode::kDevice:
      Throw("FedplugError", status.message());
  }
}

}  // namespace fedplug::python
