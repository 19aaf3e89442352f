// A list of steps run on both sides, and the shortest one that still tells them apart.
#pragma once

#include <functional>
#include <vector>

#include "tests/differential/comparer.h"

namespace turnbox::differential {

struct Sides {
  FileSystem& right;
  FileSystem& tested;
  Comparer& comparer;
};

inline constexpr unsigned kWholeEvery = 200;  // steps between two looks at everything

struct Run {
  std::vector<Step> steps;  // up to the one that showed the difference
  Verdict found;
};

// How many calls of each verb there were, and how many did something.
struct Tally {
  std::map<std::string, std::pair<uint64_t, uint64_t>> calls;
  std::string text() const;
};

// New steps of a seed, at most `count`.
Run explore(Sides sides, uint64_t seed, unsigned count, Tally& tally);
// Given steps; a look at everything at the end.
Verdict replay(Sides sides, const std::vector<Step>& steps, bool whole_every_step);
// Leaves out whatever is not needed for a difference of the same kind, then makes arguments plainer.
Run shrink(Sides sides, Run run);

}  // namespace turnbox::differential
