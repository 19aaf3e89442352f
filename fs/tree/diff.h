// What differs between two views of one tree below a directory, as paths. Skips every shared subtree.
#pragma once

#include <functional>

#include "fs/tree/tree.h"

namespace turnbox::fs {

enum class Change : char { added = '+', changed = '~', removed = '-' };

// Paths are relative, raw bytes, in sorted order. A renamed file is a removal and an addition. A directory
// counts as changed only when its own mode, owner or xattrs differ, not for its entries; times alone are no
// change of anything. The roots themselves are compared only where they are no directories (with an empty
// path). Both views are of one tree. Paths above 65,536 bytes are left out.
void diff(const View& from, Ino from_root, const View& to, Ino to_root,
          const std::function<void(Change, Type, std::string_view path)>& visit);

}  // namespace turnbox::fs
