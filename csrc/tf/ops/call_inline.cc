// Declares Fedplug>CallInline: types, documentation.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

REGISTER_OP("Fedplug>CallInline")
    .Input("arguments: Tin")
    .Output("results: Tout")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Attr("f: func")
    .Attr("one_thread: bool = false")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Calls a function, and runs its operations one after the other in the thread of
the caller.

TensorFlow runs every call of a function, and every operation that it deems
expensive, in its pool of threads; for small ones, waking a thread costs more
than the work. The results are those of a call by name.

arguments: The arguments of `f`.
results: The results of `f`.
f: A function of the context. TensorFlow does not change its graph.
one_thread: Whether operations do their work in that thread instead of
  TensorFlow's pool, for as many parallel calls as there are processors. The
  last bits of operations that add up in parts, one per thread, may differ.
)doc");

}  // namespace
}  // namespace fedplug
