// Ids that wait to be put into filters together, and their positions in a filter, computed once for all that take them.
//
// Positions are of one chunk of the arena at a time, or they would not stay in the nearest cache. They are computed
// side by side for as many ids as vectors hold: `h`, `step` and `growth` of bloom.hpp's walk are columns, and so is the
// result: position j of slot s is at `positions[j * chunk + s]`, counted from the chunk's first slot.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tidings/support/simd.hpp"
#include "tidings/tracking/bloom.hpp"

namespace tidings {

// Some of a chunk's slots: those in a list or, which is what mostly happens, some in a row.
struct Slots {
    const uint16_t* list = nullptr;
    uint32_t first = 0, count = 0;

    uint32_t operator[](size_t i) const { return list ? list[i] : first + static_cast<uint32_t>(i); }
    Slots head(size_t size) const { return {list, first, static_cast<uint32_t>(size)}; }
    Slots tail(size_t from) const {
        const auto skipped = static_cast<uint32_t>(from);
        return {list ? list + from : nullptr, first + skipped, count - skipped};
    }
};

class IdArena {
public:
    static constexpr size_t id_bytes = Bloom::id_bytes;
    static constexpr uint32_t slots =
        512;  // filters push what is needed on the way of a message out of the cache: not too often
    static constexpr uint32_t chunk = 128;

    using Id = std::array<uint64_t, 2>;  // as it lies in a message
    struct Times {
        int64_t oldest, newest;
    };

    // `bits` 0: they are kept as they are, positions are not computed.
    IdArena(uint64_t bits, uint32_t hashes)
        : bits_(bits),
          hashes_(hashes),
          positions_(bits ? size_t{chunk} * hashes : 0) {}

    bool empty() const { return used == 0; }
    bool full() const { return used == slots; }
    // In words: a call of memcmp for every delivery takes longer than the rest of it.
    bool ends_with(const Id& id) const { return used && ids[used - 1] == id; }

    uint32_t add(const Id& id) {
        ids[used] = id;
        return used++;
    }

    const uint8_t* bytes(uint32_t slot) const { return reinterpret_cast<const uint8_t*>(&ids[slot]); }

    // The times at which the ids were made; unknown before.
    void read_times() {
#if defined(TIDINGS_X86)
        if (simd_best() == Simd::Avx512) return read_avx512();
        if (simd_best() == Simd::Avx2) return read_avx2();
#endif
        read_columns();
    }

    Times times_of(const Slots& some) const {
        const uint32_t begin = some.first / chunk * chunk;
        if (!some.list && some.first == begin && some.count == std::min(chunk, used - begin))
            return spans_[begin / chunk];
        Times found{INT64_MAX, INT64_MIN};
        for (uint32_t i = 0; i < some.count; ++i) {
            found.oldest = std::min(found.oldest, times[some[i]]);
            found.newest = std::max(found.newest, times[some[i]]);
        }
        return found;
    }

    int64_t oldest_ms() const {
        return std::min_element(spans_.begin(), spans_.begin() + (used + chunk - 1) / chunk,
                                [](const Times& one, const Times& other) { return one.oldest < other.oldest; })
            ->oldest;
    }

    // Of the chunk that begins here, in filters with this seed.
    void find_positions(uint32_t first, uint64_t seed) {
        begin_ = first;
        seed_ = seed;
        if (bits_ == 0) return;
        if (!std::has_single_bit(bits_)) return find_each();
#if defined(TIDINGS_X86)
        if (simd_best() == Simd::Avx512) return find_avx512();
        if (simd_best() == Simd::Avx2) return find_avx2();
#endif
        find_columns();
    }

    // Set the bits of these ids in a filter of the arena's shape, or in one smaller by a power of two: its positions
    // are the arena's without their last bits.
    void set(Bloom& filter, const Slots& some, uint32_t halvings) const {
        if (halvings) set_each<true>(filter, some, halvings);
        else set_each<false>(filter, some, 0);
        filter.count_more(some.count);
    }

    size_t memory_bytes() const { return positions_.size() * sizeof(uint32_t); }

    uint32_t used = 0;
    std::array<Id, slots> ids{};
    std::array<int64_t, slots> times{};

private:
    static constexpr uint32_t lanes = 8;
    using Words = uint64_t __attribute__((vector_size(lanes * 8)));
    using Halves = uint32_t __attribute__((vector_size(lanes * 8)));
    static_assert(slots % chunk == 0 && chunk % (2 * lanes) == 0);

