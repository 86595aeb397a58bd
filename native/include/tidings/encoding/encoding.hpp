// Messages encoded for the matrix: the elements they carry (64-bit fingerprints of categories) and the vector of these.
// The categories are those of src/tidings/matching/categories.py (plain) and graded.py; docs/wire.md has the bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tidings/codec/message.hpp"
#include "tidings/support/error.hpp"
#include "tidings/support/hash.hpp"

namespace tidings {

enum class Grade : uint8_t { Plain = 0, Graded = 1 };

enum class Category : uint8_t { Exists = 1, Equals, Cell, Mark, Begins, Ends, Gram, Levels };

// Powers of two at which a number is known to lie above or below.
inline constexpr uint8_t mark_powers[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                          14, 15, 16, 17, 18, 19, 20, 24, 28, 32, 40, 48, 56, 63};
enum class Side : uint8_t { Up = 0, UpBelow, Down, DownBelow, Positive, Negative };

inline constexpr uint32_t cell_bits_min = 12, cell_bits_max = 20;  // sign and exponent; and 8 bits of the mantissa
inline constexpr size_t edge_bytes_max = 8, levels_max = 8;

// A message that carries more is not encoded: it may match anything. Each takes as long as a look into a table, in
// every message of a client that wants to keep the broker busy; and such a message contains most rows anyway.
inline constexpr size_t message_elements_max = 1 << 16;

// A number's place in the order of all doubles, as an unsigned integer. Monotone also where an int is rounded.
inline uint64_t ordered_key(double x) {
    x += 0.0;  // -0 is 0
    uint64_t bits;
    std::memcpy(&bits, &x, 8);
    return bits >> 63 ? ~bits : bits | 1ull << 63;
}

// Takes the elements of one attribute after the other.
template <class Take>
class AttributeEncoder {
public:
    AttributeEncoder(uint64_t key, Grade grade, Take& take) : key_(key), grade_(grade), take_(take) {}

    // False if the message carries too many by now.
    bool encode(std::string_view name, const Value& value) {
        seed_ = hash64(name, key_);
        begin(Category::Exists, static_cast<uint8_t>(value.kind()));
        emit();
        equals(value);
        if (grade_ == Grade::Plain) return count_ <= message_elements_max;
        if (value.kind() == Kind::Number) number(value.type == Type::Int ? static_cast<double>(value.i) : value.d);
        if (value.kind() == Kind::String && !text(value.s)) return false;
        if (value.kind() == Kind::String && name == "@topic") topic(value.s);
        return count_ <= message_elements_max;
    }

private:
    void begin(Category category, uint8_t detail) {
        tail_[0] = static_cast<uint8_t>(category);
        tail_[1] = detail;
        size_ = 2;
    }
    void append(const void* data, size_t bytes) {
        std::memcpy(tail_ + size_, data, bytes);
        size_ += bytes;
    }
    void emit() { give(hash64(tail_, size_, seed_)); }
    void give(uint64_t element) {
        ++count_;
        take_(element);
    }

    // A category that ends in a text of any length.
    void emit_text(Category category, uint8_t detail, std::string_view text) {
        begin(category, detail);
        if (text.size() <= sizeof tail_ - 2) {
            append(text.data(), text.size());
            emit();
            return;
        }
        long_tail_.assign(reinterpret_cast<const char*>(tail_), 2);
        long_tail_.append(text);
        give(hash64(long_tail_, seed_));
    }

    void equals(const Value& value) {
        const uint8_t kind = static_cast<uint8_t>(value.kind());
        if (value.kind() == Kind::String || value.type == Type::Bytes) {
            emit_text(Category::Equals, kind, value.s);
            return;
        }
        begin(Category::Equals, kind);
        const bool whole = value.type != Type::Float ||
                           (value.d >= -9223372036854775808.0 && value.d < 9223372036854775808.0 &&
                            value.d == std::floor(value.d));
        const int64_t number = value.type == Type::Float && whole ? static_cast<int64_t>(value.d) : value.i;
        const uint8_t form = whole ? 0 : 1;
        if (value.type == Type::Bool) {
            const uint8_t truth = value.i != 0;
            append(&truth, 1);
        } else {
            append(&form, 1);
            if (whole) append(&number, 8);
            else append(&value.d, 8);
        }
        emit();
    }

