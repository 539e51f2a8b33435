// A log of the values that updates in place overwrite, so that a refused call
// can restore them.
#ifndef FEDPLUG_CORE_TOPK_UNDO_LOG_H_
#define FEDPLUG_CORE_TOPK_UNDO_LOG_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/parallel.h"
#include "core/base/scratch.h"
#include "core/topk/undo_notes.h"
#include "core/topk/update.h"

namespace fedplug::topk {

// The log of one tensor. It reserves a place for every element, of which mostly
// only 2 bytes are used.
template <typename T>
class UndoLog {
 public:
  static std::int64_t BytesFor(std::int64_t n) {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t blocks = MostBlocks(n);
    return blocks * kBlock * (2 + kBytes) + (blocks + 63) / 64 * 64;
  }

  // REQUIRES: update.residual_in == update.residual_out, to read the deltas
  //           again gives the same bits, `memory` begins with a cache line, all
  //           that is pointed to outlives the object
  // SHAPE:    memory[BytesFor(update.n)]
  UndoLog(const Update<T>& update, std::byte* memory)
      : update_(update),
        notes_{reinterpret_cast<std::uint16_t*>(memory), nullptr} {
    const std::int64_t blocks = MostBlocks(update.n);
    memory += blocks * kBlock * 2;
    notes_.residuals = reinterpret_cast<T*>(memory);
    memory += blocks * kBlock * static_cast<std::int64_t>(sizeof(T));
    noted_ = reinterpret_cast<bool*>(memory);
    std::fill_n(noted_, blocks, false);
  }

  // The notes of a block, or a part of it, that will be overwritten. They begin
  // with a quarter of a cache line if the residual begins with a line.
  //
  // REQUIRES: it lies within one of ForEachBlock for the whole tensor
  // THREADS:  any, for different blocks
  UndoNotes<T> NotesFrom(std::int64_t begin) {
    noted_[BlockOf(begin)] = true;
    return Notes(begin);
  }

  // Restores every noted block.
  //
  // REQUIRES: they hold their sums, at least where these are finite
  void Undo() const {
    const DefaultFloatEnvironment environment;
    ForEachBlock(update_, 0, update_.n,
                 [&](std::int64_t begin, std::int64_t count) {
                   if (!noted_[BlockOf(begin)]) return;
                   const UndoNotes<T> notes = Notes(begin);
                   const T* const delta = update_.delta.From(begin);
                   T* const residual = update_.residual_out + begin;
                   for (std::int64_t i = 0; i < count; ++i) {
                     residual[i] = notes.Recall(i, residual[i], delta[i]);
                   }
                 });
  }

 private:
  static std::int64_t MostBlocks(std::int64_t n) { return n / kBlock + 2; }

  std::int64_t BlockOf(std::int64_t index) const {
    return (index + PastLine(update_, 0)) / kBlock;
  }

  UndoNotes<T> Notes(std::int64_t begin) const {
    return notes_.From(begin + PastLine(update_, 0));
  }

  const Update<T> update_;
  UndoNotes<T> notes_;  // kBlock for each block
  bool* noted_;         // of each block
};

// For updates in place of at least this many bytes, a log takes less time than
// a first look at all sums.
inline constexpr std::int64_t kLoggedBytes = std::int64_t{32} << 20;

template <typename T>
bool IsWorthALog(const std::vector<Update<T>>& updates) {
  std::int64_t n = 0;
  for (const Update<T>& update : updates) {
    if (update.residual_in == update.residual_out) n += update.n;
  }
  return n >= kLoggedBytes / static_cast<std::int64_t>(sizeof(T));
}

// The logs of all tensors of a call.
template <typename T>
class UndoLogs {
 public:
  // Gives a log to each update in place.
  //
  // REQUIRES: *updates and *memory outlive the object
  // Throws:   std::bad_alloc
  void Attach(std::vector<Update<T>>* updates, ScratchBuffer* memory) {
    constexpr std::int64_t kLineBytes = 64;
    const auto is_logged = [](const Update<T>& update) {
      return update.residual_in == update.residual_out;
    };
    std::int64_t bytes = kLineBytes;
    for (const Update<T>& update : *updates) {
      if (is_logged(update)) bytes += UndoLog<T>::BytesFor(update.n);
    }
    logs_.reserve(updates->size());
    auto* at = memory->template Reserve<std::byte>(bytes);
    at += kLineBytes - 1 -
          (reinterpret_cast<std::uintptr_t>(at) + kLineBytes - 1) % kLineBytes;
    for (Update<T>& update : *updates) {
      if (!is_logged(update)) continue;
      logs_.emplace_back(update, at);
      update.log = &logs_.back();
      at += UndoLog<T>::BytesFor(update.n);
    }
  }

  // REQUIRES: as UndoLog
  void Undo() const {
    for (const UndoLog<T>& log : logs_) log.Undo();
  }

 private:
  std::vector<UndoLog<T>> logs_;
};

}  // namespace fedplug::topk

#endif  // FEDPLUG_CORE_TOPK_UNDO_LOG_H_
