// Attribute values: the same equality and order as src/tidings/model/values.py.
#pragma once
#include <cmath>
#include <compare>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "tidings/hash.hpp"

namespace tidings {

enum class Kind : uint8_t { Bool = 0, Number = 1, String = 2, Bytes = 3 };

// The type bytes of docs/wire.md, apart from the two booleans, which share one here.
enum class Type : uint8_t { Bool = 1, Int = 2, Float = 3, String = 4, Bytes = 5 };

// A value that points into somebody else's buffer.
struct Value {
    Type type = Type::Bool;
    union {
        int64_t i;  // Bool (0 or 1) and Int
        double d;
    };
    std::string_view s;  // String and Bytes

    Value() : i(0) {}
    static Value boolean(bool b) { Value v; v.type = Type::Bool; v.i = b; return v; }
    static Value integer(int64_t n) { Value v; v.type = Type::Int; v.i = n; return v; }
    static Value real(double x) { Value v; v.type = Type::Float; v.d = x; return v; }
    static Value string(std::string_view t) { Value v; v.type = Type::String; v.s = t; return v; }
    static Value bytes(std::string_view t) { Value v; v.type = Type::Bytes; v.s = t; return v; }

    Kind kind() const {
        switch (type) {
            case Type::Bool: return Kind::Bool;
            case Type::String: return Kind::String;
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
        case Kind::Bool:
            return (a.i > b.i) - (a.i < b.i);
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

inline std::optional<int> compare(const Value& a, const Value& b) {
    if (a.kind() != b.kind()) return std::nullopt;
    return compare_same_kind(a, b);
}

inline bool equal(const Value& a, const Value& b) { return a.kind() == b.kind() && compare_same_kind(a, b) == 0; }

// Equal values have equal hashes: a float that is a whole number hashes as the int.
inline uint64_t hash_value(const Value& v, uint64_t seed) {
    const uint64_t kind_seed = seed + static_cast<uint64_t>(v.kind()) * 0x9E3779B97F4A7C15ull;
    switch (v.type) {
        case Type::Bool:
        case Type::Int:
            return mix64(kind_seed ^ static_cast<uint64_t>(v.i) * 0xD6E8FEB86659FD93ull);
        case Type::Float: {
            if (v.d >= -9223372036854775808.0 && v.d < 9223372036854775808.0 && v.d == std::floor(v.d))
                return mix64(kind_seed ^ static_cast<uint64_t>(static_cast<int64_t>(v.d)) * 0xD6E8FEB86659FD93ull);
            uint64_t bits;
            std::memcpy(&bits, &v.d, 8);
            return mix64(~kind_seed ^ bits);
        }
        default:
            return table_hash(v.s, kind_seed);
    }
}

}  // namespace tidings
