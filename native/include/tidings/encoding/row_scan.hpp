// The yardstick for the encoded matrix: every vector compared with every message, one after the other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tidings/encoding/antichain.hpp"
#include "tidings/support/simd.hpp"
#if defined(TIDINGS_X86)
#include <immintrin.h>
#endif

namespace tidings {

#if defined(TIDINGS_X86)
TIDINGS_TARGET_AVX2 inline size_t row_scan_avx2(const uint64_t* rows, size_t count, const uint64_t* message,
                                                uint32_t* out) {
    const __m256i held = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(message));
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) {
        out[found] = static_cast<uint32_t>(i);
        found += static_cast<size_t>(
            _mm256_testc_si256(held, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows) + i)));
    }
    return found;
}
#endif

// Writes the numbers of matching rows to `out`, which has room for all and one more.
inline size_t row_scan(const uint64_t* rows, size_t count, uint32_t words, const uint64_t* message, uint32_t* out) {
#if defined(TIDINGS_X86)
    if (words == 4 && simd_best() != Simd::Portable) return row_scan_avx2(rows, count, message, out);
#endif
    size_t found = 0;
    for (size_t i = 0; i < count; ++i) {
        out[found] = static_cast<uint32_t>(i);
        found += is_subset(rows + i * words, message, words);
    }
    return found;
}

}  // namespace tidings
