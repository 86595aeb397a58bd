// Strict UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above U+10FFFF. Nearly all text we
// meet is ASCII and short, so that case is decided eight bytes at a time, the last eight overlapping the ones before.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tidings {

inline constexpr uint64_t high_bits = 0x8080808080808080ull;

inline bool is_ascii(const char* p, size_t size) {
    uint64_t seen = 0, word = 0;
    if (size >= 8) {
        size_t i = 0;
        for (; i + 8 <= size; i += 8) {
            std::memcpy(&word, p + i, 8);
            seen |= word;
        }
        std::memcpy(&word, p + size - 8, 8);
        return ((seen | word) & high_bits) == 0;
    }
    if (size >= 4) {
        uint32_t first, last;
        std::memcpy(&first, p, 4);
        std::memcpy(&last, p + size - 4, 4);
        return ((first | last) & 0x80808080u) == 0;
    }
    for (size_t i = 0; i < size; ++i) seen |= static_cast<uint8_t>(p[i]);
    return seen < 0x80;
}

// The length of the code point that begins at p, or 0 if none does within `size` bytes.
inline size_t utf8_step(const char* p, size_t size) {
    const auto at = [p](size_t i) { return static_cast<uint8_t>(p[i]); };
    const auto follows = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xBF) {
        return at(i) >= low && at(i) <= high;
    };
    const uint8_t lead = at(0);
    if (lead < 0x80) return 1;
    if (lead < 0xC2) return 0;
    if (lead < 0xE0) return size >= 2 && follows(1) ? 2 : 0;
    if (lead < 0xF0) {
        const uint8_t low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;
        return size >= 3 && follows(1, low, high) && follows(2) ? 3 : 0;
    }
    if (lead > 0xF4) return 0;
    const uint8_t low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    return size >= 4 && follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
}

inline constexpr size_t utf8_valid = static_cast<size_t>(-1);

// The offset of the first byte that no code point can begin at, or utf8_valid.
inline size_t utf8_error(std::string_view text) {
    if (is_ascii(text.data(), text.size())) return utf8_valid;
    for (size_t i = 0; i < text.size();) {
        const size_t step = utf8_step(text.data() + i, text.size() - i);
        if (step == 0) return i;
        i += step;
    }
    return utf8_valid;
}

// Length and value of the code point at p, in text that is known to be valid.
inline size_t utf8_length(char lead) {
    const uint8_t byte = static_cast<uint8_t>(lead);
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

inline uint32_t utf8_decode(const char* p, size_t length) {
    static constexpr uint8_t lead_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t point = static_cast<uint8_t>(p[0]) & lead_bits[length];
    for (size_t i = 1; i < length; ++i) point = point << 6 | (static_cast<uint8_t>(p[i]) & 0x3F);
    return point;
}

inline bool utf8_continues(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace tidings
