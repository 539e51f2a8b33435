// Turns reports of the GPU into the core's messages.
#include <string>

#include "cuda/scatter_decode.h"
#include "cuda/topk_residual.h"
#include "cuda/value_code.h"

namespace fedplug::cuda {

Status ToStatus(const std::vector<TopKReport>& reports,
                const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const TopKReport& report = reports[i];
    if (report.non_finite == 0) continue;
    const std::string of_tensor =
        reports.size() == 1 ? "" : " of tensor " + std::to_string(i);
    return {StatusCode::kNonFinite,
            std::to_string(report.non_finite) + " of " +
                std::to_string(sizes[i]) + " sums of delta and residual" +
                of_tensor + " are NaN or infinite, the first at index " +
                std::to_string(report.first_non_finite) +
                "; nothing was changed. Leave this update out"};
  }
  return {};
}

Status ToStatus(const ScatterReport& report) {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::kInvalidArgument, std::move(message));
  };
  const std::string payload =
      "payload " + std::to_string(report.payload) + ": ";
  const std::string index = payload + "index " + std::to_string(report.found);
  const std::string where = ", at position " + std::to_string(report.position) +
                            " of " + std::to_string(report.size);
  switch (report.flaw) {
    case ScatterFlaw::kNone:
      break;
    case ScatterFlaw::kSplitsBegin:
      return invalid("row_splits begins with " + std::to_string(report.found) +
                     " instead of 0");
    case ScatterFlaw::kSplitsFall:
      return invalid(payload + "row_splits falls from " +
                     std::to_string(report.before) + " to " +
                     std::to_string(report.found));
    case ScatterFlaw::kSplitsEnd:
      return invalid("row_splits ends with " + std::to_string(report.found) +
                     ", but there are " + std::to_string(report.limit) +
                     " entries");
    case ScatterFlaw::kOutOfRange:
      return invalid(index + " is not in [0, " + std::to_string(report.limit) +
                     ")" + where);
    case ScatterFlaw::kNotAscending:
      return invalid(index + " is not above the one before it (" +
                     std::to_string(report.before) + ")" + where);
  }
  return {};
}

Status ToStatus(const NonFiniteCount& report, std::int64_t count) {
  if (report.count == 0) return {};
  return NonFiniteValues(report.count, count, count - report.first_from_end);
}

}  // namespace fedplug::cuda
