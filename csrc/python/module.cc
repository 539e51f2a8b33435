// The module fedplug._kernels: the kernels of csrc/core on NumPy arrays,
// without copies and without the GIL. Its public API is fedplug/kernels, its
// documentation fedplug/_kernels.pyi.
#include <pybind11/pybind11.h>

namespace fedplug::python {

void RegisterTopKResidual(pybind11::module_& module);
void RegisterTakeFromSum(pybind11::module_& module);
void RegisterScatterDecode(pybind11::module_& module);
void RegisterDifferenceCode(pybind11::module_& module);
void RegisterSparseForm(pybind11::module_& module);
void RegisterSymbolCode(pybind11::module_& module);
void RegisterRandom(pybind11::module_& module);
void RegisterValueCode(pybind11::module_& module);
void RegisterLowRank(pybind11::module_& module);
void RegisterContainer(pybind11::module_& module);
void RegisterSystem(pybind11::module_& module);

}  // namespace fedplug::python

// No state of the module needs the GIL: kernels run without it, and the data
// that they share is constant, atomic or locked.
PYBIND11_MODULE(_kernels, module, pybind11::mod_gil_not_used()) {
  module.doc() = "The compiled kernels; use them through fedplug.kernels.";
  module.attr("built_from") = FEDPLUG_BUILT_FROM;
  fedplug::python::RegisterTopKResidual(module);
  fedplug::python::RegisterTakeFromSum(module);
  fedplug::python::RegisterScatterDecode(module);
  fedplug::python::RegisterDifferenceCode(module);
  fedplug::python::RegisterSparseForm(module);
  fedplug::python::RegisterSymbolCode(module);
  fedplug::python::RegisterRandom(module);
  fedplug::python::RegisterValueCode(module);
  fedplug::python::RegisterLowRank(module);
  fedplug::python::RegisterContainer(module);
  fedplug::python::RegisterSystem(module);
}
