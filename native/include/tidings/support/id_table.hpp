// A hash table of numbers whose keys are kept elsewhere: it holds u32 values, the caller says how a value hashes and which one it
// looks for. Linear probing, at most half full, deletion without tombstones (Knuth 6.4, algorithm R).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidings {

class IdTable {
public:
    static constexpr uint32_t None = ~0u;

    template <class Equal>
    uint32_t find(uint64_t hash, Equal&& equal) const {
        if (slots.empty()) return None;
        for (uint64_t i = hash & mask(); slots[i] != None; i = (i + 1) & mask())
            if (equal(slots[i])) return slots[i];
        return None;
    }

    // The value must not be there yet.
    template <class HashOf>
    void insert(uint32_t value, HashOf&& hash_of) {
        if ((live + 1) * 2 > slots.size()) {
            std::vector<uint32_t> old(slots.empty() ? 8 : slots.size() * 2, None);
            old.swap(slots);
            for (uint32_t one : old)
                if (one != None) place(one, hash_of(one));
        }
        place(value, hash_of(value));
        ++live;
    }

    template <class HashOf>
    void erase(uint32_t value, HashOf&& hash_of) {
        uint64_t hole = hash_of(value) & mask();
        while (slots[hole] != value) hole = (hole + 1) & mask();
        for (uint64_t i = (hole + 1) & mask(); slots[i] != None; i = (i + 1) & mask()) {
            const uint64_t home = hash_of(slots[i]) & mask();
            if (((i - home) & mask()) < ((i - hole) & mask())) continue;
            slots[hole] = slots[i];
            hole = i;
        }
        slots[hole] = None;
        --live;
    }

    template <class Visit>
    void each(Visit&& visit) const {
        for (uint32_t value : slots)
            if (value != None) visit(value);
    }

    size_t size() const { return live; }
    size_t memory_bytes() const { return slots.capacity() * sizeof(uint32_t); }

private:
    uint64_t mask() const { return slots.size() - 1; }

    void place(uint32_t value, uint64_t hash) {
        uint64_t i = hash & mask();
        while (slots[i] != None) i = (i + 1) & mask();
        slots[i] = value;
    }

    std::vector<uint32_t> slots;
    size_t live = 0;
};

}  // namespace tidings
