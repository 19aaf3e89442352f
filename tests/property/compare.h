// Everything a view says, held against the plain model's state.
#pragma once

#include <string>

#include "tests/property/plain_model.h"

namespace turnbox::fs::plain {

// What differs first, or an empty string.
std::string difference(const View& view, const State& state);
std::string difference(const Attr& tree, const Attr& model);

std::string read_all(const View& view, Ino ino, uint64_t offset, size_t size);

}  // namespace turnbox::fs::plain
