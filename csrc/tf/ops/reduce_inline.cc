// Declares Fedplug>ReduceInline: types, documentation.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

REGISTER_OP("Fedplug>ReduceInline")
    .Input("iterator: resource")
    .Input("state: Tstate")
    .Input("captured: Tcaptured")
    .Output("reduced: Tstate")
    .Attr("Tstate: list(type) >= 1")
    .Attr("Tcaptured: list(type) >= 0")
    .Attr("f: func")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Reduces the remaining elements of an iterator, one after the other, in the
thread of the caller, as ReduceDataset does, but instantiates the function once.

Whether operations of the function share their work among TensorFlow's threads
is as in the function that this is a part of.

It can be cancelled between two elements.

iterator: An iterator over elements of any number of components.
state: The initial state.
captured: Further arguments of the function.
reduced: The last state.
f: `(state, components of an element, captured) -> state`, a function of the
  context. TensorFlow's optimizer only leaves out of it what computes nothing.
)doc");

}  // namespace
}  // namespace fedplug
