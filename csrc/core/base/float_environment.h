// The floating-point environment of the contract: round to nearest even,
// denormals kept. Threads of other libraries may flush denormals to zero
// (TensorFlow's pool does), and then the bits of a result would depend on the
// thread.
#ifndef FEDPLUG_CORE_BASE_FLOAT_ENVIRONMENT_H_
#define FEDPLUG_CORE_BASE_FLOAT_ENVIRONMENT_H_

#include <cfenv>

namespace fedplug {

// Sets the default environment for the life of the object, on its thread. The
// calls are opaque to the compiler, so no load or store of a kernel moves
// across them, and with these the arithmetic stays inside.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace fedplug

#endif  // FEDPLUG_CORE_BASE_FLOAT_ENVIRONMENT_H_
