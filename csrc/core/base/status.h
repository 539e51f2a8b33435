// The result of an operation that can refuse its input.
#ifndef FEDPLUG_CORE_BASE_STATUS_H_
#define FEDPLUG_CORE_BASE_STATUS_H_

#include <cstdint>
#include <string>
#include <utility>

namespace fedplug {

enum class StatusCode {
  kOk,
  kInvalidArgument,  // the caller's shapes, counts or options are wrong
  kNonFinite,        // a NaN or an infinity
  kDataLoss,         // a payload is truncated, corrupt or hostile
  kDevice,           // an accelerator's runtime refused to do the work
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// Refuses (kInvalidArgument) a number that is not in [0, 2^31).
inline Status CheckInt32(const char* name, std::int64_t number) {
  if (number >= 0 && number <= INT32_MAX) return {};
  return {StatusCode::kInvalidArgument, std::string(name) + " = " +
                                            std::to_string(number) +
                                            " is not in [0, 2^31)"};
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_STATUS_H_
