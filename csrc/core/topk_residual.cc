// Checks the arguments, and selects the inputs of topk/select.h.
#include "core/topk_residual.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "core/topk/refusal.h"
#include "core/topk/select.h"
#include "core/topk/sizes.h"
#include "core/topk/undo_log.h"

namespace fedplug {
namespace {

using topk::CheckSizes;
using topk::Selection;
using topk::Sums;
using topk::Undoable;
using topk::UndoLogs;
using topk::Update;

// REQUIRES: the sizes are checked, row_splits may be null
template <typename T>
Status Select(std::vector<Update<T>> updates, std::int64_t k,
              Parallel& parallel, T* values, std::int32_t* indices,
              std::int64_t* row_splits, std::int64_t* non_finite) {
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  const ScratchLease scratch;
  UndoLogs<T> logs;
  if (topk::IsWorthALog(updates)) logs.Attach(&updates, &scratch->undo);
  Selection<T> selection(updates, k, Sums::kUnchecked,
                         Undoable::kWhileItMayRefuse, level, parallel, scratch);
  bool selected = false;
  try {
    selected = selection.Run(values, indices);
  } catch (...) {
    logs.Undo();
    throw;
  }
  if (!selected) {
    logs.Undo();
    return topk::Refuse(
        updates, topk::CountNonFiniteIn(updates, level, parallel), non_finite);
  }
  if (row_splits != nullptr) selection.WriteRowSplits(row_splits);
  return {};
}

// Without a residual, the delta takes its place and zeros are added to it: the
// sums are equal, and the code below has one case.
template <typename T>
Update<T> UpdateOf(const TensorUpdate<T>& tensor) {
  if (tensor.residual_in == nullptr) {
    return {
        {topk::PlusZeros<T>(), 0}, tensor.delta, tensor.residual_out, tensor.n};
  }
  return {{tensor.delta}, tensor.residual_in, tensor.residual_out, tensor.n};
}

template <typename T>
std::vector<Update<T>> UpdatesOf(const std::vector<TensorUpdate<T>>& tensors) {
  std::vector<Update<T>> updates;
  for (const auto& tensor : tensors) updates.push_back(UpdateOf(tensor));
  return updates;
}

Status OfTensor(std::size_t tensor, const Status& status) {
  return {status.code(),
          "tensor " + std::to_string(tensor) + ": " + status.message()};
}

}  // namespace

template <typename T>
Status TopKResidual(const T* delta, const T* residual_in, T* residual_out,
                    std::int64_t n, std::int64_t k, Parallel& parallel,
                    T* values, std::int32_t* indices,
                    std::int64_t* non_finite) {
  *non_finite = 0;
  if (Status status = CheckSizes(n, k); !status.ok()) return status;
  return Select<T>({UpdateOf<T>({delta, residual_in, residual_out, n})}, k,
                   parallel, values, indices, nullptr, non_finite);
}

template <typename T>
Status GroupedTopKResidual(const std::vector<TensorUpdate<T>>& tensors,
                           std::int64_t k, Parallel& parallel, T* values,
                           std::int32_t* indices, std::int64_t* row_splits,
                           std::int64_t* non_finite) {
  *non_finite = 0;
  std::int64_t n = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (Status status = CheckSizes(tensors[t].n, k); !status.ok()) {
      return OfTensor(t, status);
    }
    n += tensors[t].n;
  }
  if (n > INT32_MAX) {
    return {StatusCode::kInvalidArgument,
            "the tensors have " + std::to_string(n) +
                " elements together, and one k for all of them is for fewer "
                "than 2^31; give each its own"};
  }
  return Select(UpdatesOf(tensors), k, parallel, values, indices, row_splits,
                non_finite);
}

