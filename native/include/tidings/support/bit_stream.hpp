// Streams of bits, the lowest of each byte first, with Rice codes: a number as its quotient by 2^k in ones and a zero, then
// its last k bits. Numbers too large for that follow `escape` ones as 64 bits.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tidings/support/simd.hpp"

namespace tidings {

struct Rice {
    static constexpr uint32_t escape = 24, parameter_bits = 6;
    static constexpr uint64_t parameters = 1u << parameter_bits;
};

// Numbers by their lengths, to choose the parameter of their codes.
class RiceLengths {
public:
    TIDINGS_INLINE void add(uint64_t value) { ++of_length_[static_cast<size_t>(std::bit_width(value))]; }

    // About how many bits the numbers take with this parameter.
    uint64_t bits(uint32_t parameter) const {
        uint64_t sum = 0;
        for (uint32_t length = 0; length < of_length_.size(); ++length) {
            if (of_length_[length] == 0) continue;
            const uint64_t middle = length < 2 ? length : 3ull << (length - 2), quotient = middle >> parameter;
            sum += of_length_[length] * (quotient < Rice::escape ? quotient + 1 + parameter : Rice::escape + 64);
        }
        return sum;
    }

    uint32_t best() const {
        uint32_t found = 0;
        for (uint32_t parameter = 1; parameter < Rice::parameters; ++parameter)
            if (bits(parameter) < bits(found)) found = parameter;
        return found;
    }

private:
    std::array<uint64_t, 65> of_length_{};
};

class BitWriter {
public:
    // At most 32 bits.
    TIDINGS_INLINE void put(uint64_t value, uint32_t bits) {
        word_ |= value << filled_;
        filled_ += bits;
        if (filled_ < 32) return;
        if (used_ + 4 > out_.size()) [[unlikely]]
            out_.resize(2 * out_.size() + 64);
        const auto low = static_cast<uint32_t>(word_);
        std::memcpy(out_.data() + used_, &low, 4);
        used_ += 4;
        word_ >>= 32;
        filled_ -= 32;
    }

    TIDINGS_INLINE void put_long(uint64_t value, uint32_t bits) {
        if (bits > 32) {
            put(value & UINT32_MAX, 32);
            value >>= 32, bits -= 32;
        }
        put(value, bits);
    }

    TIDINGS_INLINE void rice(uint64_t value, uint32_t parameter) {
        const uint64_t quotient = value >> parameter;
        if (quotient >= Rice::escape) [[unlikely]] {
            put((1ull << Rice::escape) - 1, Rice::escape);
            return put_long(value, 64);
        }
        const uint64_t last = value & ((1ull << parameter) - 1), ones = (1ull << quotient) - 1;
        const auto head = static_cast<uint32_t>(quotient) + 1;
        if (head + parameter <= 32) [[likely]]
            return put(ones | last << head, head + parameter);
        put(ones, head);
        put_long(last, parameter);
    }

    // Zeros fill the last byte.
    std::string take() {
        for (; filled_ > 0; filled_ -= std::min(filled_, 8u), word_ >>= 8) {
            if (used_ == out_.size()) out_.resize(used_ + 8);
            out_[used_++] = static_cast<char>(word_);
        }
        out_.resize(used_);
        return std::move(out_);
    }

private:
    std::string out_;
    size_t used_ = 0;
    uint64_t word_ = 0;
    uint32_t filled_ = 0;
};

// Beyond the end there are zeros, then `over` is true.
class BitReader {
public:
    explicit BitReader(std::string_view data) : data_(data) {}

    size_t byte() const { return (at_ + 7) / 8; }
    bool over() const { return byte() > data_.size(); }

    // True if nothing but zeros in the last byte follows.
    bool at_end() const { return byte() == data_.size() && (at_ % 8 == 0 || look() == 0); }

    // At most 32 bits.
    TIDINGS_INLINE uint64_t get(uint32_t bits) {
        const uint64_t value = look() & ((1ull << bits) - 1);
        at_ += bits;
        return value;
    }

    uint64_t get_long(uint32_t bits) {
        if (bits <= 32) return get(bits);
        const uint64_t low = get(32);
        return low | get(bits - 32) << 32;
    }

    TIDINGS_INLINE uint64_t rice(uint32_t parameter) {
        const auto quotient = static_cast<uint32_t>(std::countr_one(look()));
        if (quotient >= Rice::escape) [[unlikely]] {
            at_ += Rice::escape;
            return get_long(64);
        }
        at_ += quotient + 1;
        const uint64_t last = get_long(parameter);
        return (uint64_t{quotient} << parameter) | last;
    }

private:
    // At least 57 bits from here on.
    TIDINGS_INLINE uint64_t look() const {
        uint64_t word = 0;
        const size_t from = at_ / 8;
        if (from + 8 <= data_.size()) [[likely]]
            std::memcpy(&word, data_.data() + from, 8);
        else if (from < data_.size()) std::memcpy(&word, data_.data() + from, data_.size() - from);
        return word >> (at_ % 8);
    }

    std::string_view data_;
    size_t at_ = 0;
};

}  // namespace tidings
