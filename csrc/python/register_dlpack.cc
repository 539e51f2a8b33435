// `from_dlpack`: arrays of other libraries as NumPy arrays, without a copy, also those of bfloat16, which
// NumPy's own
// function refuses. The structs are those of DLPack's specification, version 1 and before it
// (https://dmlc.github.io/dlpack/latest/c_api.html).
#include <cstdint>
#include <string>
#include <vector>

#include "python/arrays.h"
#include "python/gil.h"

namespace fedplug::python::dlpack {

inline constexpr std::int32_t kCpu = 1;  // a device type

// Codes of element types.
inline constexpr std::uint8_t kInt = 0;
inline constexpr std::uint8_t kUInt = 1;
inline constexpr std::uint8_t kFloat = 2;
inline constexpr std::uint8_t kBFloat = 4;
inline constexpr std::uint8_t kBool = 6;

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct ElementType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

// SHAPE: shape[rank], strides[rank] in elements, or null: C-contiguous
struct Tensor {
  void* data;
  Device device;
  std::int32_t rank;
  ElementType type;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

// The content of a capsule named kName. A consumer renames the capsule and
// calls `deleter`, if there is one, when it is done.
struct Unversioned {
  static constexpr const char* kName = "dltensor";
  static constexpr const char* kUsedName = "used_dltensor";

