// A vhost-user back end for one device: one listening socket, one front end, rings in the front end's memory.
//
// Runs on the io_context it is given; everything happens on that one thread. Counters tell what a hostile
// peer did.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "vmm/sys/fd.h"
#include "vmm/vhost/counters.h"
#include "vmm/vhost/device.h"

namespace turnbox::vhost {

struct BackendOptions {
  std::optional<uid_t> peer_uid;  // refuse a front end with another uid (SO_PEERCRED)
  bool accept_again =
      false;  // listen again after a disconnect (tests); else the front end's end ends the device
};

class Backend {
 public:
  // `listener` is a listening unix stream socket. `gone` is called once, from the event loop, when the front
  // end is gone for good or the listener failed; it may destroy the back end.
  Backend(boost::asio::io_context& io, sys::Fd listener, Device& device, BackendOptions options,
          std::function<void()> gone);
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const Counters& counters() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with handlers in flight, which hold it weakly
};

}  // namespace turnbox::vhost
