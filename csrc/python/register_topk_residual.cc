// Top-k for NumPy arrays: one tensor, lists, and within chunks.
#include <pybind11/stl.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/chunked_topk_residual.h"
#include "core/topk_residual.h"
#include "python/arrays.h"
#include "python/gil.h"
#include "python/numbers.h"
#include "python/run.h"

namespace fedplug::python {
namespace {

struct Update {
  Flat delta;
  ResidualUpdate residual;

  template <typename T>
  TensorUpdate<T> Pointers() {
    return {delta.Read<T>(), residual.Read<T>(), residual.out.Write<T>(),
            delta.size};
  }
};

Update CheckUpdate(const py::object& delta_object, const py::object& residual,
                   const py::object& residual_out) {
  const Flat delta = WideFloatArray(delta_object, "delta");
  return {delta, CheckResidual(delta, "delta", residual, "residual",
                               residual_out, "residual_out")};
}

// The number of selected entries. The kernel refuses a negative k.
std::int64_t Chosen(std::int64_t k, std::int64_t n) {
  return std::max<std::int64_t>(0, std::min(k, n));
}

// The output arrays of a selection.
struct Entries {
  Entries(const Flat& like, std::int64_t count)
      : values(NewArrayLike(like, count)),
        indices(NewArrayOf<std::int32_t>(count)) {}

  // The caller's arrays: `out` is None, or (values, indices).
  Entries(const Flat& like, const char* like_name, std::int64_t count,
          const py::object& out)
      : values(like), indices(0) {
    if (out.is_none()) {
      *this = Entries(like, count);
      return;
    }
    const auto given = out.cast<std::pair<py::object, py::object>>();
    values = ArrayLike(like, like_name, given.first, "out[0]", Access::kWrite);
    const Flat flat =
        FlatArray(given.second, "out[1]", DType::kInt32, Access::kWrite);
    if (values.size != count || flat.size != count) {
      ThrowArgumentError("out has " + std::to_string(values.size) +
                         " values and " + std::to_string(flat.size) +
                         " indices; it must have " + std::to_string(count) +
                         " of each");
    }
    RequireDisjoint(values, "out[0]", flat, "out[1]");
    indices = flat.array;
  }

