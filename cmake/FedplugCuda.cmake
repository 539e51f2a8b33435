# Sets FEDPLUG_CUDA_ENABLED from FEDPLUG_WITH_CUDA. AUTO builds the kernels where they can run: if there is a CUDA
# compiler and NVIDIA's driver (/dev/dxg is that of WSL). They take a fifth of a build.
#
# FEDPLUG_CCCL: a folder with CUB's headers for the timing program, in place of the toolkit's; cub::DeviceTopK comes with
# CUDA 13.1 (`pip download --no-deps nvidia-cuda-cccl`, folder nvidia/cu13/include/cccl of the wheel).
set(FEDPLUG_CCCL "" CACHE PATH "CUB's headers for cuda_check_times; empty for the toolkit's")
set(FEDPLUG_CUDA_ENABLED OFF)
if(FEDPLUG_WITH_CUDA STREQUAL "ON"
   OR (FEDPLUG_WITH_CUDA STREQUAL "AUTO" AND (EXISTS /proc/driver/nvidia/version OR EXISTS /dev/dxg)))
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90)
    endif()
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
    find_package(CUDAToolkit REQUIRED)
    set(FEDPLUG_CUDA_ENABLED ON)
  elseif(FEDPLUG_WITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FEDPLUG_WITH_CUDA=ON but no CUDA compiler was found; install the CUDA toolkit, set CUDACXX, "
                        "or configure with -DFEDPLUG_WITH_CUDA=OFF")
  endif()
endif()

# The compile options every target with .cu files shares.
#
# -fmad=false is the device's -ffp-contract=off: a fused multiply-add rounds once where the contract rounds twice.
# --expt-relaxed-constexpr lets kernels call what is constexpr in the core and in the standard library.
# Denormals are kept by nvcc's defaults, and nothing here switches that off. -Wconversion is left out for the host
# half of a .cu file: the code nvcc generates around each kernel does not pass it.
function(fedplug_configure_cuda target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr
                                           --Werror=all-warnings
                                           -Xcompiler=-Wall,-Wextra,-Wshadow,-Werror,-ffp-contract=off>)
endfunction()
