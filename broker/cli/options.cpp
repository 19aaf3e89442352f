#include "broker/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <optional>

namespace turnbox::cli {
namespace {

constexpr double kMostSeconds = 1e9;  // thirty years, and no overflow in milliseconds

// The whole of `text` as a number; nothing when it is something else.
template <typename T>
std::optional<T> number_in(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

struct Options::Parser {
  explicit Parser(const std::string& name) : app("", name) {}
  CLI::App app;
};

Options::Options(const Verb& verb)
    : verb_(verb), parser_(std::make_unique<Parser>(std::string("turnbox ") + verb.name)) {
  parser_->app.set_help_flag();
  text("--state", state_);
}
Options::~Options() = default;

void Options::flag(const char* names, bool& value) {
  parser_->app.add_flag(names, value);
}
void Options::text(const char* name, std::string& value) {
  parser_->app.add_option(name, value);
}
void Options::texts(const char* name, std::vector<std::string>& values) {
  parser_->app.add_option(name, values)->allow_extra_args(false);
}
// The checks see the word before CLI11 converts it, so every complaint is in our words; an empty answer is
// consent.
void Options::choice(const char* name, std::string& value, std::vector<std::string> of) {
  parser_->app.add_option(name, value)->check([of = std::move(of)](const std::string& word) -> std::string {
    if (std::ranges::find(of, word) != of.end()) return {};
    std::string all;
    for (const auto& one : of) all += (all.empty() ? "" : " or ") + one;
    return word + " is not " + all;
  });
}
void Options::number(const char* name, unsigned& value, unsigned least, unsigned most) {
  parser_->app.add_option(name, value)->check([least, most](const std::string& word) -> std::string {
    const auto number = number_in<unsigned>(word);
    if (number && *number >= least && *number <= most) return {};
    return word + " is no whole number from " + std::to_string(least) + " to " + std::to_string(most);
  });
}
void Options::seconds(const char* name, double& value) {
  parser_->app.add_option(name, value)->check([](const std::string& word) -> std::string {
    const auto number = number_in<double>(word);
    if (number && *number > 0 && *number <= kMostSeconds) return {};
    return word + " is no number of seconds above 0";
  });
}
void Options::argument(const char* name, std::string& value, Presence presence) {
  parser_->app.add_option(name, value)->required(presence == Presence::required);
}

sys::Status Options::parse(const Arguments& arguments, bool takes_command) {
  auto usage = [this](std::string text) {
    return sys::fail(sys::ErrorKind::usage, text + "; see turnbox " + verb_.name + " --help");
  };
  if (arguments.dashes && !takes_command) return usage(std::string(verb_.name) + " takes nothing after --");
  std::vector<std::string> reversed(arguments.before.rbegin(),
                                    arguments.before.rend());  // as CLI11 wants them
  try {
    parser_->app.parse(std::move(reversed));
  } catch (const CLI::ExtrasError&) {
    const auto extra = parser_->app.remaining();
    const std::string first = extra.empty() ? "" : extra.front();
    if (first.starts_with("-")) return usage(std::string(verb_.name) + " has no option " + first);
    return usage("unexpected argument " + first + (takes_command ? " (put the command behind --)" : ""));
  } catch (const CLI::ParseError& e) {
    return usage(e.what());
  }
  return {};
}

}  // namespace turnbox::cli
