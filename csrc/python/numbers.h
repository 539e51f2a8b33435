// Numbers as arguments of the NumPy module. Python checks all but plain ints and
// floats, by fedplug/kernels/arguments.py, which has the messages.
#ifndef FEDPLUG_PYTHON_NUMBERS_H_
#define FEDPLUG_PYTHON_NUMBERS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

namespace fedplug::python {

namespace py = pybind11;

// `name` is the parameter that messages name.
// Raises: DTypeError if `number` is no whole number, ArgumentError if it does
// not fit 64 bits
std::int64_t WholeNumber(const py::object& number, const char* name);

// The same for numbers from 0 to the largest int.
int SmallWholeNumber(const py::object& number, const char* name);

// The same for each of a sequence.
std::vector<std::int64_t> WholeNumbers(const py::sequence& numbers,
                                       const char* name);

// Raises: DTypeError if `number` is no real number
double RealNumber(const py::object& number, const char* name);

}  // namespace fedplug::python

#endif  // FEDPLUG_PYTHON_NUMBERS_H_
