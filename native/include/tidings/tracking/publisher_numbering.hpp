// Numbers of publishers: a count permuted under a key, so that nobody can tell one from others. Whoever has the key, as the
// broker's histories do, finds the count again, which takes fewer bits.
//
// The permutation is a Feistel network of four rounds with SipHash-1-3 on halves of 15 bits, walked until the result
// has 29 bits: the first three bits of a publisher's number say what came by AMQP, and how (docs/wire.md).
#pragma once
#include <bit>
#include <cstdint>

namespace tidings {

class PublisherNumbering {
public:
    static constexpr uint32_t number_bits = 29, half_bits = 15, rounds = 4;
    static constexpr size_t sources_max = 4096;  // of a list that is written with counts: each takes 0.1 µs

    explicit PublisherNumbering(uint64_t key) : key_(key) {}

    // Of a publisher alone, or of a broker and a publisher; the other bits stay.
    uint64_t number_of(uint64_t count) const { return walk(count, &PublisherNumbering::forwards); }
    uint64_t count_of(uint64_t number) const { return walk(number, &PublisherNumbering::backwards); }

private:
    static constexpr uint64_t low = (1u << number_bits) - 1, half = (1u << half_bits) - 1;

    template <class Step>
    uint64_t walk(uint64_t source, Step step) const {
        uint64_t value = source & low;
        do value = (this->*step)(value);
        while (value > low);
        return (source & ~low) | value;
    }

    uint64_t forwards(uint64_t value) const {
        uint64_t left = value >> half_bits, right = value & half;
        for (uint32_t round = 0; round < rounds; ++round) {
            const uint64_t mixed = left ^ (hash(round << half_bits | right) & half);
            left = right, right = mixed;
        }
        return left << half_bits | right;
    }

    uint64_t backwards(uint64_t value) const {
        uint64_t left = value >> half_bits, right = value & half;
        for (uint32_t round = rounds; round-- > 0;) {
            const uint64_t mixed = right ^ (hash(round << half_bits | left) & half);
            right = left, left = mixed;
        }
        return left << half_bits | right;
    }

    // SipHash-1-3 of one word.
    uint64_t hash(uint64_t word) const {
        const uint64_t other = key_ * 0x9E3779B97F4A7C15;  // the second half of its key
        uint64_t a = key_ ^ 0x736f6d6570736575, b = other ^ 0x646f72616e646f6d, c = key_ ^ 0x6c7967656e657261,
                 d = other ^ 0x7465646279746573;
        const auto mix = [&] {
            a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
            c += d, d = std::rotl(d, 16) ^ c;
            a += d, d = std::rotl(d, 21) ^ a;
            c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
        };
        for (const uint64_t part : {word, uint64_t{8} << 56}) {
            d ^= part;
            mix();
            a ^= part;
        }
        c ^= 0xff;
        mix(), mix(), mix();
        return a ^ b ^ c ^ d;
    }

    uint64_t key_;
};

}  // namespace tidings
