// A container as Python bytes, into which a binding writes the body without a
// copy.
#ifndef FEDPLUG_PYTHON_NEW_CONTAINER_H_
#define FEDPLUG_PYTHON_NEW_CONTAINER_H_

#include <pybind11/pybind11.h>

#include <cstdint>

#include "core/container.h"

namespace fedplug::python {

class NewContainer {
 public:
  // REQUIRES: the GIL, `header` is valid, and outlives the object
  NewContainer(const pybind11::bytes& header, std::int64_t body_bytes)
      : header_(reinterpret_cast<const std::uint8_t*>(
            PyBytes_AS_STRING(header.ptr()))),
        header_bytes_(PyBytes_GET_SIZE(header.ptr())),
        body_bytes_(body_bytes),
        bytes_(nullptr, static_cast<std::size_t>(
                            ContainerBytes(header_bytes_, body_bytes))),
        data_(
            reinterpret_cast<std::uint8_t*>(PyBytes_AS_STRING(bytes_.ptr()))) {}

  // The place of body[body_bytes]. THREADS: needs no GIL
  std::uint8_t* body() const { return data_ + BodyBegin(header_bytes_); }

  // Writes header, length and checksum around the body. THREADS: needs no GIL
  void Close() const {
    CloseContainer(header_, header_bytes_, body_bytes_, data_);
  }

  const pybind11::bytes& bytes() const { return bytes_; }

 private:
  const std::uint8_t* header_;
  std::int64_t header_bytes_;
  std::int64_t body_bytes_;
  pybind11::bytes bytes_;
  std::uint8_t* data_;
};

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_NEW_CONTAINER_H_
