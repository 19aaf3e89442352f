// Directories of the host as stored trees, held in memory: imported as `turnbox run` does it, digested as fsd
// does it.
#pragma once

#include <map>
#include <memory>
#include <stdexcept>

#include "broker/demand/host_tree.h"
#include "broker/demand/import_stream.h"
#include "broker/turn/stored_tree.h"
#include "fs/tree/digest.h"
#include "fs/tree/import.h"
#include "vmm/sys/memfd.h"

namespace turnbox::demand {

class Versions {
 public:
  turn::StoredTree of_directory(const std::string& path, HostStamps* stamps = nullptr) {
    Import import;
    const auto read = read_host_tree(
        path, RootKind::directory, import.taker(), [](const HostTreeTotals&) {}, stamps);
    if (!read) throw std::runtime_error(read.error().text);
    return keep(import);
  }

  turn::StoredTree of_stream(const std::function<void(ImportStream&)>& fill) {
    Import import;
    const TakePiece take = import.taker();
    ImportStream out(take, size_t{1} << 20);
    fill(out);
    if (!out.finish()) throw std::runtime_error("the stream was not taken");
    return keep(import);
  }

 private:
  struct Import {
    fs::Tree tree{fs::Budget{}, [] { return fs::Time{}; }};
    fs::Ino root = tree.make_root(0, 0755);
    fs::Importer importer{tree, root, "workspace", 0};
    TakePiece taker() {
      return [this](sys::Fd memfd, bool more) -> sys::Status {
        TRY_ASSIGN(const sys::Mapping piece, sys::map_sealed(memfd.get(), size_t{1} << 30));
        TRY(importer.feed(piece.bytes()));
        return more ? sys::Status() : importer.finish();
      };
    }
  };
  using Objects = std::map<sys::Digest, std::pair<store::ObjectKind, sys::Bytes>>;

  turn::StoredTree keep(Import& import) {
    fs::Snapshot snapshot = import.tree.snapshot();
    fs::DigestCache cache;
    const auto digest = fs::digest_tree(snapshot, import.importer.root(), cache).value();
    const std::shared_ptr<Objects> objects = objects_;
    (void)fs::emit_objects(
        snapshot, import.importer.root(), cache, [](fs::ObjectKind, const sys::Digest&) { return true; },
        [&](fs::ObjectKind kind, const sys::Digest& name, sys::ByteSpan bytes) {
          (*objects)[name] = {static_cast<store::ObjectKind>(kind), sys::Bytes(bytes.begin(), bytes.end())};
        });
    import.tree.release(std::move(snapshot));
    return turn::StoredTree(
        [objects](const sys::Digest& name, sys::Bytes&) -> sys::Result<store::Reader::Found> {
          const auto found = objects->find(name);
          if (found == objects->end()) return sys::fail(sys::ErrorKind::not_found, "no object");
          return store::Reader::Found{found->second.first, found->second.second};
        },
        {static_cast<store::ObjectKind>(digest.kind), digest.content, digest.meta});
  }

  std::shared_ptr<Objects> objects_ = std::make_shared<Objects>();
};

}  // namespace turnbox::demand
