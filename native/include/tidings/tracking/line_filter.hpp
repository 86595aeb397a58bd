// A Bloom filter of cache lines: an id sets one bit in each of the eight words of a line, and of a second line in the other
// half of the filter. Two misses of the cache an id, whatever the size, and all bits of a line at once in vectors. For
// the same error it takes 7 % more room than bits that lie anywhere (k = 16), and a quarter of the time.
//
// It is built when its ids are known, with room for just these. The seed is of the broker and the kind of history: what one
// filter claims wrongly, another need not. docs/wire.md, "Line filter", has the bytes.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/support/error.hpp"
#include "tidings/support/hash.hpp"
#include "tidings/support/simd.hpp"

namespace tidings {

class LineFilter {
public:
    static constexpr size_t id_bytes = 16, line_words = 8, line_bytes = line_words * 8, header_bytes = 32;
    static constexpr uint64_t tenths_of_bits = 277;  // an id, for an error of 4e-6
    static constexpr uint64_t lines_max = 1ull << 26;

    // For this number of ids, which are to be added.
    LineFilter(uint64_t ids, uint64_t seed) : LineFilter(lines_for(ids), ids, seed) {}

    static uint64_t lines_for(uint64_t ids) {
        if (ids > lines_max) throw UsageError{"E_LINES_SIZE", "a line filter takes at most 2^26 ids"};
        return std::max<uint64_t>((ids * tenths_of_bits + 10'239) / 10'240, 1);
    }
    static uint64_t bytes_for(uint64_t ids) { return header_bytes + lines_for(ids) * 2 * line_bytes; }

    uint64_t count() const { return count_; }
    uint64_t seed() const { return seed_; }
    uint64_t lines() const { return lines_; }
    uint64_t memory_bytes() const { return sizeof *this + words_.capacity() * 8; }

    void add(const uint8_t* ids, size_t n) {
#if defined(TIDINGS_X86)
        if (simd_best() == Simd::Avx512) return add_avx512(ids, n);
        if (simd_best() == Simd::Avx2) return add_avx2(ids, n);
#endif
        add_each(ids, n);
    }

    // found[i] = 1 if id i may have been added, 0 if it certainly was not.
    void contains(const uint8_t* ids, size_t n, uint8_t* found) const {
        for (size_t i = 0; i < n; ++i) {
            Place place;
            find_place(ids + i * id_bytes, place);
            found[i] = covers(place.line, place.bits) && covers(lines_ + place.other_line, place.other_bits);
        }
    }

    // With as many ids as were added: both lines of an absent one must be full where it looks. Lines have different
    // numbers of ids, as if these were thrown in.
    double fpp() const {
        const double load = static_cast<double>(count_) / static_cast<double>(lines_);
        double wrong = 0, share = std::exp(-load);
        if (share == 0) return 1;  // far beyond what it has room for
        for (double ids = 0; ids < 2 * load + 100; share *= load / ++ids)
            wrong += share * std::pow(1 - std::pow(63.0 / 64, ids), static_cast<double>(line_words));
        return std::min(wrong * wrong, 1.0);
    }

    std::string encode() const {
        std::string out(header_bytes, '\0');
        const uint32_t lines = static_cast<uint32_t>(lines_);
        std::memcpy(out.data(), "TLF1", 4);
        std::memcpy(out.data() + 4, &lines, 4);
        std::memcpy(out.data() + 8, &count_, 8);
        std::memcpy(out.data() + 16, &seed_, 8);
        return out.append(reinterpret_cast<const char*>(words_.data()), words_.size() * 8);
    }

    static LineFilter decode(std::string_view data) {
        if (data.size() < header_bytes)
            throw CodecError{"E_LINES_SHORT", "a line filter has a header of 32 bytes", data.size()};
        if (data.substr(0, 4) != "TLF1") throw CodecError{"E_LINES_MAGIC", "not a line filter", 0};
        uint32_t lines;
        uint64_t count, seed, reserved;
        std::memcpy(&lines, data.data() + 4, 4);
        std::memcpy(&count, data.data() + 8, 8);
        std::memcpy(&seed, data.data() + 16, 8);
        std::memcpy(&reserved, data.data() + 24, 8);
        if (lines == 0 || lines > lines_max)
            throw CodecError{"E_LINES_SIZE", "the number of lines is not from 1 to 2^26", 4};
        if (reserved) throw CodecError{"E_LINES_RESERVED", "reserved bytes are not zero", 24};
        if (data.size() != header_bytes + uint64_t{lines} * 2 * line_bytes)
            throw CodecError{"E_LINES_LENGTH", "not as many bytes as the header says", data.size()};
        LineFilter filter(lines, count, seed);
        std::memcpy(filter.words_.data(), data.data() + header_bytes, filter.words_.size() * 8);
        return filter;
    }

private:
    using Line = uint64_t __attribute__((vector_size(line_bytes)));
    struct Place {
        uint64_t line, other_line;  // the second counted from the middle
        Line bits, other_bits;
    };

    LineFilter(uint64_t lines, uint64_t count, uint64_t seed)
        : lines_(lines),
          count_(count),
          seed_(seed),
          words_(lines * 2 * line_words) {}

    // One bit in each word, from one hash: its product with an odd number for each word.
    static TIDINGS_INLINE void bits_of(uint64_t h, Line& bits) {
        constexpr Line factors = {0x47B6137B44974D91, 0x8824AD5BA2B7289D, 0x705495C72DF1424B, 0x9EFC49475C6BFB31,
                                  0xA2B7289D8824AD5B, 0x44974D9147B6137B, 0x2DF1424B705495C7, 0x5C6BFB319EFC4947};
        const Line hashes = Line{} + h;
        const Line one = Line{} + 1;
        bits = one << (hashes * factors >> 58);
    }

    TIDINGS_INLINE void find_place(const uint8_t* id, Place& place) const {
        const uint64_t h = hash64(id, id_bytes, seed_), g = mix64(h);
        const auto line = [this](uint64_t hash) {
            return static_cast<uint64_t>(static_cast<unsigned __int128>(hash) * lines_ >> 64);
        };
        place.line = line(h), place.other_line = line(g);
        bits_of(fold_multiply(h, 0x9E3779B97F4A7C15), place.bits);
        bits_of(fold_multiply(g, 0xD6E8FEB86659FD93), place.other_bits);
    }

    TIDINGS_INLINE void set(uint64_t line, const Line& bits) {
        Line now;
        uint64_t* const at = &words_[line * line_words];
        std::memcpy(&now, at, line_bytes);
        now |= bits;
        std::memcpy(at, &now, line_bytes);
    }

    bool covers(uint64_t line, const Line& bits) const {
        const uint64_t* const at = &words_[line * line_words];
        uint64_t missing = 0;
        for (size_t i = 0; i < line_words; ++i) missing |= bits[i] & ~at[i];
        return missing == 0;
    }

    TIDINGS_TARGET_AVX512 void add_avx512(const uint8_t* ids, size_t n) { add_each(ids, n); }
    TIDINGS_TARGET_AVX2 void add_avx2(const uint8_t* ids, size_t n) { add_each(ids, n); }
    TIDINGS_INLINE void add_each(const uint8_t* ids, size_t n) {
        for (size_t i = 0; i < n; ++i) {
            Place place;
            find_place(ids + i * id_bytes, place);
            set(place.line, place.bits);
            set(lines_ + place.other_line, place.other_bits);
        }
    }

    uint64_t lines_, count_, seed_;
    std::vector<uint64_t> words_;
};

}  // namespace tidings
