// Attribute values: the same equality and order as src/tidings/model/values.py.
#pragma once
#include <charconv>
#include <cmath>
#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "tidings/support/hash.hpp"

namespace tidings {

enum class Kind : uint8_t { Bool = 0, Number = 1, String = 2, Bytes = 3 };

// The type bytes of docs/wire.md, apart from the two booleans, which share one here. Text is untyped: a string that,
// compared with a number or a boolean, is the one it reads as.
enum class Type : uint8_t { Bool = 1, Int = 2, Float = 3, String = 4, Bytes = 5, Text = 7 };

// A value that points into a buffer it does not own.
struct Value {
    Type type = Type::Bool;
    union {
        int64_t i;  // Bool (0 or 1) and Int
        double d;
    };
    std::string_view s;  // String, Bytes and Text

    Value() : i(0) {}
    static Value boolean(bool b) {
        Value v;
        v.type = Type::Bool;
        v.i = b;
        return v;
    }
    static Value integer(int64_t n) {
        Value v;
        v.type = Type::Int;
        v.i = n;
        return v;
    }
    static Value real(double x) {
        Value v;
        v.type = Type::Float;
        v.d = x;
        return v;
    }
    static Value string(std::string_view t) {
        Value v;
        v.type = Type::String;
        v.s = t;
        return v;
    }
    static Value text(std::string_view t) {
        Value v;
        v.type = Type::Text;
        v.s = t;
        return v;
    }
    static Value bytes(std::string_view t) {
        Value v;
        v.type = Type::Bytes;
        v.s = t;
        return v;
    }

    Kind kind() const {
        switch (type) {
            case Type::Bool: return Kind::Bool;
            case Type::String:
            case Type::Text: return Kind::String;
            case Type::Bytes: return Kind::Bytes;
            default: return Kind::Number;
        }
    }
};

// Exact comparison of a 64-bit integer with a double that is not NaN: no rounding of the integer.
inline int compare_int_double(int64_t a, double b) {
    if (b >= 9223372036854775808.0) return -1;
    if (b < -9223372036854775808.0) return 1;
    const double floor_b = std::floor(b);
    const int64_t whole = static_cast<int64_t>(floor_b);
    if (a != whole) return a < whole ? -1 : 1;
    return b > floor_b ? -1 : 0;
}

// -1, 0, 1; requires equal kinds.
inline int compare_same_kind(const Value& a, const Value& b) {
    switch (a.kind()) {
        case Kind::Bool: return (a.i > b.i) - (a.i < b.i);
        case Kind::Number:
            if (a.type == Type::Int && b.type == Type::Int) return (a.i > b.i) - (a.i < b.i);
            if (a.type == Type::Int) return compare_int_double(a.i, b.d);
            if (b.type == Type::Int) return -compare_int_double(b.i, a.d);
            return (a.d > b.d) - (a.d < b.d);
        default: {
            const int order = a.s.compare(b.s);
            return (order > 0) - (order < 0);
        }
    }
}

// ---- what untyped text reads as (src/tidings/model/values.py has the same rules)

inline constexpr size_t number_characters_max = 64;

namespace detail {

inline size_t digits(std::string_view text, size_t from) {
    size_t at = from;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - from;
}

inline std::optional<Value> read_boolean(std::string_view text) {
    const auto is = [text](std::string_view word) {
        if (text.size() != word.size()) return false;
        for (size_t i = 0; i < word.size(); ++i)
            if ((text[i] | 0x20) != word[i]) return false;
        return true;
    };
    if (is("true")) return Value::boolean(true);
    if (is("false")) return Value::boolean(false);
    return std::nullopt;
}

inline std::optional<Value> read_number(std::string_view text) {
    const size_t sign = text[0] == '-' || text[0] == '+', whole = digits(text, sign);
    size_t at = sign + whole, fraction = 0;
    bool real = at < text.size() && text[at] == '.';
    if (real) fraction = digits(text, at + 1), at += 1 + fraction;
    if (whole + fraction == 0) return std::nullopt;
    const size_t mantissa_end = at;
    if (at < text.size() && (text[at] | 0x20) == 'e') {
        real = true;
        ++at;
        if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
        const size_t exponent = digits(text, at);
        if (exponent == 0) return std::nullopt;
        at += exponent;
    }
    if (at != text.size()) return std::nullopt;
    const char *const first = text.data() + (text[0] == '+'), *const last = text.data() + text.size();
    if (int64_t n = 0; !real && std::from_chars(first, last, n).ec == std::errc{}) return Value::integer(n);
    double x = 0;
    if (std::from_chars(first, last, x).ec != std::errc{} || std::isinf(x)) return std::nullopt;
    if (x == 0 && text.substr(0, mantissa_end).find_first_of("123456789") != text.npos)
        return std::nullopt;  // too small
    return Value::real(x);
}

}  // namespace detail

// The number or boolean that a text reads as.
inline std::optional<Value> reading(std::string_view text) {
    if (text.empty() || text.size() > number_characters_max) return std::nullopt;
    const char c = text[0];
    if (c <= '9') {
        if (c >= '0' || c == '-' || c == '+' || c == '.') return detail::read_number(text);
        return std::nullopt;
    }
    return c == 't' || c == 'T' || c == 'f' || c == 'F' ? detail::read_boolean(text) : std::nullopt;
}

// A value as one of this kind: itself, or what untyped text reads as.
inline std::optional<Value> as_kind(const Value& v, Kind kind) {
    if (v.kind() == kind) return v;
    if (v.type != Type::Text) return std::nullopt;
    const std::optional<Value> read = reading(v.s);
    return read && read->kind() == kind ? read : std::nullopt;
}

// -1, 0 or 1; nothing if the kinds differ. Two untyped texts are numbers if both can be.
inline std::optional<int> compare(const Value& a, const Value& b) {
    if (a.type == Type::Text && b.type == Type::Text) {
        const std::optional<Value> x = as_kind(a, Kind::Number), y = as_kind(b, Kind::Number);
        return x && y ? compare_same_kind(*x, *y) : compare_same_kind(a, b);
    }
    if (a.kind() == b.kind()) return compare_same_kind(a, b);
    if (const std::optional<Value> x = as_kind(a, b.kind())) return compare_same_kind(*x, b);
    if (const std::optional<Value> y = as_kind(b, a.kind())) return compare_same_kind(a, *y);
    return std::nullopt;
}

// As they stand: untyped text is a string here.
inline bool equal(const Value& a, const Value& b) { return a.kind() == b.kind() && compare_same_kind(a, b) == 0; }

// Equal values have equal hashes: a float that is a whole number hashes as the int.
inline uint64_t hash_value(const Value& v, uint64_t seed) {
    const uint64_t kind_seed = seed + static_cast<uint64_t>(v.kind()) * 0x9E3779B97F4A7C15ull;
    switch (v.type) {
        case Type::Bool:
        case Type::Int: return mix64(kind_seed ^ static_cast<uint64_t>(v.i) * 0xD6E8FEB86659FD93ull);
        case Type::Float: {
            if (v.d >= -9223372036854775808.0 && v.d < 9223372036854775808.0 && v.d == std::floor(v.d))
                return mix64(kind_seed ^ static_cast<uint64_t>(static_cast<int64_t>(v.d)) * 0xD6E8FEB86659FD93ull);
            uint64_t bits;
            std::memcpy(&bits, &v.d, 8);
            return mix64(~kind_seed ^ bits);
        }
        default: return hash64(v.s, kind_seed);
    }
}

}  // namespace tidings
