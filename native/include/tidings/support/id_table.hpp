// A hash table of numbers whose keys are kept elsewhere: it holds u32 values, the caller says how a value hashes and
// which one it looks for. Linear probing, at most half full, deletion without tombstones (Knuth 6.4, algorithm R).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidings {

class IdTable {
public:
    static constexpr uint32_t none = ~0u;

    template <class Equal>
    uint32_t find(uint64_t hash, Equal&& equal) const {
        if (slots_.empty()) return none;
        for (uint64_t i = hash & mask(); slots_[i] != none; i = (i + 1) & mask())
            if (equal(slots_[i])) return slots_[i];
        return none;
    }

    // The value must not be there yet.
    template <class HashOf>
    void insert(uint32_t value, HashOf&& hash_of) {
        if ((live_ + 1) * 2 > slots_.size()) {
            std::vector<uint32_t> old(slots_.empty() ? 8 : slots_.size() * 2, none);
            old.swap(slots_);
            for (uint32_t one : old)
                if (one != none) place(one, hash_of(one));
        }
        place(value, hash_of(value));
        ++live_;
    }

    template <class HashOf>
    void erase(uint32_t value, HashOf&& hash_of) {
        uint64_t hole = hash_of(value) & mask();
        while (slots_[hole] != value) hole = (hole + 1) & mask();
        for (uint64_t i = (hole + 1) & mask(); slots_[i] != none; i = (i + 1) & mask()) {
            const uint64_t home = hash_of(slots_[i]) & mask();
            if (((i - home) & mask()) < ((i - hole) & mask())) continue;
            slots_[hole] = slots_[i];
            hole = i;
        }
        slots_[hole] = none;
        --live_;
    }

    template <class Visit>
    void each(Visit&& visit) const {
        for (uint32_t value : slots_)
            if (value != none) visit(value);
    }

    size_t size() const { return live_; }
    size_t memory_bytes() const { return slots_.capacity() * sizeof(uint32_t); }

private:
    uint64_t mask() const { return slots_.size() - 1; }

    void place(uint32_t value, uint64_t hash) {
        uint64_t i = hash & mask();
        while (slots_[i] != none) i = (i + 1) & mask();
        slots_[i] = value;
    }

    std::vector<uint32_t> slots_;
    size_t live_ = 0;
};

}  // namespace tidings