  Flat values;
  py::array_t<std::int32_t> indices;
};

// Fills the entries.
void Select(Update& update, std::int64_t k, Entries* entries) {
  WithWideFloatType(update.delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const TensorUpdate<T> tensor = update.Pointers<T>();
    RunKernel([&](Parallel& threads, std::int64_t* non_finite) {
      return TopKResidual(tensor.delta, tensor.residual_in, tensor.residual_out,
                          update.delta.size, k, threads,
                          entries->values.Write<T>(),
                          entries->indices.mutable_data(), non_finite);
    });
  });
}

py::tuple TopK(const py::object& delta_object, const py::object& residual,
               const py::object& k_object, const py::object& out,
               const py::object& residual_out) {
  const std::int64_t k = WholeNumber(k_object, "k");
  Update update = CheckUpdate(delta_object, residual, residual_out);
  RequireSimdLevel();
  const std::int64_t n = update.delta.size;
  Entries entries(update.delta, "delta", Chosen(k, n), out);
  if (!out.is_none()) {
    const Flat indices{entries.indices, DType::kInt32, entries.indices.size()};
    const auto require_disjoint = [&](const Flat& flat, const char* name) {
      RequireDisjoint(flat, name, entries.values, "out[0]");
      RequireDisjoint(flat, name, indices, "out[1]");
    };
    require_disjoint(update.delta, "delta");
    if (update.residual.in.has_value()) {
      require_disjoint(*update.residual.in, "residual");
    }
    require_disjoint(update.residual.out, "residual_out");
  }
  Select(update, k, &entries);
  return py::make_tuple(entries.values.array, entries.indices);
}

// Requires that no output overlaps another array of the call. `out` may be
// null.
void RequireAllDisjoint(const std::vector<Update>& updates,
                        const Entries* out) {
  struct Span {
    const char* begin;
    const char* end;
    bool written;
  };
  std::vector<Span> spans;
  const auto add = [&spans](const Flat& flat, bool written) {
    const auto* const begin = static_cast<const char*>(flat.array.data());
    if (flat.size > 0) {
      spans.push_back({begin, begin + flat.array.nbytes(), written});
    }
  };
  for (const Update& update : updates) {
    add(update.delta, false);
    if (update.residual.in.has_value() && !update.residual.InPlace()) {
      add(*update.residual.in, false);
    }
    add(update.residual.out, true);
  }
  if (out != nullptr) {
    add(out->values, true);
    add({out->indices, DType::kInt32, out->indices.size()}, true);
  }
  const auto before = std::less<>();
  std::sort(spans.begin(), spans.end(), [&](const Span& a, const Span& b) {
    return before(a.begin, b.begin);
  });
  const char* end = nullptr;          // of all spans so far
  const char* written_end = nullptr;  // of those that are written
  for (const Span& span : spans) {
    if (before(span.begin, span.written ? end : written_end)) {
      ThrowArgumentError(
          "an array that is written, a residual or one of out, shares memory "
          "with another array of the call; pass a copy of one of them");
    }
    end = std::max(end, span.end, before);
    if (span.written) written_end = std::max(written_end, span.end, before);
  }
}

std::vector<Update> CheckUpdates(const py::sequence& deltas,
                                 const py::sequence& residuals,
                                 const std::optional<py::sequence>& outs) {
  if (deltas.size() != residuals.size() || deltas.size() == 0) {
    ThrowArgumentError("there are " + std::to_string(deltas.size()) +
                       " deltas and " + std::to_string(residuals.size()) +
                       " residuals; there must be one residual per delta, and "
                       "at least one");
  }
  if (outs.has_value() && outs->size() != deltas.size()) {
    ThrowArgumentError("there are " + std::to_string(outs->size()) +
                       " residuals_out for " + std::to_string(deltas.size()) +
                       " deltas; there must be one per delta");
  }
  std::vector<Update> updates;
  for (std::size_t t = 0; t < deltas.size(); ++t) {
    py::object out = py::none();
    if (outs.has_value()) out = (*outs)[t];
    Update update = CheckUpdate(deltas[t], residuals[t], out);
    if (t > 0 && update.delta.dtype != updates[0].delta.dtype) {
      ThrowArgumentError("tensor " + std::to_string(t) +
                         " has another dtype than tensor 0");
    }
    updates.push_back(std::move(update));
  }
  return updates;
}

// `k_object` is one number for all tensors together, or one for each.
py::tuple GroupedTopK(const py::sequence& deltas, const py::sequence& residuals,
                      const py::object& k_object, const py::object& out,
                      const std::optional<py::sequence>& residuals_out) {
  const bool is_array = py::isinstance<py::array>(k_object);
  const bool shared =
      is_array ? py::reinterpret_borrow<py::array>(k_object).ndim() == 0
               : PySequence_Check(k_object.ptr()) == 0;
  const std::vector<std::int64_t> ks =
      shared ? std::vector<std::int64_t>{WholeNumber(k_object, "k")}
             : WholeNumbers(k_object, "k");
  std::vector<Update> updates = CheckUpdates(deltas, residuals, residuals_out);
  if (!shared && ks.size() != updates.size()) {
    ThrowArgumentError("there are " + std::to_string(ks.size()) + " ks for " +
                       std::to_string(updates.size()) +
                       " tensors; there must be one k per tensor");
  }
  RequireSimdLevel();
  std::int64_t n = 0;
  std::int64_t chosen_of_each = 0;
  for (std::size_t t = 0; t < updates.size(); ++t) {
    n += updates[t].delta.size;
    if (!shared) chosen_of_each += Chosen(ks[t], updates[t].delta.size);
  }
  Entries entries(updates[0].delta, "deltas[0]",
                  shared ? Chosen(ks[0], n) : chosen_of_each, out);
  RequireAllDisjoint(updates, out.is_none() ? nullptr : &entries);
  py::array_t<std::int64_t> row_splits(
      static_cast<py::ssize_t>(updates.size() + 1));
  std::int32_t* const index = entries.indices.mutable_data();
  std::int64_t* const splits = row_splits.mutable_data();
  WithWideFloatType(updates[0].delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<TensorUpdate<T>> tensors;
    for (Update& update : updates) {
      tensors.push_back(update.Pointers<T>());
    }
    T* const value = entries.values.Write<T>();
    RunKernel([&](Parallel& threads, std::int64_t* non_finite) {
      return shared ? GroupedTopKResidual(tensors, ks[0], threads, value, index,
                                          splits, non_finite)
                    : GroupedTopKResidual(tensors, ks, threads, value, index,
                                          splits, non_finite);
    });
  });
  return py::make_tuple(entries.values.array, entries.indices, row_splits);
}

