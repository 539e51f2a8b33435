// The memory of other array libraries, as DLPack describes it: the structs of
// its specification, version 1 and before it
// (https://dmlc.github.io/dlpack/latest/c_api.html).
#ifndef FEDPLUG_PYTHON_DLPACK_H_
#define FEDPLUG_PYTHON_DLPACK_H_

#include <cstdint>

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

#endif  // FEDPLUG_PYTHON_DLPACK_H_
