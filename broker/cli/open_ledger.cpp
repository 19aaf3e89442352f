#include "broker/cli/open_ledger.h"

#include <spdlog/spdlog.h>

#include "broker/demand/reconcile.h"

namespace turnbox::cli {

sys::Result<Opened> open_ledger(const Options& options) {
  TRY_ASSIGN(demand::Places places, demand::find_places(options.state()));
  TRY(demand::make_places(places));
  TRY_ASSIGN(turn::Ledger ledger, turn::Ledger::open(places.state));
  auto cleared = demand::reconcile(places, ledger.store());
  // A reader of records can do its work beside leftovers; `turnbox run` is strict about them.
  if (!cleared) spdlog::warn("leftovers of a killed run stay: {}", cleared.error().text);
  return Opened{std::move(places), std::move(ledger)};
}

}  // namespace turnbox::cli
