// The tree's errno values as errors for the broker, who is told what was being done and what to do.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "fs/tree/types.h"
#include "vmm/sys/result.h"

namespace turnbox::turn {

tl::unexpected<sys::Error> error_of(fs::Errno error, std::string_view what);

template <typename T>
sys::Result<T> lift(fs::Expected<T> result, std::string_view what) {
  if (!result) return error_of(result.error(), what);
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(*result);
  }
}

}  // namespace turnbox::turn