    void number(double x) {
        const uint64_t place = ordered_key(x);
        for (uint32_t bits = cell_bits_min; bits <= cell_bits_max; ++bits) {
            const uint32_t cell = static_cast<uint32_t>(place >> (64 - bits));
            begin(Category::Cell, static_cast<uint8_t>(bits));
            append(&cell, 4);
            emit();
        }
        const bool negative = x < 0;
        mark(negative ? Side::Negative : Side::Positive, 0);
        const double size_of = negative ? -x : x;
        for (uint8_t power : mark_powers) {
            const bool above = size_of >= std::ldexp(1.0, power);
            mark(negative ? (above ? Side::Down : Side::DownBelow) : (above ? Side::Up : Side::UpBelow), power);
        }
    }

    void mark(Side side, uint8_t power) {
        begin(Category::Mark, static_cast<uint8_t>(side));
        append(&power, 1);
        emit();
    }

    bool text(std::string_view s) {
        if (count_ + 2 * s.size() > message_elements_max + 3)
            return false;  // runs of two and of three: three fewer than this
        for (size_t n = 1; n <= std::min(edge_bytes_max, s.size()); ++n) {
            emit_text(Category::Begins, static_cast<uint8_t>(n), s.substr(0, n));
            emit_text(Category::Ends, static_cast<uint8_t>(n), s.substr(s.size() - n));
        }
        for (size_t n = 2; n <= 3; ++n)
            for (size_t i = 0; i + n <= s.size(); ++i)
                emit_text(Category::Gram, static_cast<uint8_t>(n), s.substr(i, n));
        return true;
    }

    void topic(std::string_view s) {
        size_t dots = 0;
        for (size_t i = 0; i < s.size() && dots < levels_max; ++i)
            if (s[i] == '.') emit_text(Category::Levels, static_cast<uint8_t>(++dots), s.substr(0, i + 1));
    }

    uint64_t key_;
    Grade grade_;
    Take& take_;
    uint64_t seed_ = 0;
    uint8_t tail_[64];
    size_t size_ = 0, count_ = 0;
    std::string long_tail_;
};

// Made from a message's fixed part, different for nearly every message or nearly the same for all: not worth a
// category.
inline bool unspoken(std::string_view name) {
    return name == "JMSTimestamp" || name == "JMSMessageID" || name == "JMSPriority" || name == "JMSDeliveryMode";
}

class Encoder {
public:
    Encoder(uint32_t bits, uint32_t hashes, uint64_t key, Grade grade)
        : m_(bits),
          k_(hashes),
          key_(key),
          grade_(grade) {
        if (bits == 0 || bits % 64 || bits > 1 << 14 || hashes == 0 || hashes > 64)
            throw UsageError{"E_ENCODING_SHAPE", "this number of bits or hashes is not supported"};
    }

    uint32_t words() const { return m_ / 64; }

    // Calls take(element) for each category the message carries; some may come twice. False if they are too many: then
    // those taken mean nothing, and the message must be taken for one that matches every row.
    template <class Take>
    bool elements(const MessageView& message, Take&& take) const {
        AttributeEncoder<std::remove_reference_t<Take>> attribute(key_, grade_, take);
        for (const Attribute& one : message.attributes.first(message.wire_count + message.reading_count))
            if ((one.name[0] != 'J' || !unspoken(one.name)) && !attribute.encode(one.name, one.value)) return false;
        return attribute.encode(message.flags & MessageView::Queue ? "@queue" : "@topic",
                                Value::string(message.destination));
    }

    // Sets the bits of an element: 16 bits of hash for each, scaled to M.
    void add(uint64_t element, uint64_t* vector) const {
        uint64_t word = 0, sum = element;
        for (uint32_t i = 0; i < k_; ++i) {
            if (i % 4 == 0) word = mix64(sum += 0x9E3779B97F4A7C15ull);
            const uint32_t position = static_cast<uint32_t>((word & 0xFFFF) * m_ >> 16);
            word >>= 16;
            vector[position / 64] |= 1ull << (position & 63);
        }
    }

    // `out` has words() words, all zero. All bits are set if the elements are too many.
    void vector(const MessageView& message, uint64_t* out) const {
        if (!elements(message, [&](uint64_t element) { add(element, out); })) std::fill_n(out, words(), ~uint64_t{0});
    }

private:
    uint32_t m_, k_;
    uint64_t key_;
    Grade grade_;
};

}  // namespace tidings
