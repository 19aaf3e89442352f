// The stamp of a verification: which files, as the kernel knows them, were hashed and found right.
//
// <state>/images/.stamps/<digest> holds one line a file: name, device, inode, size, mtime and ctime in
// nanoseconds. A file that was written to, replaced, copied or restored has another ctime or inode, so its
// stamp no longer fits and it is hashed again. It guards against accidents; whoever may write to the state
// directory as its owner can forge a stamp as well as an image.
#pragma once

#include <string>

#include "vmm/image/manifest.h"
#include "vmm/sys/result.h"

namespace turnbox::image {

// The stamp's text for the image in `directory` as it is now: image.json and every file of the manifest.
sys::Result<std::string> stamp_of(const std::string& directory, const Manifest& manifest);

// True when a stamp of exactly this text is there and belongs to us alone.
bool has_stamp(const std::string& images, const sys::Digest& digest, const std::string& stamp);
// Best effort: without a stamp the next use hashes again.
void write_stamp(const std::string& images, const sys::Digest& digest, const std::string& stamp);

}  // namespace turnbox::image
