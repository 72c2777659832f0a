// A mutex whose lock facts stand in the types: clang checks them with -Wthread-safety.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define BIDE_TS(x) __attribute__((x))
#else
#define BIDE_TS(x)
#endif
#define CAPABILITY(x) BIDE_TS(capability(x))
#define SCOPED_CAPABILITY BIDE_TS(scoped_lockable)
#define GUARDED_BY(x) BIDE_TS(guarded_by(x))
#define REQUIRES(...) BIDE_TS(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) BIDE_TS(locks_excluded(__VA_ARGS__))
#define ACQUIRE(...) BIDE_TS(acquire_capability(__VA_ARGS__))
#define RELEASE(...) BIDE_TS(release_capability(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS BIDE_TS(no_thread_safety_analysis)

namespace bide {

class CAPABILITY("mutex") Mutex {
 public:
  void lock() ACQUIRE() { m_.lock(); }
  void unlock() RELEASE() { m_.unlock(); }

 private:
  std::mutex m_;
};

class SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& m) ACQUIRE(m) : m_(m) { m_.lock(); }
  ~Lock() RELEASE() { m_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& m_;
};

// Waits on a Mutex that the caller holds.
using Condition = std::condition_variable_any;

}  // namespace bide
