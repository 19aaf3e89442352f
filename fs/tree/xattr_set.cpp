#include "fs/tree/xattr_set.h"

#include <algorithm>
#include <cstring>

#include "fs/tree/nodes.h"

namespace turnbox::fs {
namespace {

size_t place_of(std::span<const Xattr* const> all, std::string_view name) {
  const auto at =
      std::lower_bound(all.begin(), all.end(), name,
                       [](const Xattr* one, std::string_view wanted) { return one->name() < wanted; });
  return static_cast<size_t>(at - all.begin());
}

bool is_at(std::span<const Xattr* const> all, size_t at, std::string_view name) {
  return at < all.size() && all[at]->name() == name;
}

// A set of the old one's attributes without the one at `skip`, and with `added` before the one at `place`.
void replace(Nodes& nodes, Node*& slot, size_t skip, Xattr* added, size_t place) {
  const auto old = Xattrs::all(slot);
  const size_t count = old.size() - (skip < old.size() ? 1 : 0) + (added != nullptr ? 1 : 0);
  XattrSet* set = nullptr;
  if (count > 0) {
    set = static_cast<XattrSet*>(nodes.make(NodeKind::xattrs, XattrSet::size_for(count)));
    set->bytes = set->list_bytes = 0;
    const auto add = [set](Xattr* one) {
      set->items()[set->count++] = one;
      set->bytes += static_cast<uint32_t>(one->bytes());
      set->list_bytes += one->count + 1u;
    };
    for (size_t i = 0; i <= old.size(); ++i) {
      if (i == place && added != nullptr) add(added);
      if (i == old.size() || i == skip) continue;
      auto* kept = static_cast<XattrSet*>(slot)->items()[i];
      nodes.retain(kept);
      add(kept);
    }
  }
  if (slot != nullptr) nodes.release(slot);
  slot = set;
}

}  // namespace

std::span<const Xattr* const> Xattrs::all(const Node* set) {
  if (set == nullptr) return {};
  return static_cast<const XattrSet*>(set)->all();
}

const Xattr* Xattrs::find(const Node* set, std::string_view name) {
  const auto every = all(set);
  const size_t at = place_of(every, name);
  return is_at(every, at, name) ? every[at] : nullptr;
}

uint64_t Xattrs::bytes(const Node* set) {
  return set == nullptr ? 0 : static_cast<const XattrSet*>(set)->bytes;
}
uint64_t Xattrs::list_bytes(const Node* set) {
  return set == nullptr ? 0 : static_cast<const XattrSet*>(set)->list_bytes;
}

bool Xattrs::same(const Node* a, const Node* b) {
  if (a == b) return true;
  return std::ranges::equal(all(a), all(b), [](const Xattr* one, const Xattr* other) {
    return one == other || (one->name() == other->name() && std::ranges::equal(one->value(), other->value()));
  });
}

void Xattrs::put(Nodes& nodes, Node*& set, std::string_view name, std::span<const std::byte> value) {
  Xattr* added = nodes.make_xattr(name, value);
  const auto every = all(set);
  const size_t at = place_of(every, name);
  replace(nodes, set, is_at(every, at, name) ? at : every.size(), added, at);
}

void Xattrs::erase(Nodes& nodes, Node*& set, std::string_view name) {
  const auto every = all(set);
  const size_t at = place_of(every, name);
  if (is_at(every, at, name)) replace(nodes, set, at, nullptr, 0);
}

}  // namespace turnbox::fs
