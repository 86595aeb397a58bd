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
    static constexpr uint64_t IdBytes = 16;
    static constexpr uint64_t HeaderBytes = 24;
    static constexpr uint64_t BitsMax = 1ull << 36;
    static constexpr uint32_t HashesMax = 64;

    // The positions of one id, in order. Steps grow: with equal ones (double hashing) walks that touch in two places lie on each
    // other in many, which at k = 16 in 65536 bits was half as many false positives again (bench/false_positives.py).
    struct Walk {
        uint64_t h, step, growth;
        Walk() = default;
        explicit Walk(const uint8_t* id) : h(hash64(id, IdBytes, 0)), step(mix64(h)), growth(mix64(step)) {}
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

    Bloom(uint64_t bits, uint32_t hashes) : m(bits), k(hashes) {
        if (bits == 0 || bits % 64 || bits > BitsMax)
            throw UsageError{"E_BLOOM_SIZE", "m is not a multiple of 64 from 64 to 2^36"};
        if (hashes == 0 || hashes > HashesMax) throw UsageError{"E_BLOOM_HASHES", "k is not from 1 to 64"};
        words.assign(bits / 64, 0);
    }

    uint64_t bits() const { return m; }
    uint32_t hashes() const { return k; }
    uint64_t count() const { return added; }
    uint64_t memory_bytes() const { return sizeof *this + words.capacity() * 8; }

    void add(const uint8_t* ids, size_t n) {
        for (size_t start = 0; start < n; start += Group) {
            const size_t size = std::min(Group, n - start);
            Walk walks[Group];
            for (size_t i = 0; i < size; ++i) {
                walks[i] = Walk(ids + (start + i) * IdBytes);
                if (large()) prefetch(walks[i], k);
            }
            for (size_t i = 0; i < size; ++i) {
                Walk walk = walks[i];
                for (uint32_t j = 0; j < k; ++j) {
                    const uint64_t p = walk.next(m);
                    words[p >> 6] |= 1ull << (p & 63);
                }
            }
        }
        added = saturating_add(added, n);
    }

    // The k positions of one id, `stride` apart; `Shifted`: of a filter 2^shift times as large. `count_more` says how many ids that were.
    template <bool Shifted>
    void set(const uint32_t* positions, size_t stride, uint32_t shift) {
        uint64_t* const data = words.data();
        const auto at = [=](uint32_t position) { return Shifted ? position >> shift : position; };
        uint32_t left = k;
        for (; left >= 4; left -= 4, positions += 4 * stride)  // unrolled: there is little else in this loop
            for (uint32_t j = 0; j < 4; ++j) set_bit(data, at(positions[j * stride]));
        for (; left; --left, positions += stride) set_bit(data, at(*positions));
    }
    void count_more(uint64_t ids) { added = saturating_add(added, ids); }

    void clear() {
        std::fill(words.begin(), words.end(), 0);
        added = 0;
    }

    // found[i] = 1 if id i may have been added, 0 if it certainly was not.
    void contains(const uint8_t* ids, size_t n, uint8_t* found) const {
        const uint32_t first = std::min(k, FirstTests);
        for (size_t start = 0; start < n; start += Group) {
            const size_t size = std::min(Group, n - start);
            Walk walks[Group];
            for (size_t i = 0; i < size; ++i) {
                walks[i] = Walk(ids + (start + i) * IdBytes);
                if (large()) prefetch(walks[i], first);
            }
            for (size_t i = 0; i < size; ++i) {
                found[start + i] = all_set(walks[i], first);
                if (large() && found[start + i]) prefetch(walks[i], k - first);
            }
            for (size_t i = 0; i < size; ++i)
                if (found[start + i]) found[start + i] = all_set_or_stop(walks[i], k - first);
        }
    }

    void unite(const Bloom& other) {
        if (other.m != m || other.k != k)
            throw UsageError{"E_BLOOM_MISMATCH", "filters of (m, k) = (" + std::to_string(m) + ", " + std::to_string(k) +
                               ") and (" + std::to_string(other.m) + ", " + std::to_string(other.k) + ") have no union"};
        for (size_t i = 0; i < words.size(); ++i) words[i] |= other.words[i];
        added = saturating_add(added, other.added);
    }

    double fill() const {
        uint64_t ones = 0;
        for (uint64_t word : words) ones += static_cast<uint64_t>(std::popcount(word));
        return static_cast<double>(ones) / static_cast<double>(m);
    }

    uint64_t serialised_bytes() const { return HeaderBytes + words.size() * 8; }

    void serialise(uint8_t* out) const {
        serialise_header(out);
        std::memcpy(out + HeaderBytes, words.data(), words.size() * 8);
    }

    std::string to_string() const {
        std::string out;
        out.reserve(serialised_bytes());
        out.append(HeaderBytes, '\0');
        serialise_header(reinterpret_cast<uint8_t*>(out.data()));
        return out.append(reinterpret_cast<const char*>(words.data()), words.size() * 8);
    }

    // The size is checked against the bytes that are there before anything is allocated.
    static Bloom parse(std::string_view data) {
        if (data.size() < HeaderBytes)
            throw CodecError{"E_BLOOM_SHORT", "a Bloom filter has a header of 24 bytes", data.size()};
        if (data.substr(0, 4) != "TBF2") throw CodecError{"E_BLOOM_MAGIC", "not a Bloom filter", 0};
        uint32_t hashes;
        uint64_t bits, count;
        std::memcpy(&hashes, data.data() + 4, 4);
        std::memcpy(&bits, data.data() + 8, 8);
        std::memcpy(&count, data.data() + 16, 8);
        if (hashes == 0 || hashes > HashesMax) throw CodecError{"E_BLOOM_HASHES", "k is not from 1 to 64", 4};
        if (bits == 0 || bits % 64 || bits > BitsMax)
            throw CodecError{"E_BLOOM_SIZE", "m is not a multiple of 64 from 64 to 2^36", 8};
        const uint64_t expected = HeaderBytes + bits / 8;
        if (data.size() < expected) throw CodecError{"E_BLOOM_SHORT", "fewer bits than the header says", data.size()};
        if (data.size() > expected) throw CodecError{"E_BLOOM_LONG", "bytes after the last bit", expected};
        Bloom filter(bits, hashes);
        std::memcpy(filter.words.data(), data.data() + HeaderBytes, bits / 8);
        filter.added = count;
        return filter;
    }

private:
    static constexpr size_t Group = 32;
    static constexpr uint32_t FirstTests = 2;
    static constexpr uint64_t LargeWords = 1 << 15;  // 256 KiB: beyond it misses cost more than prefetches

    static uint64_t saturating_add(uint64_t a, uint64_t b) { return a + b < a ? ~0ull : a + b; }

    static void set_bit(uint64_t* data, uint32_t p) { data[p >> 6] |= 1ull << (p & 63); }

    void serialise_header(uint8_t* out) const {
        std::memcpy(out, "TBF2", 4);
        std::memcpy(out + 4, &k, 4);
        std::memcpy(out + 8, &m, 8);
        std::memcpy(out + 16, &added, 8);
    }

    bool large() const { return words.size() > LargeWords; }

    bool bit(uint64_t p) const { return words[p >> 6] >> (p & 63) & 1; }

    void prefetch(Walk walk, uint32_t positions) const {
        for (uint32_t j = 0; j < positions; ++j) __builtin_prefetch(&words[walk.next(m) >> 6]);
    }

    bool all_set(Walk& walk, uint32_t tests) const {
        bool all = true;
        for (uint32_t j = 0; j < tests; ++j) all &= bit(walk.next(m));
        return all;
    }

    bool all_set_or_stop(Walk walk, uint32_t tests) const {
        for (uint32_t j = 0; j < tests; ++j)
            if (!bit(walk.next(m))) return false;
        return true;
    }

    uint64_t m;
    uint32_t k;
    uint64_t added = 0;
    std::vector<uint64_t> words;
};

}  // namespace tidings
