// The inner loop of subset_block.hpp, for each vector width: strike out the rows that have a bit where the message has
// none, stop when no row is left. `hits` gets the rest; false means there is certainly none.
#pragma once
#include <cstdint>
#include "tidings/support/simd.hpp"
#if defined(TIDINGS_X86)
#include <immintrin.h>
#endif

namespace tidings {

constexpr uint32_t column_words = 8;  // a column has 512 bits: one 512-bit register or two of 256
constexpr uint32_t columns_between_checks = 8;

struct ColumnsPortable {
    static bool match(const uint64_t* columns, const uint64_t* alive, const uint16_t* zeros, uint32_t count,
                      uint64_t* hits) {
        typedef uint64_t Lane __attribute__((vector_size(column_words * 8)));
        const Lane* lanes = reinterpret_cast<const Lane*>(columns);
        Lane left = *reinterpret_cast<const Lane*>(alive);
        uint32_t i = 0;
        for (; i + columns_between_checks <= count; i += columns_between_checks) {
            for (uint32_t j = 0; j < columns_between_checks; ++j) left &= ~lanes[zeros[i + j]];
            uint64_t any = 0;
            for (uint32_t j = 0; j < column_words; ++j) any |= left[j];
            if (!any) return false;
        }
        for (; i < count; ++i) left &= ~lanes[zeros[i]];
        *reinterpret_cast<Lane*>(hits) = left;
        return true;
    }
};

#if defined(TIDINGS_X86)
struct ColumnsAvx2 {
    TIDINGS_TARGET_AVX2 static bool match(const uint64_t* columns, const uint64_t* alive, const uint16_t* zeros,
                                          uint32_t count, uint64_t* hits) {
        const __m256i* lanes = reinterpret_cast<const __m256i*>(columns);
        __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(alive));
        __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(alive) + 1);
        uint32_t i = 0;
        for (; i + columns_between_checks <= count; i += columns_between_checks) {
            for (uint32_t j = 0; j < columns_between_checks; ++j) {
                low = _mm256_andnot_si256(_mm256_load_si256(lanes + zeros[i + j] * 2), low);
                high = _mm256_andnot_si256(_mm256_load_si256(lanes + zeros[i + j] * 2 + 1), high);
            }
            const __m256i any = _mm256_or_si256(low, high);
            if (_mm256_testz_si256(any, any)) return false;
        }
        for (; i < count; ++i) {
            low = _mm256_andnot_si256(_mm256_load_si256(lanes + zeros[i] * 2), low);
            high = _mm256_andnot_si256(_mm256_load_si256(lanes + zeros[i] * 2 + 1), high);
        }
        _mm256_store_si256(reinterpret_cast<__m256i*>(hits), low);
        _mm256_store_si256(reinterpret_cast<__m256i*>(hits) + 1, high);
        return true;
    }
};

struct ColumnsAvx512 {
    TIDINGS_TARGET_AVX512 static bool match(const uint64_t* columns, const uint64_t* alive, const uint16_t* zeros,
                                            uint32_t count, uint64_t* hits) {
        __m512i left = _mm512_load_si512(alive);
        uint32_t i = 0;
        for (; i + columns_between_checks <= count; i += columns_between_checks) {
            __m512i dead = _mm512_setzero_si512();
            for (uint32_t j = 0; j < columns_between_checks; ++j)
                dead |= _mm512_load_si512(columns + zeros[i + j] * column_words);
            left &= ~dead;
            if (_mm512_test_epi64_mask(left, left) == 0) return false;
        }
        for (; i < count; ++i) left &= ~_mm512_load_si512(columns + zeros[i] * column_words);
        _mm512_store_si512(hits, left);
        return true;
    }
};
#else
using ColumnsAvx2 = ColumnsPortable;
using ColumnsAvx512 = ColumnsPortable;
#endif

}  // namespace tidings
