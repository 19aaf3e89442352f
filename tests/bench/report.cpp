#include "tests/bench/report.h"

#include <stdlib.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace turnbox::bench {
namespace {

double load_now() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 ? load : 0;
}

bool met(double value, Target target) {
  return target.kind == Target::Kind::at_least ? value >= target.value : value <= target.value;
}

std::string verdict(double value, Target target) {
  if (target.kind == Target::Kind::none) return {};
  char text[96];
  const char* sign = target.kind == Target::Kind::at_least ? "≥" : "≤";
  if (met(value, target)) {
    std::snprintf(text, sizeof text, "  %s %g met", sign, target.value);
  } else {
    std::snprintf(text, sizeof text, "  %s %g missed by %.0f %%", sign, target.value,
                  100 * std::abs(value - target.value) / target.value);
  }
  return text;
}

void judge(boost::json::object& row, double value, Target target) {
  if (target.kind == Target::Kind::none) return;
  row[target.kind == Target::Kind::at_least ? "at_least" : "at_most"] = target.value;
  row["met"] = met(value, target);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Report::Report(std::string bench) : bench_(std::move(bench)) {
  std::printf("load %.1f\n", load_now());
}

void Report::heading(const std::string& text) {
  heading_ = text;
  std::printf("\n%s\n", text.c_str());
}

void Report::figure(const std::string& what, double value, const char* unit, Target target) {
  std::printf("%-58s %11.2f %-6s%s\n", what.c_str(), value, unit, verdict(value, target).c_str());
  std::fflush(stdout);
  boost::json::object row{{"part", heading_}, {"what", what}, {"ours", value}, {"unit", unit}};
  judge(row, value, target);
  rows_.push_back(std::move(row));
}

void Report::compare(const std::string& what, double ours, const std::string& beside, double other,
                     const char* unit, double ratio, Target target) {
  sane_ = sane_ && ratio > 0 && std::isfinite(ratio);
  std::printf("%-34s %10.2f %-5s %-11s %10.2f %-5s %7.2f x%s\n", what.c_str(), ours, unit, beside.c_str(),
              other, unit, ratio, verdict(ratio, target).c_str());
  std::fflush(stdout);
  boost::json::object row{{"part", heading_}, {"what", what},   {"ours", ours}, {"beside", beside},
                          {"other", other},   {"ratio", ratio}, {"unit", unit}};
  judge(row, ratio, target);
  rows_.push_back(std::move(row));
}

bool Report::write_json(const std::string& path) const {
  std::ofstream file(path);
  file << boost::json::serialize(
              boost::json::object{{"bench", bench_}, {"load", load_now()}, {"rows", rows_}})
       << "\n";
  file.close();
  return file.good();
}

}  // namespace turnbox::bench
