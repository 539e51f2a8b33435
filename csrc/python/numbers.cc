#include "python/numbers.h"

#include <limits>

#include "python/gil.h"

namespace fedplug::python {
namespace {

// Calls fedplug.kernels.arguments.<check>(name, number, *limits).
template <typename... Limits>
py::object Checked(const char* check, const char* name,
                   const py::object& number, Limits... limits) {
  const py::object arguments = FromPython(
      [] { return PyImport_ImportModule("fedplug.kernels.arguments"); });
  const py::object function = arguments.attr(check);
  const py::tuple given = py::make_tuple(name, number, limits...);
  return FromPython(
      [&] { return PyObject_CallObject(function.ptr(), given.ptr()); });
}

}  // namespace

std::int64_t WholeNumber(const py::object& number, const char* name) {
  int overflow = 1;
  if (PyLong_CheckExact(number.ptr())) {
    const std::int64_t whole =
        PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow == 0) return whole;
  }
  return Checked("whole", name, number).cast<std::int64_t>();
}

int SmallWholeNumber(const py::object& number, const char* name) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (PyLong_CheckExact(number.ptr())) {
    const std::int64_t whole = WholeNumber(number, name);
    if (whole >= 0 && whole <= kMost) return static_cast<int>(whole);
  }
  return Checked("whole", name, number, 0, kMost).cast<int>();
}

std::vector<std::int64_t> WholeNumbers(const py::sequence& numbers,
                                       const char* name) {
  std::vector<std::int64_t> whole;
  for (const py::handle number : numbers) {
    whole.push_back(
        WholeNumber(py::reinterpret_borrow<py::object>(number), name));
  }
  return whole;
}

double RealNumber(const py::object& number, const char* name) {
  if (PyFloat_CheckExact(number.ptr())) {
    return PyFloat_AS_DOUBLE(number.ptr());
  }
  return Checked("real", name, number).cast<double>();
}

}  // namespace fedplug::python
