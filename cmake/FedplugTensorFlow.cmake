# Sets FEDPLUG_TF_ENABLED from FEDPLUG_WITH_TF, and defines the target fedplug_tensorflow for the wheel that the
# building Python would import. The wheel is found without importing it: an import takes seconds.
set(FEDPLUG_TF_ENABLED OFF)
if(NOT FEDPLUG_WITH_TF STREQUAL "OFF")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import importlib.util as u, importlib.metadata as m, os
spec = u.find_spec('tensorflow')
names = [d for d in ('tensorflow', 'tensorflow-cpu') if any(True for _ in m.distributions(name=d))]
print(os.path.dirname(spec.origin) + ';' + m.version(names[0]) if spec and spec.origin and names else '')"
    OUTPUT_VARIABLE FEDPLUG_TF_FOUND
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(FEDPLUG_TF_FOUND)
    list(GET FEDPLUG_TF_FOUND 0 FEDPLUG_TF_DIR)
    list(GET FEDPLUG_TF_FOUND 1 FEDPLUG_TF_VERSION)
    add_library(fedplug_tensorflow SHARED IMPORTED)
    set_target_properties(
      fedplug_tensorflow
      PROPERTIES IMPORTED_LOCATION "${FEDPLUG_TF_DIR}/libtensorflow_framework.so.2"
                 INTERFACE_LINK_LIBRARIES "${FEDPLUG_TF_DIR}/libtensorflow_cc.so.2"
                 INTERFACE_INCLUDE_DIRECTORIES "${FEDPLUG_TF_DIR}/include"
                 INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=1;EIGEN_MAX_ALIGN_BYTES=64")
    set(FEDPLUG_TF_ENABLED ON)
  elseif(FEDPLUG_WITH_TF STREQUAL "ON")
    message(FATAL_ERROR "FEDPLUG_WITH_TF=ON but ${Python_EXECUTABLE} has no tensorflow; install it there "
                        "(pip install tensorflow==2.14.1) or configure with -DFEDPLUG_WITH_TF=OFF")
  endif()
endif()
