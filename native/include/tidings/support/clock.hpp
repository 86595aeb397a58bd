// The wall clock, for bindings: algorithms take the time as an argument.
#pragma once
#include <chrono>
#include <cstdint>
#include <ctime>

namespace tidings {

// Milliseconds since 1970.
inline int64_t now_ms() {
    using std::chrono::system_clock;
    return std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch()).count();
}

// Milliseconds since some time, in steps of a few: cheaper than the others.
inline int64_t coarse_ms() {
#ifdef CLOCK_MONOTONIC_COARSE
    timespec time;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
#else
    using std::chrono::steady_clock;
    return std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now().time_since_epoch()).count();
#endif
}

}  // namespace tidings
