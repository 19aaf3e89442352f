// Result<T>: how a function of turnbox says that an expected thing went wrong.
//
// An Error is a kind (what the receiver should do next), one sentence for a person, and nothing else. Context
// is put in front on the way up with `context()`. A function either logs or returns an error, never both.
// fs/tree does not use this type: its errors are errno values (fs/tree/types.h).
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace turnbox::sys {

// Named by what the receiver does next.
enum class ErrorKind : uint8_t {
  usage,        // the caller's words are wrong: show them and exit 2
  invalid,      // an argument or a stored byte is wrong: tell whoever gave it
  not_found,    // the named thing does not exist
  conflict,     // the thing is in another state than the call needs
  refused,      // policy says no, whatever is tried again
  limit,        // a budget is used up
  unavailable,  // something of the host is missing or did not answer; later may work
  protocol,     // a peer broke its protocol: drop that peer, keep running
  io,           // the operating system failed a call
};

std::string_view name_of(ErrorKind kind);

struct Error {
  ErrorKind kind;
  std::string text;  // one sentence without a final full stop; names the thing and, for a person, the remedy
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(ErrorKind kind, std::string text) {
  return tl::unexpected<Error>(Error{kind, std::move(text)});
}

// «WHAT: strerror(err)», kind io (not_found for ENOENT).
tl::unexpected<Error> fail_errno(std::string_view what, int err = errno);

// The same error with «WHAT: » in front.
inline tl::unexpected<Error> context(std::string_view what, Error error) {
  error.text.insert(0, ": ").insert(0, what);
  return tl::unexpected<Error>(std::move(error));
}

// Our own bug: prints where and why to stderr and aborts, in every build type.
[[noreturn]] void bug(const char* file, int line, const char* what);

}  // namespace turnbox::sys

// An invariant of ours. Never for input, whoever sent it.
#define TURNBOX_ASSERT(cond) \
  (static_cast<bool>(cond) ? void(0) : ::turnbox::sys::bug(__FILE__, __LINE__, #cond))

#define TURNBOX_CONCAT_(a, b) a##b
#define TURNBOX_CONCAT(a, b) TURNBOX_CONCAT_(a, b)

// TRY(expr): leave the function with expr's error, if it has one. TRY_ASSIGN(auto x, expr): the same, else
// bind.
#define TRY(expr)                                                                   \
  do {                                                                              \
    auto turnbox_try_ = (expr);                                                     \
    if (!turnbox_try_) return tl::make_unexpected(std::move(turnbox_try_).error()); \
  } while (0)
#define TRY_ASSIGN(decl, expr) TRY_ASSIGN_(TURNBOX_CONCAT(turnbox_try_, __LINE__), decl, expr)
#define TRY_ASSIGN_(tmp, decl, expr)                            \
  auto tmp = (expr);                                            \
  if (!tmp) return tl::make_unexpected(std::move(tmp).error()); \
  decl = std::move(*tmp)
