// The known properties of a variable while a graph is being built.
#ifndef FEDPLUG_TF_OPS_VARIABLES_H_
#define FEDPLUG_TF_OPS_VARIABLES_H_

#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/errors.h"

namespace fedplug {

// The shape of the value of the variable that an input is a handle of, which
// must be of the attribute "T".
inline tensorflow::Status ShapeOfVariable(
    tensorflow::shape_inference::InferenceContext* c, int input,
    tensorflow::shape_inference::ShapeHandle* shape) {
  TF_RETURN_IF_ERROR(c->WithRank(c->input(input), 0, shape));
  *shape = c->UnknownShape();
  const auto* const held = c->input_handle_shapes_and_types(input);
  if (held == nullptr || held->empty()) return tensorflow::OkStatus();
  tensorflow::DataType type;
  TF_RETURN_IF_ERROR(c->GetAttr("T", &type));
  if (held->front().dtype != type) {
    return tensorflow::errors::InvalidArgument(
        "the variable holds ", tensorflow::DataTypeString(held->front().dtype),
        ", not ", tensorflow::DataTypeString(type));
  }
  *shape = held->front().shape;
  return tensorflow::OkStatus();
}

}  // namespace fedplug

#endif  // FEDPLUG_TF_OPS_VARIABLES_H_
