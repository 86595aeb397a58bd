// A Bloom filter over 16-byte message ids (docs/wire.md, "Bloom filter"): k positions an id from one hash.
//
// A filter that fits in the cache is bound by arithmetic, a larger one by memory. Both are served by working on groups
// of ids: the positions of a whole group are computed and prefetched before the first of them is touched, so that
// cache misses overlap instead of queueing. A test looks at two positions first; at the usual fill of one half three
// quarters of the absent ids end there.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/support/error.hpp"
#include "tidings/support/hash.hpp"

namespace tidings {

class Bloom {
public:
    static constexpr uint64_t id_bytes = 16;
    static constexpr uint64_t header_bytes = 24, seed_bytes = 8;
    static constexpr uint64_t bits_max = 1ull << 36;
    static constexpr uint32_t hashes_max = 64;

    // The positions of one id, in order. Steps grow: with equal ones (double hashing) walks that touch in two places
    // lie on each other in many, which at k = 16 in 65536 bits was half as many false positives again
    // (bench/false_positives.py).
    struct Walk {
        uint64_t h, step, growth;
        Walk() = default;
        Walk(const uint8_t* id, uint64_t seed) : h(hash64(id, id_bytes, seed)), step(mix64(h)), growth(mix64(step)) {}
        uint64_t next(uint64_t m) {
            const auto product = static_cast<unsigned __int128>(h) * m;
            advance();
            return static_cast<uint64_t>(product >> 64);
        }
        void advance() {
            h += step;
            step += growth;
        }
    };

    // Filters of different seeds err independently of each other.
    Bloom(uint64_t bits, uint32_t hashes, uint64_t seed = 0) : m_(bits), k_(hashes), seed_(seed) {
        if (bits == 0 || bits % 64 || bits > bits_max)
            throw UsageError{"E_BLOOM_SIZE", "m is not a multiple of 64 from 64 to 2^36"};
        if (hashes == 0 || hashes > hashes_max) throw UsageError{"E_BLOOM_HASHES", "k is not from 1 to 64"};
        words_.assign(bits / 64, 0);
    }

    uint64_t bits() const { return m_; }
    uint32_t hashes() const { return k_; }
    uint64_t seed() const { return seed_; }
    uint64_t count() const { return added_; }
    uint64_t memory_bytes() const { return sizeof *this + words_.capacity() * 8; }

    void add(const uint8_t* ids, size_t n) {
        for (size_t start = 0; start < n; start += group_size) {
            const size_t size = std::min(group_size, n - start);
            Walk walks[group_size];
            for (size_t i = 0; i < size; ++i) {
                walks[i] = Walk(ids + (start + i) * id_bytes, seed_);
                if (large()) prefetch(walks[i], k_);
            }
            for (size_t i = 0; i < size; ++i) {
                Walk walk = walks[i];
                for (uint32_t j = 0; j < k_; ++j) {
                    const uint64_t p = walk.next(m_);
                    words_[p >> 6] |= 1ull << (p & 63);
                }
            }
        }
        added_ = saturating_add(added_, n);
    }

    // The k positions of one id, `stride` apart; `Shifted`: of a filter 2^shift times as large. `count_more` says how
    // many ids that were.
    template <bool Shifted>
    void set(const uint32_t* positions, size_t stride, uint32_t shift) {
        uint64_t* const data = words_.data();
        const auto at = [=](uint32_t position) { return Shifted ? position >> shift : position; };
        uint32_t left = k_;
        for (; left >= 4; left -= 4, positions += 4 * stride)  // unrolled: there is little else in this loop
            for (uint32_t j = 0; j < 4; ++j) set_bit(data, at(positions[j * stride]));
        for (; left; --left, positions += stride) set_bit(data, at(*positions));
    }
    void count_more(uint64_t ids) { added_ = saturating_add(added_, ids); }

    void clear() {
        std::fill(words_.begin(), words_.end(), 0);
        added_ = 0;
    }

    // found[i] = 1 if id i may have been added, 0 if it certainly was not.
    void contains(const uint8_t* ids, size_t n, uint8_t* found) const {
        const uint32_t first = std::min(k_, first_tests);
        for (size_t start = 0; start < n; start += group_size) {
            const size_t size = std::min(group_size, n - start);
            Walk walks[group_size];
            for (size_t i = 0; i < size; ++i) {
                walks[i] = Walk(ids + (start + i) * id_bytes, seed_);
                if (large()) prefetch(walks[i], first);
            }
            for (size_t i = 0; i < size; ++i) {
                found[start + i] = all_set(walks[i], first);
                if (large() && found[start + i]) prefetch(walks[i], k_ - first);
            }
            for (size_t i = 0; i < size; ++i)
                if (found[start + i]) found[start + i] = all_set_or_stop(walks[i], k_ - first);
        }
    }

