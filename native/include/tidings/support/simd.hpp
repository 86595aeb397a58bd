// The vector instructions that this machine has, found once. A hot loop exists once per level, in a function with a
// target attribute; everything around it is portable code. With TIDINGS_PORTABLE, and on processors other than x86-64,
// only the portable level is compiled.
#pragma once
#include <cstdint>

#if defined(__x86_64__) && !defined(TIDINGS_PORTABLE)
#define TIDINGS_X86
#endif

namespace tidings {

enum class Simd : uint8_t { Portable, Avx2, Avx512 };

inline Simd simd_best() {
#if defined(TIDINGS_X86)
    static const Simd best = [] {
        __builtin_cpu_init();
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
            return Simd::Avx512;
        return __builtin_cpu_supports("avx2") ? Simd::Avx2 : Simd::Portable;
    }();
    return best;
#else
    return Simd::Portable;
#endif
}

}  // namespace tidings

#if defined(TIDINGS_X86)
#define TIDINGS_TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define TIDINGS_TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,bmi,bmi2,popcnt")))
#else
#define TIDINGS_TARGET_AVX2
#define TIDINGS_TARGET_AVX512
#endif
#define TIDINGS_INLINE inline __attribute__((always_inline))
