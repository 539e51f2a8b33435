#include "tf/outputs.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "core/base/block_pool.h"
#include "tf/element_type.h"

namespace fedplug {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class PooledAllocator final : public tensorflow::Allocator {
 public:
  std::string Name() override { return "fedplug"; }

  void* AllocateRaw([[maybe_unused]] std::size_t alignment,
                    std::size_t bytes) override {
    static_assert(kAllocatorAlignment <= BlockPool::kAlignment &&
                      EIGEN_MAX_ALIGN_BYTES <= BlockPool::kAlignment,
                  "TensorFlow's kernels rely on this alignment");
    return ResultPool().Take(bytes);
  }

  void DeallocateRaw(void* block) override { ResultPool().GiveBack(block); }
};

}  // namespace

tensorflow::Allocator* ThePooledAllocator() {
  static auto* const allocator = new PooledAllocator;
  return allocator;
}

bool AsksMalloc(tensorflow::Allocator* allocator) {
  return allocator->Name() == "cpu";
}

tensorflow::Status AllocateOutput(OpKernelContext* context, int index,
                                  const TensorShape& shape, Tensor** output) {
  const tensorflow::DataType type = context->expected_output_dtype(index);
  const std::size_t bytes =
      static_cast<std::size_t>(shape.num_elements()) *
      static_cast<std::size_t>(tensorflow::DataTypeSize(type));
  if (bytes < kPooledFrom ||
      !AsksMalloc(context->get_allocator(context->output_alloc_attr(index)))) {
    return context->allocate_output(index, shape, output);
  }
  Tensor tensor(ThePooledAllocator(), type, shape);
  if (!tensor.IsInitialized()) {
    return tensorflow::errors::ResourceExhausted(
        "there is no memory for an output of shape ", shape.DebugString());
  }
  context->set_output(index, std::move(tensor));
  *output = context->mutable_output(index);
  return tensorflow::OkStatus();
}

tensorflow::Status OutputBytes(OpKernelContext* context, int index,
                               const std::vector<std::uint8_t>& bytes) {
  Tensor* output;
  const auto length = static_cast<std::int64_t>(bytes.size());
  TF_RETURN_IF_ERROR(AllocateOutput(context, index, {length}, &output));
  std::copy(bytes.begin(), bytes.end(), MutableElements<std::uint8_t>(output));
  return tensorflow::OkStatus();
}

tensorflow::Status ForwardInputOrAllocateOutput(OpKernelContext* context,
                                                int input, int index,
                                                const TensorShape& shape,
                                                Tensor** output) {
  if (context->forward_input_to_output_with_shape(input, index, shape,
                                                  output)) {
    return tensorflow::OkStatus();
  }
  return AllocateOutput(context, index, shape, output);
}

}  // namespace fedplug
