// The ids of the arena that belong to a history. Apart from the histories, and small: it is touched often.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tidings/tracking/id_arena.hpp"

namespace tidings {

struct Marks {
    std::array<uint64_t, IdArena::slots / 64> words{};
    bool any = false;

    void set(uint32_t slot) {
        words[slot / 64] |= 1ull << (slot % 64);
        any = true;
    }
    void unite(const Marks& other) {
        for (size_t word = 0; word < words.size(); ++word) words[word] |= other.words[word];
        any = any || other.any;
    }
    // The marks in the chunk that begins here; unless that is in a row, it is put into the list.
    Slots in_chunk(uint32_t first, uint16_t* list) const {
        uint32_t count = 0, lowest = 0, end = 0;
        for (uint32_t slot = first; slot < first + IdArena::chunk; slot += 64) {
            const uint64_t word = words[slot / 64];
            if (!word) continue;
            if (!count) lowest = slot + static_cast<uint32_t>(std::countr_zero(word));
            end = slot + static_cast<uint32_t>(std::bit_width(word));
            count += static_cast<uint32_t>(std::popcount(word));
        }
        if (end - lowest == count) return {nullptr, lowest, count};
        count = 0;
        for (uint32_t slot = first; slot < end; slot += 64)
            for (uint64_t left = words[slot / 64]; left; left &= left - 1)
                list[count++] = static_cast<uint16_t>(slot + static_cast<uint32_t>(std::countr_zero(left)));
        return {list, lowest, count};
    }
    auto operator<=>(const Marks&) const = default;
};

}  // namespace tidings
