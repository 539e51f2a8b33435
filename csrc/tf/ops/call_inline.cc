// Declares Fedplug>CallInline: types, documentation. Must not know how it is
// computed.
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
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Calls a function, and runs its operations one after the other in the thread of
the caller.

TensorFlow hands every call of a function, and every operation that it deems
expensive, to its pool of threads; for small ones to wake a thread costs more
than what it does. The results are those of a call by name. Operations share
their own work among threads as ever.

arguments: Of `f`.
results: Of `f`.
f: A function of the context. TensorFlow leaves its graph as it is.
)doc");

}  // namespace
}  // namespace fedplug
