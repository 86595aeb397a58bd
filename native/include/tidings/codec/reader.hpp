// A cursor that cannot leave its buffer. Every read checks first and throws CodecError; codes and positions are those
// of docs/wire.md, "Refused input". Offsets count from `origin`, so a reader of a part reports positions in the
// whole.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tidings/codec/utf8.hpp"
#include "tidings/codec/value.hpp"
#include "tidings/support/error.hpp"

namespace tidings {

static_assert(std::endian::native == std::endian::little, "the wire formats are little-endian");

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse(const char* code, const char* reason, size_t position) {
    throw CodecError{code, reason, position};
}

class Reader {
public:
    explicit Reader(std::string_view data) : origin_(data.data()), at_(data.data()), end_(data.data() + data.size()) {}

    // The next `size` bytes as a reader of its own; this one goes on after them.
    Reader part(size_t size) {
        Reader inner = *this;
        inner.end_ = at_ + bytes(size).size();
        return inner;
    }

    size_t position() const { return static_cast<size_t>(at_ - origin_); }
    size_t end() const { return static_cast<size_t>(end_ - origin_); }
    size_t left() const { return static_cast<size_t>(end_ - at_); }
    bool done() const { return at_ == end_; }

    uint8_t u8() { return fixed<uint8_t>(); }
    uint16_t u16() { return fixed<uint16_t>(); }
    uint32_t u32() { return fixed<uint32_t>(); }
    uint64_t u64() { return fixed<uint64_t>(); }
    double f64() { return fixed<double>(); }

    std::string_view bytes(size_t size) {
        need(size);
        const std::string_view taken(at_, size);
        at_ += size;
        return taken;
    }

    std::string_view text(size_t size) {
        const size_t start = position();
        const std::string_view taken = bytes(size);
        if (const size_t wrong = utf8_error(taken); wrong != utf8_valid)
            refuse("E_CODEC_UTF8", "not valid UTF-8", start + wrong);
        return taken;
    }

    std::string_view rest() { return bytes(left()); }

    // Unsigned LEB128 in its shortest form, at most 64 bits.
    uint64_t varint() {
        if (left() && static_cast<uint8_t>(*at_) < 0x80) return static_cast<uint8_t>(*at_++);
        return long_varint();
    }

    int64_t zigzag() {
        const uint64_t n = varint();
        return static_cast<int64_t>(n >> 1 ^ (~(n & 1) + 1));
    }

    // A varint that announces that many bytes.
    size_t length() {
        const uint64_t n = varint();
        if (n > left()) refuse("E_CODEC_TRUNCATED", "a length goes beyond the end", end());
        return static_cast<size_t>(n);
    }

private:
    void need(size_t size) const {
        if (size > left()) [[unlikely]]
            refuse("E_CODEC_TRUNCATED", "the data ends too early", end());
    }

    template <class T>
    T fixed() {
        need(sizeof(T));
        T value;
        std::memcpy(&value, at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }

    uint64_t long_varint() {
        const size_t start = position();
        uint64_t value = 0;
        for (unsigned shift = 0;; shift += 7) {
            if (done()) refuse("E_CODEC_TRUNCATED", "the data ends inside a varint", end());
            const uint64_t byte = static_cast<uint8_t>(*at_++);
            if (shift == 63 && byte > 1) refuse("E_CODEC_VARINT", "a varint of more than 64 bits", start);
            value |= (byte & 0x7F) << shift;
            if (byte < 0x80) {
                if (byte == 0 && shift) refuse("E_CODEC_VARINT", "a varint that is not in its shortest form", start);
                return value;
            }
        }
    }

    const char* origin_;
    const char* at_;
    const char* end_;
};

// Sets of type bytes, for places that do not take every value.
enum Types : uint8_t {
    AnyValue = 0x3F,
    IntOnly = 1 << 2,
    StringOnly = 1 << 4,
    ListOnly = 1 << 6,
    AttributeValue = 0xBF
};

// A type byte out of `allowed`.
inline uint8_t read_type(Reader& reader, uint8_t allowed) {
    const size_t start = reader.position();
    const uint8_t type = reader.u8();
    if (type > 7 || !(allowed >> type & 1)) [[unlikely]] {
        if (type > 7) refuse("E_CODEC_TYPE", "unknown type of value", start);
        refuse("E_CODEC_TYPE", "unexpected type of value", start);
    }
    return type;
}

inline double read_float(Reader& reader) {
    const size_t start = reader.position();
    const double number = reader.f64();
    if (std::isnan(number)) refuse("E_CODEC_NAN", "NaN is not a value", start);
    return number;
}

// One value that is not a list, written in place: the hot loop reads attributes where they will stay.
inline void read_value(Reader& reader, Value& out, uint8_t allowed = AnyValue) {
    const uint8_t type = read_type(reader, allowed);
    out.type = type ? static_cast<Type>(type) : Type::Bool;
    switch (type) {
        case 0:
        case 1: out.i = type; break;
        case 2: out.i = reader.zigzag(); break;
        case 3: out.d = read_float(reader); break;
        default: const size_t size = reader.length(); out.s = type == 5 ? reader.bytes(size) : reader.text(size);
    }
}

inline Value read_value(Reader& reader, uint8_t allowed = AnyValue) {
    Value value;
    read_value(reader, value, allowed);
    return value;
}

// The same from bytes that were found to be right before: texts are not looked at again.
inline void read_checked(Reader& reader, Value& out) {
    const uint8_t type = reader.u8();
    out.type = type ? static_cast<Type>(type) : Type::Bool;
    switch (type) {
        case 0:
        case 1: out.i = type; break;
        case 2: out.i = reader.zigzag(); break;
        case 3: out.d = reader.f64(); break;
        default: out.s = reader.bytes(reader.length());
    }
}

// Length u8, name: of attributes and of what constrains them.
inline std::string_view read_name(Reader& reader) {
    const size_t start = reader.position();
    const uint8_t size = reader.u8();
    if (size == 0) refuse("E_CODEC_NAME", "an empty name", start);
    return reader.text(size);
}

}  // namespace tidings
