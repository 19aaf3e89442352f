// What a front end and its guest did, as numbers: told by tests and by the daemons' status.
#pragma once

#include <cstdint>

namespace turnbox::vhost {

struct Counters {
  uint64_t messages = 0, messages_refused = 0;  // vhost-user messages
  uint64_t peers_refused = 0;                   // second client, wrong uid
  uint64_t chains = 0, queue_faults = 0;
};

}  // namespace turnbox::vhost
