// hash64 of docs/wire.md. Also the hash of every table in the kernel, there with a random seed per process so that
// nobody can prepare colliding inputs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tidings {

inline uint64_t mix64(uint64_t h) {
    h ^= h >> 33;
    h *= 0xFF51AFD7ED558CCDull;
    h ^= h >> 33;
    h *= 0xC4CEB9FE1A85EC53ull;
    return h ^ (h >> 33);
}

inline uint64_t hash64(const void* data, size_t size, uint64_t seed) {
    const char* p = static_cast<const char*>(data);
    uint64_t h = seed ^ (size * 0x9E3779B97F4A7C15ull);
    uint64_t word;
    for (; size >= 8; p += 8, size -= 8) {
        std::memcpy(&word, p, 8);
        h = (h ^ word) * 0xD6E8FEB86659FD93ull;
        h ^= h >> 32;
    }
    if (size) {
        word = 0;
        std::memcpy(&word, p, size);
        h = (h ^ word) * 0xD6E8FEB86659FD93ull;
        h ^= h >> 32;
    }
    return mix64(h);
}

inline uint64_t hash64(std::string_view text, uint64_t seed) { return hash64(text.data(), text.size(), seed); }

}  // namespace tidings
