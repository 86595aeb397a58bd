// The process's heap (glibc's; elsewhere nothing is done).
#pragma once
#include <algorithm>
#include <chrono>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tidings {

// Large blocks come from the heap and stay there for a while: output of some hundred KiB a write would otherwise be
// mapped, and its pages faulted in, each time. Memory that other threads free, which HeapTrimmer does not reach, is
// returned to the system above 8 MiB. A setting of the whole process: for programs whose process is a broker, called
// once at the start, never by a library.
inline void keep_large_blocks() {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 64 << 20);
    mallopt(M_TRIM_THRESHOLD, 8 << 20);
#endif
}

// Returns what is free within the heap to the system, or the process would stay as large as its worst moment. Every ten
// seconds at most, and where that takes long, a heap of gigabytes full of holes, for 1/10 000 of the time.
class HeapTrimmer {
public:
    void maybe_trim() {
        const auto began = Clock::now();
        if (began < next_) return;
#if defined(__GLIBC__)
        malloc_trim(1 << 20);
#endif
        next_ = began + std::max<Clock::duration>(std::chrono::seconds(10), 10'000 * (Clock::now() - began));
    }

private:
    using Clock = std::chrono::steady_clock;

    Clock::time_point next_{};
};

}  // namespace tidings