    void unite(const Bloom& other) {
        if (other.m_ != m_ || other.k_ != k_)
            throw UsageError{"E_BLOOM_MISMATCH", "filters of (m, k) = (" + std::to_string(m_) + ", " +
                                                     std::to_string(k_) + ") and (" + std::to_string(other.m_) + ", " +
                                                     std::to_string(other.k_) + ") have no union"};
        if (other.seed_ != seed_) throw UsageError{"E_BLOOM_MISMATCH", "filters of different seeds have no union"};
        for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
        added_ = saturating_add(added_, other.added_);
    }

    double fill() const {
        uint64_t ones = 0;
        for (uint64_t word : words_) ones += static_cast<uint64_t>(std::popcount(word));
        return static_cast<double>(ones) / static_cast<double>(m_);
    }

    uint64_t serialised_bytes() const { return header_size() + words_.size() * 8; }

    void serialise(uint8_t* out) const {
        serialise_header(out);
        std::memcpy(out + header_size(), words_.data(), words_.size() * 8);
    }

    std::string to_string() const {
        std::string out;
        out.reserve(serialised_bytes());
        out.append(header_size(), '\0');
        serialise_header(reinterpret_cast<uint8_t*>(out.data()));
        return out.append(reinterpret_cast<const char*>(words_.data()), words_.size() * 8);
    }

    // The size is checked against the bytes that are there before anything is allocated.
    static Bloom parse(std::string_view data) {
        if (data.size() < header_bytes)
            throw CodecError{"E_BLOOM_SHORT", "a Bloom filter has a header of 24 bytes", data.size()};
        const bool seeded = data.substr(0, 4) == "TBF3";
        if (!seeded && data.substr(0, 4) != "TBF2") throw CodecError{"E_BLOOM_MAGIC", "not a Bloom filter", 0};
        if (seeded && data.size() < header_bytes + seed_bytes)
            throw CodecError{"E_BLOOM_SHORT", "a Bloom filter with a seed has a header of 32 bytes", data.size()};
        uint32_t hashes;
        uint64_t bits, count, seed = 0;
        std::memcpy(&hashes, data.data() + 4, 4);
        std::memcpy(&bits, data.data() + 8, 8);
        std::memcpy(&count, data.data() + 16, 8);
        if (seeded) std::memcpy(&seed, data.data() + header_bytes, seed_bytes);
        if (seeded && seed == 0) throw CodecError{"E_BLOOM_SEED", "a filter with the seed 0 is written without it", 24};
        if (hashes == 0 || hashes > hashes_max) throw CodecError{"E_BLOOM_HASHES", "k is not from 1 to 64", 4};
        if (bits == 0 || bits % 64 || bits > bits_max)
            throw CodecError{"E_BLOOM_SIZE", "m is not a multiple of 64 from 64 to 2^36", 8};
        const uint64_t header = header_bytes + (seeded ? seed_bytes : 0), expected = header + bits / 8;
        if (data.size() < expected) throw CodecError{"E_BLOOM_SHORT", "fewer bits than the header says", data.size()};
        if (data.size() > expected) throw CodecError{"E_BLOOM_LONG", "bytes after the last bit", expected};
        Bloom filter(bits, hashes, seed);
        std::memcpy(filter.words_.data(), data.data() + header, bits / 8);
        filter.added_ = count;
        return filter;
    }

private:
    static constexpr size_t group_size = 32;
    static constexpr uint32_t first_tests = 2;
    static constexpr uint64_t large_words = 1 << 15;  // 256 KiB: beyond it misses cost more than prefetches

    static uint64_t saturating_add(uint64_t a, uint64_t b) { return a + b < a ? ~0ull : a + b; }

    static void set_bit(uint64_t* data, uint32_t p) { data[p >> 6] |= 1ull << (p & 63); }

    void serialise_header(uint8_t* out) const {
        std::memcpy(out, seed_ ? "TBF3" : "TBF2", 4);
        std::memcpy(out + 4, &k_, 4);
        std::memcpy(out + 8, &m_, 8);
        std::memcpy(out + 16, &added_, 8);
        if (seed_) std::memcpy(out + header_bytes, &seed_, seed_bytes);
    }

    uint64_t header_size() const { return header_bytes + (seed_ ? seed_bytes : 0); }

    bool large() const { return words_.size() > large_words; }

    bool bit(uint64_t p) const { return words_[p >> 6] >> (p & 63) & 1; }

    void prefetch(Walk walk, uint32_t positions) const {
        for (uint32_t j = 0; j < positions; ++j) __builtin_prefetch(&words_[walk.next(m_) >> 6]);
    }

    bool all_set(Walk& walk, uint32_t tests) const {
        bool all = true;
        for (uint32_t j = 0; j < tests; ++j) all &= bit(walk.next(m_));
        return all;
    }

    bool all_set_or_stop(Walk walk, uint32_t tests) const {
        for (uint32_t j = 0; j < tests; ++j)
            if (!bit(walk.next(m_))) return false;
        return true;
    }

    uint64_t m_;
    uint32_t k_;
    uint64_t seed_;
    uint64_t added_ = 0;
    std::vector<uint64_t> words_;
};

}  // namespace tidings
