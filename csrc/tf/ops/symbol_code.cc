// Declares Fedplug>EncodeSymbols and Fedplug>DecodeSymbols: types, shapes,
// documentation. The layout of a code is described in core/symbol_code.h.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace fedplug {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status BytesToBytesShape(InferenceContext* c) {
  ShapeHandle ignored;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &ignored));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 0, &ignored));
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return tensorflow::OkStatus();
}

REGISTER_OP("Fedplug>EncodeSymbols")
    .Input("packed: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Attr("form: {'rans', 'adaptive'} = 'rans'")
    .Output("code: uint8")
    .SetShapeFn(BytesToBytesShape)
    .Doc(R"doc(
Writes symbols of a few bits in about as many bits as their empirical entropy, by rANS.

Errors (InvalidArgument): `bits` is not in [1, 8]; `packed` is not `count` symbols, or bits are set after the last one.

packed: The symbols one after the other, lowest bit first. Shape [ceil(count * bits / 8)].
count: The number of symbols, below 2^31. Shape [].
bits: Bits per symbol, 1 to 8. Shape [].
code: At most a byte longer than `packed`. Shape [b].
form: The layout, see core/symbol_code.h.
)doc");

REGISTER_OP("Fedplug>DecodeSymbols")
    .Input("code: uint8")
    .Input("count: int64")
    .Input("bits: int64")
    .Attr("form: {'rans', 'adaptive'} = 'rans'")
    .Output("packed: uint8")
    .SetShapeFn(BytesToBytesShape)
    .Doc(R"doc(
The inverse of Fedplug>EncodeSymbols with the same form, for untrusted bytes.

Many equal symbols have a short code: `count` determines the allocated memory, and must come from a trusted source.

Errors (InvalidArgument): `bits` is not in [1, 8]; `count` is not in [0, 2^31); the bytes are not the code of `count`
symbols.

code: Shape [b].
count: The number of symbols in the code. Shape [].
bits: Bits per symbol, 1 to 8. Shape [].
packed: Shape [ceil(count * bits / 8)].
form: The layout, see core/symbol_code.h.
)doc");

}  // namespace
}  // namespace fedplug
