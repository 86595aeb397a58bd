// The position of a value in the order of its kind, in 32 bits.
//
// Ranges are checked by comparing positions, many at a time, without knowing whether they speak of ints, floats or
// strings. 32 bits cannot hold every value, so a position says how much it knows: even positions are exact, one value
// each; an odd position stands for all values between its two even neighbours. Hence
//     position(a) < position(b)  implies  a < b,
//     equal even positions       mean     equal values,
//     equal odd positions        say nothing: compare the values themselves.
// Integers up to a million, short binary fractions and strings of three bytes are exact.
#pragma once
#include <cstdint>
#include <cstring>

#include "tidings/codec/value.hpp"

namespace tidings {

// Below and above every position: an absent attribute satisfies no bound.
inline constexpr uint32_t position_low = 0, position_high = UINT32_MAX;

namespace detail {

// Sign, exponent and 19 bits of the mantissa, turned so that they sort as an unsigned number.
inline uint32_t number_position(const Value& value) {
    double rounded = value.type == Type::Float ? value.d : static_cast<double>(value.i);
    bool exact = true;
    if (value.type == Type::Int) {
        const int order = compare_int_double(value.i, rounded);
        exact = order == 0;
        if (order < 0) rounded = std::nextafter(rounded, -INFINITY);  // positions round down
    }
    rounded += 0.0;  // -0.0 is 0.0
    uint64_t bits;
    std::memcpy(&bits, &rounded, 8);
    bits = bits >> 63 ? ~bits : bits | 1ull << 63;
    // The complement of a negative number ends in ones where the number ends in zeros.
    const uint64_t cut = bits & ((1ull << 33) - 1), whole = rounded < 0 ? (1ull << 33) - 1 : 0;
    if (rounded < 0) {
        // Round down means away from zero: what was cut off lies above the next lower exact value.
        const uint32_t key = static_cast<uint32_t>(bits >> 33);
        return cut == whole && exact ? 2 * key : cut == whole ? 2 * key + 1 : 2 * key - 1;
    }
    return 2 * static_cast<uint32_t>(bits >> 33) + (cut != whole || !exact);
}

// The first four bytes; exact if nothing but the zeros of the padding was added or cut off.
inline uint32_t text_position(std::string_view text) {
    uint32_t head = 0;
    for (size_t i = 0; i < 4; ++i) head = head << 8 | (i < text.size() ? static_cast<uint8_t>(text[i]) : 0);
    const bool padded = text.size() <= 4 && (text.empty() || text.back() != 0);
    return 2 * ((head >> 2) + 1) + ((head & 3) != 0 || !padded);
}

}  // namespace detail

inline uint32_t position(const Value& value) {
    switch (value.kind()) {
        case Kind::Bool: return 2 * (static_cast<uint32_t>(value.i) + 1);
        case Kind::Number: return detail::number_position(value);
        default: return detail::text_position(value.s);
    }
}

inline bool exact_position(uint32_t position) { return position % 2 == 0; }

}  // namespace tidings
