#include "db/error_value.h"

#include <new>

#include "agent/base/errors.h"

namespace bide::db {

ErrorValue ErrorValue::current() {
  try {
    throw;
  } catch (const Bug& e) {
    return {Kind::bug, e.what()};
  } catch (const StorageFault& e) {
    return {Kind::storage_fault, e.what()};
  } catch (const StorageFull& e) {
    return {Kind::storage_full, e.what()};
  } catch (const StorageBusy& e) {
    return {Kind::storage_busy, e.what()};
  } catch (const CorruptData& e) {
    return {Kind::corrupt, e.what()};
  } catch (const ConfigFault& e) {
    return {Kind::config, e.what()};
  } catch (const std::bad_alloc& e) {
    return {Kind::no_memory, e.what()};
  } catch (const std::logic_error& e) {
    return {Kind::bug, e.what()};
  } catch (const std::exception& e) {
    return {Kind::other, e.what()};
  } catch (...) {
    return {Kind::bug, "something was thrown that is no std::exception"};
  }
}

void ErrorValue::raise() const {
  switch (kind) {
    case Kind::none: throw Bug("raise() without an error");
    case Kind::bug: throw Bug(what);
    case Kind::storage_fault: throw StorageFault(what);
    case Kind::storage_full: throw StorageFull(what);
    case Kind::storage_busy: throw StorageBusy(what);
    case Kind::corrupt: throw CorruptData(what);
    case Kind::config: throw ConfigFault(what);
    case Kind::no_memory: throw std::bad_alloc();
    case Kind::other: break;
  }
  throw std::runtime_error(what);
}

}  // namespace bide::db
