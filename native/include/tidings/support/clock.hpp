// The wall clock, for bindings: algorithms take the time as an argument.
#pragma once
#include <chrono>
#include <cstdint>

namespace tidings {

// Milliseconds since 1970.
inline int64_t now_ms() {
    using std::chrono::system_clock;
    return std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace tidings
