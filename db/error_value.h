// ErrorValue: a fault as a value, so that it can cross threads (an exception_ptr would share one object between
// threads, and TSan is right to complain). Plain data: no thread rules beyond those of its owner.
#pragma once

#include <string>

namespace bide::db {

struct ErrorValue {
  enum class Kind { none, bug, storage_fault, storage_full, storage_busy, corrupt, config, no_memory, other };
  Kind kind = Kind::none;
  std::string what;

  [[nodiscard]] explicit operator bool() const { return kind != Kind::none; }
  // The exception that is being handled. Call it in a catch block.
  [[nodiscard]] static ErrorValue current();
  // Throws the exception of base/errors.h that this value stands for; `other` becomes std::runtime_error.
  [[noreturn]] void raise() const;
};

}  // namespace bide::db
