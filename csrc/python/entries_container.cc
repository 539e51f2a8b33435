#include "python/entries_container.h"

#include <vector>

#include "core/sparse_form.h"
#include "python/gil.h"
#include "python/new_container.h"

namespace fedplug::python {

py::bytes EntriesContainer(const Flat& indices, std::int64_t elements,
                           const Flat& values, const py::bytes& header,
                           IndexForm form) {
  std::vector<std::uint8_t> code;
  Status status;
  {
    const WithoutGil released;
    status = EncodeIndices(indices.Read<std::int32_t>(), indices.size, elements,
                           form, &code);
  }
  ThrowUnlessOk(status);
  const std::int64_t count = indices.size;
  const auto code_bytes = static_cast<std::int64_t>(code.size());
  const Bytes data = values.AsBytes();
  ThrowUnlessOk(CheckSparseBody(count, code_bytes));
  const NewContainer container(header,
                               SparseBodyBytes(count, code_bytes, data.size));
  {
    const WithoutGil released;
    WriteSparseBody(count, code.data(), code_bytes, data.data, data.size,
                    container.body());
    container.Close();
  }
  return container.bytes();
}

}  // namespace fedplug::python
