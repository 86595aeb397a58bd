// hash64 of docs/wire.md, which brokers agree on; with a random seed per process also the hash of every table in the
// kernel. Each step folds the 128-bit product. Multiplication modulo 2^64 alone would leave the highest bit of one word
// to be undone by the next, whatever the seed, so that anybody could make inputs that collide.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tidings {

// In place, of one word or of each in a vector of them.
template <typename Words>
inline __attribute__((always_inline)) void mix64_of(Words& h) {
    h ^= h >> 33;
    h *= 0xFF51AFD7ED558CCDull;
    h ^= h >> 33;
    h *= 0xC4CEB9FE1A85EC53ull;
    h ^= h >> 33;
}

inline uint64_t mix64(uint64_t h) {
    mix64_of(h);
    return h;
}

// The last `size` (1 to 7) bytes, padded with zeros. With 8 or more bytes before the end in reach, or 4 or more in all,
// by loads that overlap: a copy of variable length would cost more than the hash.
inline uint64_t load_tail(const char* p, size_t size, bool longer) {
    if (longer) {
        uint64_t word;
        std::memcpy(&word, p + size - 8, 8);
        return word >> (8 * (8 - size));
    }
    if (size >= 4) {
        uint32_t low, high;
        std::memcpy(&low, p, 4);
        std::memcpy(&high, p + size - 4, 4);
        return low | static_cast<uint64_t>(high) << (8 * (size - 4));
    }
    const auto at = [p](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(p[i])) << (8 * i); };
    return at(0) | at(size >> 1) | at(size - 1);
}

inline uint64_t fold_multiply(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash64(std::string_view text, uint64_t seed) {
    const char* p = text.data();
    size_t size = text.size();
    uint64_t h = seed ^ (size * 0x9E3779B97F4A7C15ull);
    const bool longer = size >= 8;
    for (; size >= 8; p += 8, size -= 8) {
        uint64_t word;
        std::memcpy(&word, p, 8);
        h = fold_multiply(h ^ word, 0xD6E8FEB86659FD93ull);
    }
    if (size) h = fold_multiply(h ^ load_tail(p, size, longer), 0xD6E8FEB86659FD93ull);
    return fold_multiply(h ^ 0xFF51AFD7ED558CCDull, 0xC4CEB9FE1A85EC53ull);
}

inline uint64_t hash64(const void* data, size_t size, uint64_t seed) {
    return hash64(std::string_view(static_cast<const char*>(data), size), seed);
}

}  // namespace tidings
