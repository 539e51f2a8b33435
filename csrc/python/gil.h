// The GIL around kernels and calls of Python, also in a thread that outlives
// the interpreter.
#ifndef FEDPLUG_PYTHON_GIL_H_
#define FEDPLUG_PYTHON_GIL_H_

#include <pybind11/pybind11.h>

#include <chrono>
#include <thread>

namespace fedplug::python {

// Calls `call`, in which this thread may have to wait for the GIL: it takes the
// GIL, or runs code written in Python.
//
// Before Python 3.14 such a thread is ended once the interpreter shuts down, by
// unwinding its stack: destructors then run without the GIL, or abort the
// process. Here it sleeps until the process ends, as in Python 3.14.
template <typename Call>
void CallPython(const Call& call) noexcept {
  try {
    call();
  } catch (...) {  // the unwinding; Python's C functions throw nothing
    while (true) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// The new reference that a function of Python's C API returns.
// Raises: the exception of that function
template <typename Call>
pybind11::object FromPython(const Call& call) {
  PyObject* result = nullptr;
  CallPython([&] { result = call(); });
  if (result == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::object>(result);
}

// Releases the GIL for the length of a scope.
// REQUIRES: the GIL
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    CallPython([this] { PyEval_RestoreThread(state_); });
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

// Takes the GIL for the length of a scope. THREADS: any
class WithGil {
 public:
  WithGil() {
    CallPython([this] { state_ = PyGILState_Ensure(); });
  }
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_GIL_H_
