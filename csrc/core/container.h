// The container of every payload. docs/wire-format.md specifies its bytes.
//
// The header is the part before the length of the body. It is equal for all
// payloads of one tensor under one encoder.
#ifndef FEDPLUG_CORE_CONTAINER_H_
#define FEDPLUG_CORE_CONTAINER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace fedplug {

// NumPy's name of a dtype code, "float32" for 1. Null if there is none.
const char* DTypeName(int code);

struct ContainerHeader {
  std::string wire_id;
  int dtype = 0;  // its code
  std::vector<std::uint32_t> shape;
};

// The number of bytes of a container with this header and body.
std::int64_t ContainerBytes(std::int64_t header_bytes, std::int64_t body_bytes);

// The offset of the body in a container with this header.
std::int64_t BodyBegin(std::int64_t header_bytes);

// Writes header, length and checksum around a body that is already in place.
//
// REQUIRES: `header` is valid, and does not overlap `data`
// SHAPE:    header[header_bytes], data[ContainerBytes(header_bytes,
//           body_bytes)]
// THREADS:  the caller's only
// COST:     reads the body once
void CloseContainer(const std::uint8_t* header, std::int64_t header_bytes,
                    std::int64_t body_bytes, std::uint8_t* data);

// REQUIRES: `header` is valid, `data` overlaps neither
// SHAPE:    header[header_bytes], body[body_bytes],
//           data[ContainerBytes(header_bytes, body_bytes)]
// THREADS:  the caller's only
// COST:     reads the body twice, the second time from the cache if it fits.
//           Writes it once
void WriteContainer(const std::uint8_t* header, std::int64_t header_bytes,
                    const std::uint8_t* body, std::int64_t body_bytes,
                    std::uint8_t* data);

// The place of a body in its container.
struct BodyRange {
  std::int64_t begin = 0;
  std::int64_t bytes = 0;
};

// Reads an untrusted container. Refuses (kDataLoss) one that is incomplete, of
// another format, or has a wrong checksum.
//
// SHAPE:    data[bytes]
// COST:     reads every byte once
Status ReadContainer(const std::uint8_t* data, std::int64_t bytes,
                     ContainerHeader* header, BodyRange* body);

// The same, and refuses a header other than the expected one.
Status ReadContainerOf(const std::uint8_t* header, std::int64_t header_bytes,
                       const std::uint8_t* data, std::int64_t bytes,
                       BodyRange* body);

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CONTAINER_H_
