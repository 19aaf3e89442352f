// The table of a bench: one row a figure, printed as it comes and kept for JSON.
//
// Only ratios within one run mean something, so a row names what stands beside it and, where there is one,
// the target; a target that is missed is printed with how much is missing and fails nothing, since a busy
// machine misses it too.
#pragma once

#include <boost/json/array.hpp>
#include <string>
#include <vector>

namespace turnbox::bench {

double median(std::vector<double> values);

struct Target {
  enum class Kind { none, at_least, at_most } kind = Kind::none;
  double value = 0;
};
inline Target at_least(double value) {
  return {Target::Kind::at_least, value};
}
inline Target at_most(double value) {
  return {Target::Kind::at_most, value};
}

class Report {
 public:
  explicit Report(std::string bench);

  void heading(const std::string& text);
  // A figure alone; the target, if any, is about the figure itself.
  void figure(const std::string& what, double value, const char* unit, Target target = {});
  // Two figures and how many times the one is the other; the target is about that.
  void compare(const std::string& what, double ours, const std::string& beside, double other,
               const char* unit, double ratio, Target target = {});

  // There are rows, and every ratio is more than nothing: a bench that measured nothing is a failure on any
  // machine.
  bool sane() const { return sane_ && !rows_.empty(); }
  // False: the file could not be written.
  bool write_json(const std::string& path) const;

 private:
  std::string bench_;
  std::string heading_;
  bool sane_ = true;
  boost::json::array rows_;
};

}  // namespace turnbox::bench