    TIDINGS_TARGET_AVX512 void read_avx512() { read_columns(); }
    TIDINGS_TARGET_AVX2 void read_avx2() { read_columns(); }
    TIDINGS_INLINE void read_columns() {
        for (uint32_t begin = 0; begin < used; begin += chunk) {
            const uint32_t end = std::min(begin + chunk, used);
            Times found{INT64_MAX, INT64_MIN};
            for (uint32_t slot = begin; slot < end; ++slot) {
                const auto time = static_cast<int64_t>(__builtin_bswap64(ids[slot][1]) >> 16);
                times[slot] = time;
                found.oldest = std::min(found.oldest, time);
                found.newest = std::max(found.newest, time);
            }
            spans_[begin / chunk] = found;
        }
    }

    TIDINGS_TARGET_AVX512 void find_avx512() { find_columns(); }
    TIDINGS_TARGET_AVX2 void find_avx2() { find_columns(); }

    // For a number of bits that is a power of two: the highest bits of h, without a product. In vector types: compilers
    // leave this loop scalar, at three times the time.
    TIDINGS_INLINE void find_columns() {
        const int shift = 32 - std::countr_zero(bits_);
        const uint32_t size = std::min(chunk, used - begin_), hashes = hashes_;
        alignas(64) std::array<uint64_t, chunk> h, step, growth;
        for (uint32_t i = 0; i < size; ++i) h[i] = hash64(bytes(begin_ + i), id_bytes, seed_);
        std::fill(h.begin() + size, h.end(), 0);
        for (uint32_t first = 0; first < size; first += lanes) {
            Words mixed;
            std::memcpy(&mixed, &h[first], sizeof mixed);
            mix64_of(mixed);
            std::memcpy(&step[first], &mixed, sizeof mixed);
            mix64_of(mixed);
            std::memcpy(&growth[first], &mixed, sizeof mixed);
        }
        for (uint32_t first = 0; first < size; first += 2 * lanes) {
            Columns low, high;
            low.begin(&h[first], &step[first], &growth[first]);
            high.begin(&h[first + lanes], &step[first + lanes], &growth[first + lanes]);
            uint32_t* out = &positions_[first];
#pragma GCC unroll 4
            for (uint32_t j = 0; j < hashes; ++j, out += chunk) {
                // the upper half of every word
                const Halves upper = __builtin_shufflevector((Halves)low.h, (Halves)high.h, 1, 3, 5, 7, 9, 11, 13, 15,
                                                             17, 19, 21, 23, 25, 27, 29, 31);
                const Halves found = upper >> shift;
                std::memcpy(out, &found, sizeof found);
                low.advance();
                high.advance();
            }
        }
    }

    struct Columns {
        Words h, step, growth;
        TIDINGS_INLINE void begin(const uint64_t* hashes, const uint64_t* s, const uint64_t* g) {
            std::memcpy(&h, hashes, sizeof h);
            std::memcpy(&step, s, sizeof h);
            std::memcpy(&growth, g, sizeof h);
        }
        TIDINGS_INLINE void advance() {
            h += step;
            step += growth;
        }
    };

    template <bool Shifted>
    void set_each(Bloom& filter, const Slots& some, uint32_t halvings) const {
        const uint32_t* const positions = positions_.data() - begin_;
        if (some.list)
            for (uint32_t i = 0; i < some.count; ++i) filter.set<Shifted>(positions + some.list[i], chunk, halvings);
        else
            for (uint32_t i = 0; i < some.count; ++i) filter.set<Shifted>(positions + some.first + i, chunk, halvings);
    }

    void find_each() {
        for (uint32_t slot = begin_, end = std::min(begin_ + chunk, used); slot < end; ++slot) {
            Bloom::Walk walk(bytes(slot), seed_);
            for (uint32_t j = 0; j < hashes_; ++j)
                positions_[size_t{j} * chunk + slot - begin_] = static_cast<uint32_t>(walk.next(bits_));
        }
    }

    const uint64_t bits_;
    const uint32_t hashes_;
    uint32_t begin_ = 0;  // of the chunk that positions are of
    uint64_t seed_ = 0;
    std::array<Times, slots / chunk> spans_{};  // of each chunk
    std::vector<uint32_t> positions_;
};

}  // namespace tidings
