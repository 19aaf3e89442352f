// A vhost-user back end for one device: one listening socket, one front end, rings in the front end's memory.
//
// Runs on the io_context it is given; everything happens on that one thread. Counters tell what a hostile peer did.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "vmm/sys/fd.h"
#include "vmm/vhost/device.h"

namespace turnbox::vhost {

struct BackendOptions {
  std::optional<uid_t> peer_uid;  // refuse a front end with another uid (SO_PEERCRED)
  bool accept_again = false;      // listen again after a disconnect (tests); else the front end's end ends the device
};

struct Counters {
  uint64_t messages = 0, messages_refused = 0;  // vhost-user messages
  uint64_t peers_refused = 0;                   // second client, wrong uid
  uint64_t chains = 0, queue_faults = 0;
};

class Backend {
 public:
  // `listener` is a listening unix stream socket. `gone` is called once the front end is gone for good.
  Backend(boost::asio::io_context& io, sys::Fd listener, Device& device, BackendOptions options,
          std::function<void()> gone);
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const Counters& counters() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace turnbox::vhost
