// What a person calls a version of a workspace, everywhere on the command line.
//
//   DEMAND          the live workspace of a running sandbox
//   DEMAND@NAME     a snapshot or fork of it
//   TURN            a stored turn's workspace, after it; TURN is its id or the first characters of it
//   TURN:PLACE      PLACE: after, before, outputs/STAGE, inputs/NAME
//   FORK            a fork of the store
//
// A turn's id starts with a digit, names of forks with a letter, so that the forms cannot be mixed up; a
// demand may have a fork's name, and then the running sandbox is meant.
#pragma once

#include <string>
#include <string_view>

#include "vmm/sys/result.h"

namespace turnbox::demand {

struct VersionName {
  enum class Kind : uint8_t {
    word,  // a demand, or a fork of the store
    live,  // demand@name
    turn,  // a stored turn's place
  };
  Kind kind = Kind::word;
  std::string word;   // the demand, the fork, or the turn
  std::string name;   // live: behind the @
  std::string place;  // turn: after, before, outputs/STAGE, inputs/NAME
};

// Kind usage says what is wrong with the text, and which forms there are.
sys::Result<VersionName> parse_version_name(std::string_view text);

// Names of forks and snapshots: a letter, then lower-case letters, digits and single hyphens, at most 63.
sys::Status check_version_name(std::string_view name);

}  // namespace turnbox::demand