std::int64_t Count(const py::object& delta_object,
                   const py::object& residual_object) {
  const Flat delta = WideFloatArray(delta_object, "delta");
  std::optional<Flat> residual;
  if (!residual_object.is_none()) {
    residual = ArrayLike(delta, "delta", residual_object, "residual");
    RequireSameSize(delta, "delta", *residual, "residual");
  }
  RequireSimdLevel();
  Parallel& threads = Threads();
  std::int64_t count = 0;
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const added = residual.has_value() ? residual->Read<T>() : nullptr;
    const WithoutGil released;
    count = CountNonFinite(delta.Read<T>(), added, delta.size, threads);
  });
  return count;
}

py::tuple ChunkedTopK(const py::object& delta_object,
                      const py::object& residual_object,
                      const py::object& k_object,
                      const py::object& chunk_object,
                      const py::object& decay_object,
                      const py::object& residual_out) {
  const std::int64_t k = WholeNumber(k_object, "k");
  const std::int64_t chunk = WholeNumber(chunk_object, "chunk");
  const double decay = RealNumber(decay_object, "decay");
  const Flat delta = WideFloatArray(delta_object, "delta");
  ResidualUpdate residual =
      CheckResidual(delta, "delta", residual_object, "residual", residual_out,
                    "residual_out");
  ThrowUnlessOk(CheckChunks(delta.size, k, chunk));
  const std::int64_t count = ChunkedEntries(delta.size, k, chunk);
  Flat values = NewArrayLike(delta, count);
  auto indices = NewArrayOf<std::int32_t>(count);
  WithWideFloatType(delta.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T share = static_cast<T>(decay);
    RunKernel([&](Parallel& threads, std::int64_t* non_finite) {
      return ChunkedTopKResidual(delta.Read<T>(), residual.Read<T>(),
                                 residual.out.Write<T>(), delta.size, k, chunk,
                                 share, threads, values.Write<T>(),
                                 indices.mutable_data(), non_finite);
    });
  });
  return py::make_tuple(values.array, indices);
}

}  // namespace

void RegisterTopKResidual(py::module_& module) {
  module.def("topk_residual", &TopK, py::arg("delta"), py::arg("residual"),
             py::arg("k"), py::kw_only(), py::arg("out") = py::none(),
             py::arg("residual_out") = py::none());
  module.def("grouped_topk_residual", &GroupedTopK, py::arg("deltas"),
             py::arg("residuals"), py::arg("k"), py::kw_only(),
             py::arg("out") = py::none(),
             py::arg("residuals_out") = py::none());
  module.def("count_nonfinite", &Count, py::arg("delta"), py::arg("residual"));
  module.def("chunked_topk_residual", &ChunkedTopK, py::arg("delta"),
             py::arg("residual"), py::arg("k"), py::kw_only(), py::arg("chunk"),
             py::arg("decay") = 1.0, py::arg("residual_out") = py::none());
}

}  // namespace fedplug::python
