// Arbitrary bytes, consumed from the front. After their end, zeros follow.
#ifndef FEDPLUG_TESTS_FUZZ_FUZZ_INPUT_H_
#define FEDPLUG_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace fedplug::testing {

class FuzzInput {
 public:
  FuzzInput(const std::uint8_t* data, std::size_t size)
      : data_(data), size_(size) {}

  template <typename T>
  T Take() {
    T value{};
    const std::size_t bytes = std::min(sizeof(T), size_);
    if (bytes > 0) std::memcpy(&value, data_, bytes);
    data_ += bytes;
    size_ -= bytes;
    return value;
  }

  template <typename T>
  std::vector<T> TakeVector(std::size_t count) {
    std::vector<T> values(count);
    for (T& value : values) value = Take<T>();
    return values;
  }

  std::size_t size() const { return size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

// Ends the process, which reports a broken promise to the fuzzer.
inline void Require(bool promise, const char* what) {
  if (promise) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

}  // namespace fedplug::testing

#endif  // FEDPLUG_TESTS_FUZZ_FUZZ_INPUT_H_
