// Puts the objects of one turn into segments and index, inside the commit's transaction. Private to
// broker/store.
#pragma once

#include "broker/store/env.h"
#include "broker/store/layout.h"

namespace turnbox::store {

class ObjectWriter {
 public:
  // `next_segment`: the first number that is free; afterwards see next_segment().
  ObjectWriter(Txn& txn, AccountNumber account, uint64_t next_segment);

  // Hashes the bytes, checks that they are an object of their kind and that everything they name is there,
  // and keeps them unless the account has them already. invalid: one of the three is not so.
  sys::Status put(const Object& object);
  // Is there such an object in the account, here or stored before?
  sys::Result<bool> has(ObjectKind kind, const sys::Digest& digest) const;
  sys::Status finish();  // writes the last segment
  uint64_t next_segment() const { return segment_; }

 private:
  sys::Status append(sys::ByteSpan bytes);
  sys::Status flush();
  sys::Status check_children(const Object& object) const;

  Txn& txn_;
  AccountNumber account_;
  uint64_t segment_;
  sys::Bytes buffer_;
};

}  // namespace turnbox::store