  Tensor tensor;
  void* context;
  void (*deleter)(Unversioned*);
};

// Versions 1.x have this layout after `deleter`.
struct Versioned {
  static constexpr const char* kName = "dltensor_versioned";
  static constexpr const char* kUsedName = "used_dltensor_versioned";
  static constexpr std::uint32_t kMajor = 1;
  static constexpr std::uint64_t kReadOnly = 1;  // a flag

  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void (*deleter)(Versioned*);
  std::uint64_t flags;
  Tensor tensor;
};

}  // namespace fedplug::python::dlpack

namespace fedplug::python {
namespace {

void RequireCpu(std::int64_t device_type) {
  if (device_type == dlpack::kCpu) return;
  ThrowArgumentError("the array is on a device of DLPack type " +
                     std::to_string(device_type) +
                     ", not on the CPU; copy it to the CPU first (in PyTorch, "
                     "array.cpu())");
}

py::dtype DTypeOfElements(const dlpack::ElementType& type) {
  const auto named = [](const std::string& name) {
    return py::dtype::from_args(py::str(name));
  };
  const int bits = type.bits;
  const std::string bytes = std::to_string(bits / 8);
  const bool whole = bits == 8 || bits == 16 || bits == 32 || bits == 64;
  if (type.lanes == 1 && whole) {
    switch (type.code) {
      case dlpack::kInt:
        return named("i" + bytes);
      case dlpack::kUInt:
        return named("u" + bytes);
      case dlpack::kFloat:
        if (bits > 8) return named("f" + bytes);
        break;
      case dlpack::kBFloat:
        if (bits == 16) {
          const py::object module =
              FromPython([] { return PyImport_ImportModule("ml_dtypes"); });
          return py::dtype::from_args(module.attr("bfloat16"));
        }
        break;
      case dlpack::kBool:
        if (bits == 8) return named("bool");
        break;
      default:
        break;
    }
  }
  ThrowArgumentError("the array has elements of DLPack type " +
                     std::to_string(type.code) + " with " +
                     std::to_string(bits) + " bits and " +
                     std::to_string(type.lanes) +
                     " lanes; cast it to integers, bool, float16, bfloat16, "
                     "float32 or float64 first");
}

std::vector<py::ssize_t> ContiguousShape(const dlpack::Tensor& tensor) {
  if (tensor.rank < 0 || tensor.rank > 32) {
    ThrowArgumentError("the array has rank " + std::to_string(tensor.rank) +
                       "; it must be at most 32");
  }
  std::vector<py::ssize_t> shape;
  for (std::int32_t axis = 0; axis < tensor.rank; ++axis) {
    shape.push_back(tensor.shape[axis]);
  }
  if (tensor.strides == nullptr) return shape;
  bool contiguous = true;
  std::int64_t wanted = 1;
  for (std::int32_t axis = tensor.rank - 1; axis >= 0; --axis) {
    const std::int64_t length = tensor.shape[axis];
    if (length == 0) return shape;
    contiguous = contiguous && (length == 1 || tensor.strides[axis] == wanted);
    wanted *= length;
  }
  if (!contiguous) {
    ThrowArgumentError(
        "the array is not C-contiguous; pass a contiguous copy of it (in "
        "PyTorch, array.contiguous())");
  }
  return shape;
}

// REQUIRES: `capsule` is called Managed::kName
template <typename Managed>
py::array TakeOver(const py::object& capsule, Managed* managed,
                   bool read_only) {
  const dlpack::Tensor& tensor = managed->tensor;
  RequireCpu(tensor.device.type);
  const py::dtype dtype = DTypeOfElements(tensor.type);
  const std::vector<py::ssize_t> shape = ContiguousShape(tensor);
  if (PyCapsule_SetName(capsule.ptr(), Managed::kUsedName) != 0) {
    throw py::error_already_set();
  }
  const py::capsule owner(managed, [](void* taken) {
    auto* const tensor_taken = static_cast<Managed*>(taken);
    if (tensor_taken->deleter != nullptr) tensor_taken->deleter(tensor_taken);
  });
  const void* const data =
      tensor.data == nullptr
          ? nullptr
          : static_cast<const char*>(tensor.data) + tensor.byte_offset;
  py::array array(dtype, shape, data, owner);
  if (read_only) {
    py::detail::array_proxy(array.ptr())->flags &=
        ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  }
  return array;
}

bool Has(const py::object& object, const char* name) {
  bool has = false;
  CallPython([&] { has = PyObject_HasAttrString(object.ptr(), name) != 0; });
  return has;
}

py::object Called(const py::object& object, const char* name,
                  const py::dict& keywords = {}) {
  const py::object method =
      FromPython([&] { return PyObject_GetAttrString(object.ptr(), name); });
  const py::tuple nothing(0);
  return FromPython([&] {
    return PyObject_Call(method.ptr(), nothing.ptr(), keywords.ptr());
  });
}

// Older producers refuse the version argument.
py::object CapsuleOf(const py::object& object) {
  const auto exported = [&](const py::dict& keywords) {
    return Called(object, "__dlpack__", keywords);
  };
  try {
    return exported(py::dict(py::arg("max_version") =
                                 py::make_tuple(dlpack::Versioned::kMajor, 0)));
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return exported({});
}

py::array FromDLPack(const py::object& object) {
  if (!Has(object, "__dlpack__")) {
    ThrowArgumentError(
        "the array has no __dlpack__; it is " +
        py::str(py::type::of(object).attr("__name__")).cast<std::string>() +
        ". Pass numpy.asarray of it where an array is asked for");
  }
  // Checked first, because exporting an array on another device may be costly.
  // The capsule has it too, also for older JAX.
  if (Has(object, "__dlpack_device__")) {
    const py::tuple device = Called(object, "__dlpack_device__");
    RequireCpu(py::int_(py::object(device[0])).cast<std::int64_t>());
  }
  py::object capsule;
  try {
    capsule = CapsuleOf(object);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_BufferError)) throw;
    ThrowArgumentError("the array does not let others read it: " +
                       py::str(error.value()).cast<std::string>());
  }
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::Versioned::kName) != 0) {
    auto* const managed = static_cast<dlpack::Versioned*>(
        PyCapsule_GetPointer(capsule.ptr(), dlpack::Versioned::kName));
    if (managed->major != dlpack::Versioned::kMajor) {
      ThrowArgumentError("the array is described in version " +
                         std::to_string(managed->major) +
                         " of DLPack; version 1 and before are known here");
    }
    return TakeOver(capsule, managed,
                    (managed->flags & dlpack::Versioned::kReadOnly) != 0);
  }
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::Unversioned::kName) != 0) {
    // Older versions do not say whether it is writable.
    return TakeOver(capsule,
                    static_cast<dlpack::Unversioned*>(PyCapsule_GetPointer(
                        capsule.ptr(), dlpack::Unversioned::kName)),
                    true);
  }
  ThrowArgumentError("__dlpack__ of the array returned no DLPack capsule");
}

}  // namespace

void RegisterDLPack(py::module_& module) {
  module.def("from_dlpack", &FromDLPack, py::arg("array"));
}

}  // namespace fedplug::python
