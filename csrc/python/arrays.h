// NumPy arrays as plain memory, and errors as exceptions. An array that a
// kernel cannot use is refused with a message that names the remedy. Nothing
// here copies.
#ifndef FEDPLUG_PYTHON_ARRAYS_H_
#define FEDPLUG_PYTHON_ARRAYS_H_

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/floats.h"
#include "core/base/status.h"

namespace fedplug::python {

namespace py = pybind11;

enum class DType {
  kFloat32,
  kFloat64,
  kFloat16,
  kBFloat16,
  kInt32,
  kInt64,
  kUInt8,
  kOther
};

DType DTypeOf(const py::dtype& dtype);

enum class Access { kRead, kWrite };

// The bytes of an array or of any object with a buffer.
struct Bytes {
  py::object owner;  // as long as it lives, the memory stays where it is
  const std::uint8_t* data;
  std::int64_t size;
};

// The memory of a C-contiguous array of any shape, as a flat array.
struct Flat {
  py::array array;
  DType dtype;
  std::int64_t size;

  template <typename T>
  const T* Read() const {
    return static_cast<const T*>(array.data());
  }
  template <typename T>
  T* Write() {
    return static_cast<T*>(array.mutable_data());
  }
  Bytes AsBytes() const {
    return {array, Read<std::uint8_t>(), array.nbytes()};
  }
};

// Arrays of any dtype, also of those that NumPy does not export as a buffer
// (bfloat16).
// Raises: ArgumentError if `object` has no bytes, or is not C-contiguous.
Bytes BytesOf(const py::object& object, const char* name);

// `name` is the parameter that messages name.
// Raises: ArgumentError if `object` is no C-contiguous, aligned array of that
// dtype in native byte order, or is read-only where Access::kWrite is asked
// for.
Flat FlatArray(const py::object& object, const char* name, DType dtype,
               Access access = Access::kRead);

// The same for any of the four floating dtypes.
Flat FloatArray(const py::object& object, const char* name,
                Access access = Access::kRead);

// The same for float32 and float64, the dtypes of selections.
Flat WideFloatArray(const py::object& object, const char* name,
                    Access access = Access::kRead);

// The same for an array with the dtype of `like`.
Flat ArrayLike(const Flat& like, const char* like_name,
               const py::object& object, const char* name,
               Access access = Access::kRead);

// The arrays of a residual update: the old residual and the new one.
struct ResidualUpdate {
  std::optional<Flat> in;  // nothing is as zeros
  Flat out;                // the same array when it is updated in place

  bool InPlace() const {
    return in.has_value() && in->array.data() == out.array.data();
  }
  template <typename T>
  const T* Read() const {
    return in.has_value() ? in->Read<T>() : nullptr;
  }
};

// `residual` is an array or None. `out` is the array of its update, or None for
// an update in place.
// Raises: ArgumentError if one of them is unlike `delta`, has not its size,
// or shares memory that is written, or both are None.
ResidualUpdate CheckResidual(const Flat& delta, const char* delta_name,
                             const py::object& residual, const char* name,
                             const py::object& out, const char* out_name);

// A new array, also of a dtype that NumPy itself does not have (bfloat16). The
// memory of a large array is reused after it is freed.
py::array NewArrayOfShape(const py::dtype& dtype,
                          const std::vector<py::ssize_t>& shape);
Flat NewArray(const py::dtype& dtype, std::int64_t size);
Flat NewArrayLike(const Flat& like, std::int64_t size);

template <typename T>
py::array_t<T> NewArrayOf(std::int64_t size) {
  return py::reinterpret_borrow<py::array_t<T>>(
      NewArray(py::dtype::of<T>(), size).array);
}

// An array that keeps the vector alive, so that its bytes are not copied.
py::array_t<std::uint8_t> ArrayOfVector(std::vector<std::uint8_t> bytes);

// `out`, or a new array if it is None.
// Raises: ArgumentError if `out` is no such array, or cannot be written.
Flat NewOrGiven(const py::dtype& dtype, std::int64_t size,
                const py::object& out);

// Memory that `owner` keeps alive.
py::array ReadOnlyArray(const py::dtype& dtype, std::int64_t size,
                        const void* data, const py::object& owner);

// [size] bytes from `begin` on, within those of `bytes`, as a read-only array
// that keeps their owner.
py::array ReadOnlyPart(const Bytes& bytes, std::int64_t begin,
                       std::int64_t size);

// Raises: ArgumentError if the two share memory.
void RequireDisjoint(const Flat& a, const char* a_name, const Flat& b,
                     const char* b_name);

// The same, but the two may be one array.
void RequireDisjointOrSame(const Flat& a, const char* a_name, const Flat& b,
                           const char* b_name);

// Raises: ArgumentError if the two have not as many elements.
void RequireSameSize(const Flat& a, const char* a_name, const Flat& b,
                     const char* b_name);

// Raises fedplug.errors.<error_class>(message, **keywords).
[[noreturn]] void Throw(const char* error_class, const std::string& message,
                        const py::dict& keywords = {});

[[noreturn]] void ThrowArgumentError(const std::string& message);

// Raises the exception of fedplug.errors for a refusal. `non_finite` becomes
// the `count` of a NonFiniteError.
void ThrowUnlessOk(const Status& status, std::int64_t non_finite = 0);

// Calls body(T{}) with the C++ type of a floating dtype.
template <typename Body>
void WithFloatType(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kFloat32:
      return body(float{});
    case DType::kFloat64:
      return body(double{});
    case DType::kFloat16:
      return body(Half{});
    case DType::kBFloat16:
      return body(BFloat16{});
    default:
      ThrowArgumentError("not a floating dtype");
  }
}

// The same for the dtypes of WideFloatArray.
template <typename Body>
void WithWideFloatType(DType dtype, const Body& body) {
  if (dtype == DType::kFloat32) return body(float{});
  body(double{});
}

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_ARRAYS_H_
