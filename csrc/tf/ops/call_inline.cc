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

TensorFlow hands every call of a function, and every operation that it deems
expensive, to its pool of threads; for small ones to wake a thread costs more
than what it does. The results are those of a call by name.

arguments: Of `f`.
results: Of `f`.
f: A function of the context. TensorFlow does not change its graph.
one_thread: Whether an operation does its work in that thread, too, and not
  among those of TensorFlow, where as many calls are under way as there are
  processors. Of an operation that adds up in parts, one to a thread, the last
  bits may differ.
)doc");

}  // namespace
}  // namespace fedplug
