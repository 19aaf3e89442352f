#include "tests/differential/episode.h"

#include <fcntl.h>

#include <algorithm>

#include "tests/differential/generator.h"

namespace turnbox::differential {

namespace {

Verdict one(Sides sides, const Step& step, Answer* answer = nullptr) {
  const Outcome right = run(step, sides.right), tested = run(step, sides.tested);
  if (answer != nullptr) *answer = right.answer;
  return sides.comparer.after(step, right, tested);
}

// From here on a change on the right side cannot get the time of an earlier one.
void await_tick() {
  timespec first{}, now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &first);
  do {
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  } while (now.tv_sec == first.tv_sec && now.tv_nsec == first.tv_nsec);
}

void enter(Sides sides) {
  sides.right.enter();
  sides.tested.enter();
  sides.comparer.begin();
}

// Shrinking by thirds would be finer; halves, then single steps, is fast enough for what an episode holds.
class Shrinker {
 public:
  Shrinker(Sides sides, Run run) : sides_(sides), run_(std::move(run)) {}

  Run go() {
    if (!still(run_.steps)) return run_;  // not seen again: show all of it
    for (size_t size = run_.steps.size() / 2; size > 0; size /= 2) leave_out(size);
    plainer();
    leave_out(1);
    still(run_.steps);
    return run_;
  }

 private:
  bool still(const std::vector<Step>& steps) {
    Verdict found = replay(sides_, steps, steps.size() <= 30);
    const bool same = found && found->kind == run_.found->kind;
    if (same) run_.found = std::move(found);
    return same;
  }
  bool accept(std::vector<Step> steps) {
    if (!still(steps)) return false;
    run_.steps = std::move(steps);
    return true;
  }
  void leave_out(size_t size) {
    for (size_t at = run_.steps.size(); at > 0;) {
      const size_t begin = at > size ? at - size : 0;
      std::vector<Step> fewer = run_.steps;
      fewer.erase(fewer.begin() + static_cast<long>(begin), fewer.begin() + static_cast<long>(at));
      accept(std::move(fewer));
      at = std::min(begin, run_.steps.size());
    }
  }
  template <typename Change>
  void change(size_t at, const Change& how) {
    std::vector<Step> steps = run_.steps;
    const std::string before = to_text(steps[at]);
    how(steps[at]);
    if (to_text(steps[at]) != before) accept(std::move(steps));
  }
  void plainer() {
    for (size_t i = 0; i < run_.steps.size(); ++i) {
      change(i, [](Step& step) { step.who = {}; });
      change(i, [](Step& step) { step.who.umask = 022; });
      change(i, [](Step& step) { step.offset = 0; });
      change(i, [](Step& step) { step.offset &= ~uint64_t{4095}; });
      change(i, [](Step& step) { step.to_offset = 0; });
      change(i, [](Step& step) { step.size = std::min<uint64_t>(step.size, 1); });
      change(i, [](Step& step) { step.size = std::min<uint64_t>(step.size, 4096); });
      if (run_.steps[i].verb == Verb::open) {
        change(i, [](Step& step) { step.mode = 0644; });
        for (const uint32_t flag : {O_APPEND, O_TRUNC, O_EXCL, O_NOFOLLOW}) {
          change(i, [flag](Step& step) { step.flags &= ~flag; });
        }
      }
      if (run_.steps[i].verb == Verb::mkdir) change(i, [](Step& step) { step.mode = 0755; });
      if (run_.steps[i].verb == Verb::rename) change(i, [](Step& step) { step.flags = 0; });
      change(i, [](Step& step) { step.fill = 0; });
    }
  }

  Sides sides_;
  Run run_;
};

}  // namespace

std::string Tally::text() const {
  std::string text;
  for (const auto& [verb, counts] : calls) {
    text += (text.empty() ? "" : ", ") + verb + " " + std::to_string(counts.second) + "/" +
            std::to_string(counts.first);
  }
  return text;
}

Run explore(Sides sides, uint64_t seed, unsigned count, Tally& tally) {
  Run run;
  Generator generator(seed);
  enter(sides);
  for (unsigned i = 1; i <= count && !run.found; ++i) {
    run.steps.push_back(generator.next());
    Answer answer = 0;
    run.found = one(sides, run.steps.back(), &answer);
    generator.told(run.steps.back(), answer);
    auto& [all, done] = tally.calls[name_of(run.steps.back().verb)];
    ++all, done += answer >= 0 ? 1 : 0;
    if (run.found || (i % kWholeEvery != 0 && i != count)) continue;
    run.found = sides.comparer.everything();
    generator.learn(sides.comparer.paths());
  }
  return run;
}

Verdict replay(Sides sides, const std::vector<Step>& steps, bool whole_every_step) {
  enter(sides);
  for (const Step& step : steps) {
    if (&step == &steps.back()) await_tick();  // a time that wrongly stays or moves shows again
    if (auto found = one(sides, step)) return found;
    if (!whole_every_step) continue;
    if (auto found = sides.comparer.everything()) return found;
  }
  return sides.comparer.everything();
}

Run shrink(Sides sides, Run run) {
  return Shrinker(sides, std::move(run)).go();
}

}  // namespace turnbox::differential
