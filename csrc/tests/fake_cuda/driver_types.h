// Replaces CUDA's header of this name: see cuda_runtime_api.h.
#include "cuda_runtime_api.h"
