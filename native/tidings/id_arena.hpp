// Ids that wait to be put into filters together, and their positions in a filter, computed once for all that take them.
//
// Positions are computed side by side for as many ids as a vector holds: `h`, `step` and `growth` of bloom.hpp's walk are columns,
// and so is the result: position j of slot s is at `positions[j * slots + s]`.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tidings/bloom.hpp"
#include "tidings/simd.hpp"

namespace tidings {

class IdArena {
public:
    static constexpr size_t id_bytes = Bloom::IdBytes;
    static constexpr uint32_t slots = 128;  // few enough for their positions and two filters to stay in the nearest cache

    // `bits` 0: they are kept as they are, nobody asks for positions.
    IdArena(uint64_t bits, uint32_t hashes) : bits_(bits), hashes_(hashes), positions_(bits ? size_t{slots} * hashes : 0) {}

    bool empty() const { return used == 0; }
    bool full() const { return used == slots; }
    bool ends_with(const uint8_t* id) const {
        std::array<uint64_t, 2> words;  // compared here: a call of memcmp for every delivery takes longer than the rest of it
        std::memcpy(words.data(), id, id_bytes);
        return used && words == last_;
    }

    uint32_t add(const uint8_t* id) {
        std::memcpy(ids[used].data(), id, id_bytes);
        std::memcpy(last_.data(), id, id_bytes);
        uint32_t origin;
        uint64_t time;
        std::memcpy(&origin, id + 4, 4);
        std::memcpy(&time, id + 8, 8);
        origins[used] = __builtin_bswap32(origin);
        times[used] = static_cast<int64_t>(__builtin_bswap64(time) >> 16);
        return used++;
    }

    void find_positions() {
        if (bits_ == 0) return;
        if (!std::has_single_bit(bits_)) return find_each();
#if defined(__x86_64__)
        if (simd_best() == Simd::Avx512) return find_avx512();
        if (simd_best() == Simd::Avx2) return find_avx2();
#endif
        find_columns();
    }

    // Set the bits of these ids in a filter of the arena's shape, or in one smaller by a power of two: its positions are the
    // arena's without their last bits.
    void set(Bloom& filter, const uint8_t* chosen, size_t count, uint32_t halvings) const {
        if (halvings == 0)
            for (size_t i = 0; i < count; ++i) filter.set<false>(&positions_[chosen[i]], slots, 0);
        else
            for (size_t i = 0; i < count; ++i) filter.set<true>(&positions_[chosen[i]], slots, halvings);
    }

    size_t memory_bytes() const { return positions_.size() * sizeof(uint32_t); }

    uint32_t used = 0;
    std::array<std::array<uint8_t, id_bytes>, slots> ids{};
    std::array<uint32_t, slots> origins{};
    std::array<int64_t, slots> times{};

private:
    static constexpr uint32_t lanes = 8;
    static_assert(slots % lanes == 0 && slots <= 256);

    TIDINGS_TARGET_AVX512 void find_avx512() { find_columns(); }
    TIDINGS_TARGET_AVX2 void find_avx2() { find_columns(); }

    // For a number of bits that is a power of two: the highest bits of h, without a product. In vector types: compilers leave
    // this loop scalar, at three times the time.
    TIDINGS_INLINE void find_columns() {
        using Words = uint64_t __attribute__((vector_size(lanes * 8)));
        using Positions = uint32_t __attribute__((vector_size(lanes * 4)));
        const int shift = 64 - std::countr_zero(bits_);
        for (uint32_t first = 0; first < used; first += lanes) {  // beyond `used` old ids are as good as any
            Words h, step, growth;
            for (uint32_t i = 0; i < lanes; ++i) h[i] = hash64(ids[first + i].data(), id_bytes, 0);
            mix64_of(step = h);
            mix64_of(growth = step);
            uint32_t* out = &positions_[first];
            for (uint32_t j = 0; j < hashes_; ++j, out += slots) {
                const auto found = __builtin_convertvector(h >> shift, Positions);
                std::memcpy(out, &found, sizeof found);
                h += step;
                step += growth;
            }
        }
    }

    void find_each() {
        for (uint32_t slot = 0; slot < used; ++slot) {
            Bloom::Walk walk(ids[slot].data());
            for (uint32_t j = 0; j < hashes_; ++j) positions_[size_t{j} * slots + slot] = static_cast<uint32_t>(walk.next(bits_));
        }
    }

    const uint64_t bits_;
    const uint32_t hashes_;
    std::array<uint64_t, 2> last_{};
    std::vector<uint32_t> positions_;
};

}  // namespace tidings
