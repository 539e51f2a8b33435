// The refusals of the codes of symbol_code.h.
#ifndef FEDPLUG_CORE_CODES_SYMBOLS_CORRUPT_H_
#define FEDPLUG_CORE_CODES_SYMBOLS_CORRUPT_H_

#include <string>

#include "core/base/status.h"

namespace fedplug {

inline Status CorruptSymbols(const std::string& what) {
  return {StatusCode::kDataLoss, "symbol code: " + what};
}

}  // namespace fedplug

#endif  // FEDPLUG_CORE_CODES_SYMBOLS_CORRUPT_H_