template <typename T>
Status GroupedTopKResidual(const std::vector<TensorUpdate<T>>& tensors,
                           const std::vector<std::int64_t>& ks,
                           Parallel& parallel, T* values, std::int32_t* indices,
                           std::int64_t* row_splits, std::int64_t* non_finite) {
  *non_finite = 0;
  SimdLevel level;
  if (Status status = FindSimdLevel(&level); !status.ok()) return status;
  row_splits[0] = 0;
  std::int64_t total = 0;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (Status status = CheckSizes(tensors[t].n, ks[t]); !status.ok()) {
      return OfTensor(t, status);
    }
    total += tensors[t].n;
    row_splits[t + 1] = row_splits[t] + std::min(ks[t], tensors[t].n);
  }
  const KeepAwake awake(parallel);
  std::vector<Update<T>> updates = UpdatesOf(tensors);
  const ScratchLease scratch;
  UndoLogs<T> logs;
  const bool logged = topk::IsWorthALog(updates);
  if (logged) {
    logs.Attach(&updates, &scratch->undo);
  } else {
    const auto counts = topk::CountNonFiniteIn(updates, level, parallel);
    if (std::any_of(counts.begin(), counts.end(),
                    [](std::int64_t count) { return count > 0; })) {
      return topk::Refuse(updates, counts, non_finite);
    }
  }

  // Every sum has been checked, or the writes can be undone.
  const Sums sums = logged ? Sums::kUnchecked : Sums::kFinite;
  std::atomic<bool> refused{false};
  std::vector<char> done(updates.size());
  const auto undo = [&] {
    for (std::size_t t = 0; t < updates.size(); ++t) {
      if (done[t] == 0) continue;
      for (std::int64_t j = row_splits[t]; j < row_splits[t + 1]; ++j) {
        updates[t].residual_out[indices[j]] = values[j];
      }
    }
    logs.Undo();
  };
  const auto select = [&](std::size_t t, Parallel& threads) {
    if (refused) return;
    const ScratchLease of_its_own;
    Selection<T> selection({updates[t]}, ks[t], sums, Undoable::kAfterwards,
                           level, threads, of_its_own);
    if (!selection.Run(values + row_splits[t], indices + row_splits[t])) {
      refused = true;
      return;
    }
    done[t] = 1;
  };
  // Threads that share a tensor synchronise several times. One thread per
  // tensor avoids that, unless a tensor is a large part of all.
  const std::int64_t most_for_one_thread =
      std::max(topk::kOneThread, total / (4 * parallel.MaxThreads()));
  try {
    std::vector<std::size_t> alone;
    std::int64_t in_alone = 0;
    for (std::size_t t = 0; t < updates.size(); ++t) {
      if (updates[t].n > most_for_one_thread) {
        select(t, parallel);
      } else {
        alone.push_back(t);
        in_alone += updates[t].n;
      }
    }
    // The largest first, so that the threads end together.
    std::sort(alone.begin(), alone.end(), [&](std::size_t a, std::size_t b) {
      return updates[a].n > updates[b].n;
    });
    Serial serial;
    Parallel& threads = in_alone < topk::kOneThread ? serial : parallel;
    threads.Run(static_cast<int>(alone.size()), [&](int task) {
      Serial one_thread;
      select(alone[static_cast<std::size_t>(task)], one_thread);
    });
  } catch (...) {
    undo();  // their entries would be lost with the call
    throw;
  }
  if (refused) {
    undo();
    return topk::Refuse(
        updates, topk::CountNonFiniteIn(updates, level, parallel), non_finite);
  }
  return {};
}

template <typename T>
std::int64_t CountNonFinite(const T* delta, const T* residual, std::int64_t n,
                            Parallel& parallel) {
  SimdLevel level;
  // A refused FEDPLUG_SIMD leaves the baseline, and the count is the same.
  static_cast<void>(FindSimdLevel(&level));
  return topk::CountNonFiniteIn<T>({UpdateOf<T>({delta, residual, nullptr, n})},
                                   level, parallel)[0];
}

#define FEDPLUG_INSTANTIATE(T)                                                \
  template Status TopKResidual<T>(const T*, const T*, T*, std::int64_t,       \
                                  std::int64_t, Parallel&, T*, std::int32_t*, \
                                  std::int64_t*);                             \
  template Status GroupedTopKResidual<T>(                                     \
      const std::vector<TensorUpdate<T>>&, std::int64_t, Parallel&, T*,       \
      std::int32_t*, std::int64_t*, std::int64_t*);                           \
  template Status GroupedTopKResidual<T>(                                     \
      const std::vector<TensorUpdate<T>>&, const std::vector<std::int64_t>&,  \
      Parallel&, T*, std::int32_t*, std::int64_t*, std::int64_t*);            \
  template std::int64_t CountNonFinite<T>(const T*, const T*, std::int64_t,   \
                                          Parallel&)
FEDPLUG_INSTANTIATE(float);
FEDPLUG_INSTANTIATE(double);
#undef FEDPLUG_INSTANTIATE

}  // namespace fedplug
