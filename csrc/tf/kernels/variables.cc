#include "tf/kernels/variables.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/platform/errors.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::Var;
using tensorflow::errors::FailedPrecondition;
using tensorflow::errors::InvalidArgument;

Status NoValue(const tensorflow::ResourceHandle& handle) {
  return FailedPrecondition("the variable ", handle.name(),
                            " has no value yet; initialize it first");
}

}  // namespace

Status LockedVariables::Lock(OpKernelContext* context, int first, int count,
                             tensorflow::DataType type) {
  std::vector<tensorflow::ResourceHandle> handles(
      static_cast<std::size_t>(count));
  variables_.resize(handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) {
    TF_RETURN_IF_ERROR(tensorflow::HandleFromInput(
        context, first + static_cast<int>(i), &handles[i]));
    const Status found =
        tensorflow::LookupResource(context, handles[i], &variables_[i]);
    if (tensorflow::errors::IsNotFound(found)) return NoValue(handles[i]);
    TF_RETURN_IF_ERROR(found);
  }

  // By address, as every op that locks several does.
  std::vector<Var*> ordered;
  for (const auto& variable : variables_) ordered.push_back(variable.get());
  std::sort(ordered.begin(), ordered.end(),
            [](Var* a, Var* b) { return std::less<>()(a->mu(), b->mu()); });
  if (std::adjacent_find(ordered.begin(), ordered.end()) != ordered.end()) {
    return InvalidArgument(
        "a variable is listed twice; one update can change it only once");
  }
  locks_.reserve(ordered.size());
  for (Var* variable : ordered) locks_.emplace_back(*variable->mu());

  for (std::size_t i = 0; i < handles.size(); ++i) {
    if (!variables_[i]->is_initialized) return NoValue(handles[i]);
    const tensorflow::DataType held = variables_[i]->tensor()->dtype();
    if (held == type) continue;
    return InvalidArgument("the variable ", handles[i].name(), " holds ",
                           tensorflow::DataTypeString(held), ", not ",
                           tensorflow::DataTypeString(type));
  }
  return tensorflow::OkStatus();
}

Status LockedVariables::ForwardOrAllocate(OpKernelContext* context, int i,
                                          Tensor** new_value) {
  Var* const variable = variables_[static_cast<std::size_t>(i)].get();
  if (variable->tensor()->RefCountIsOne()) {
    *new_value = variable->tensor();
    return tensorflow::OkStatus();
  }
  // The memory from which another device, or the network, copies the value.
  tensorflow::AllocatorAttributes attributes;
  attributes.set_gpu_compatible(true);
  attributes.set_nic_compatible(true);
  Tensor fresh;
  TF_RETURN_IF_ERROR(context->allocate_temp(variable->tensor()->dtype(),
                                            variable->tensor()->shape(), &fresh,
                                            attributes));
  allocated_.reserve(variables_.size());  // addresses given out stay valid
  allocated_.push_back({variable, std::move(fresh)});
  *new_value = &allocated_.back().value;
  return tensorflow::OkStatus();
}

void LockedVariables::Commit() {
  for (Allocated& each : allocated_) {
    *each.variable->tensor() = std::move(each.value);
  }
}

}  // namespace fedplug
