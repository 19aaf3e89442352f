#include "broker/cli/options.h"

#include <algorithm>

namespace turnbox::cli {

Options::Options(const Verb& verb) : verb_(verb), app_("", std::string("turnbox ") + verb.name) {
  app_.set_help_flag();
  app_.add_option("--state", state_)->type_name("DIR");
}

sys::Status Options::parse(const Arguments& arguments, bool takes_command) {
  auto usage = [this](std::string text) {
    return sys::fail(sys::ErrorKind::usage, text + "; see turnbox " + verb_.name + " --help");
  };
  if (arguments.dashes && !takes_command) return usage(std::string(verb_.name) + " takes nothing after --");
  std::vector<std::string> reversed(arguments.before.rbegin(),
                                    arguments.before.rend());  // as CLI11 wants them
  try {
    app_.parse(std::move(reversed));
  } catch (const CLI::ExtrasError&) {
    const auto extra = app_.remaining();
    const std::string first = extra.empty() ? "" : extra.front();
    if (first.starts_with("-")) return usage(std::string(verb_.name) + " has no option " + first);
    return usage("unexpected argument " + first + (takes_command ? " (put the command behind --)" : ""));
  } catch (const CLI::ParseError& e) {
    return usage(e.what());
  }
  return {};
}

}  // namespace turnbox::cli
