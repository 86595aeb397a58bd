// From hashes to numbers. What a number stands for is the caller's: it compares the real thing, a hash is never proof.
//
// Extendible hashing (Fagin et al. 1979): a directory of segments by the hash's leading bits, each segment a small open
// table with linear probing. A full segment doubles, and beyond its limit splits in two, so the longest pause is the
// time to move one segment, however large the index has become.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace tidings {

inline constexpr uint32_t none = UINT32_MAX;

// The directory: which segment holds a hash. A Segment has `depth`, `full()`, `grow()`, `large()` and
// `split(Segment& upper)`, which moves what has bit 63 - depth set into `upper` and raises both depths.
template <class Segment>
class Directory {
public:
    Directory() {
        owned_.push_back(std::make_unique<Segment>());
        segments_.assign(size_t{1} << depth_, owned_.back().get());
    }

    Segment& at(uint64_t hash) { return *segments_[slot(hash)]; }
    const Segment& at(uint64_t hash) const { return *segments_[slot(hash)]; }

    // For a loop that asks often while nothing changes.
    struct View {
        const Segment* const* segments;
        unsigned shift;
        const Segment& at(uint64_t hash) const { return *segments[hash >> shift]; }
    };
    View view() const { return {segments_.data(), 64 - depth_}; }

    // The segment for this hash, with room for one more.
    Segment& room(uint64_t hash) {
        for (;;) {
            Segment& segment = at(hash);
            if (!segment.full()) return segment;
            if (!segment.large() || segment.depth >= depth_max) segment.grow();
            else divide(hash);
        }
    }

    const std::vector<std::unique_ptr<Segment>>& segments() const { return owned_; }
    size_t bytes() const { return segments_.capacity() * sizeof(void*) + owned_.size() * sizeof(Segment); }

private:
    static constexpr unsigned depth_max = 24;

    size_t slot(uint64_t hash) const { return hash >> (64 - depth_); }

    void divide(uint64_t hash) {
        Segment& lower = at(hash);
        if (lower.depth == depth_) {
            std::vector<Segment*> twice(segments_.size() * 2);
            for (size_t i = 0; i < twice.size(); ++i) twice[i] = segments_[i / 2];
            segments_.swap(twice);
            ++depth_;
        }
        owned_.push_back(std::make_unique<Segment>());
        Segment& upper = *owned_.back();
        const size_t span = size_t{1} << (depth_ - lower.depth);  // entries that led to the lower one
        const size_t first = slot(hash) & ~(span - 1);
        lower.split(upper);
        for (size_t i = span / 2; i < span; ++i) segments_[first + i] = &upper;
    }

    std::vector<Segment*> segments_;
    std::vector<std::unique_ptr<Segment>> owned_;
    unsigned depth_ = 1;  // at least: a shift by 64 bits is not defined
};

class HashIndex {
public:
    // The number under this hash for which same(number) holds, or none.
    template <class Same>
    uint32_t find(uint64_t hash, Same&& same) const {
        const Segment& segment = directory_.at(hash);
        const uint32_t tag = static_cast<uint32_t>(hash >> 32);
        for (size_t i = tag & segment.mask();; i = (i + 1) & segment.mask()) {
            const Slot slot = segment.slots[i];
            if (slot.number == none) return none;
            if (slot.tag == tag && same(slot.number)) return slot.number;
        }
    }

    void insert(uint64_t hash, uint32_t number) {
        directory_.room(hash).put({static_cast<uint32_t>(hash >> 32), number});
        ++size_;
    }

    // Gives the entry a new number.
    void replace(uint64_t hash, uint32_t old_number, uint32_t number) { locate(hash, old_number)->number = number; }

    void erase(uint64_t hash, uint32_t number) {
        Segment& segment = directory_.at(hash);
        segment.take(static_cast<size_t>(locate(hash, number) - segment.slots.data()));
        --size_;
    }

    size_t size() const { return size_; }
    size_t bytes() const {
        size_t sum = directory_.bytes();
        for (const auto& segment : directory_.segments()) sum += segment->slots.capacity() * sizeof(Slot);
        return sum;
    }

private:
    struct Slot {
        uint32_t tag = 0, number = none;
    };

    struct Segment {
        std::vector<Slot> slots = std::vector<Slot>(8);
        uint32_t used = 0;
        unsigned depth = 0;

        size_t mask() const { return slots.size() - 1; }
        bool full() const { return used * 8 >= slots.size() * 7; }
        bool large() const { return slots.size() >= 4096; }

        void put(Slot slot) {
            size_t i = slot.tag & mask();
            while (slots[i].number != none) i = (i + 1) & mask();
            slots[i] = slot;
            ++used;
        }
        // Closes the gap instead of leaving a mark, so that searches never grow longer (Knuth 6.4, algorithm R).
        void take(size_t gap) {
            for (size_t i = gap;;) {
                i = (i + 1) & mask();
                if (slots[i].number == none) break;
                if (((i - slots[i].tag) & mask()) >= ((i - gap) & mask())) {
                    slots[gap] = slots[i];
                    gap = i;
                }
            }
            slots[gap] = Slot{};
            --used;
        }
        void grow() { refill(slots.size() * 2, nullptr); }
        void split(Segment& upper) {
            upper.depth = ++depth;
            upper.slots.resize(slots.size() / 2);
            refill(slots.size(), &upper);
        }
        void refill(size_t size, Segment* upper) {
            std::vector<Slot> old(size);
            old.swap(slots);
            used = 0;
            for (const Slot& slot : old) {
                if (slot.number == none) continue;
                Segment& home = upper && (slot.tag >> (32 - depth) & 1) ? *upper : *this;
                if (&home != this && home.full()) home.grow();
                home.put(slot);
            }
        }
    };

    Slot* locate(uint64_t hash, uint32_t number) {
        Segment& segment = directory_.at(hash);
        for (size_t i = (hash >> 32) & segment.mask();; i = (i + 1) & segment.mask())
            if (segment.slots[i].number == number) return &segment.slots[i];
    }

    Directory<Segment> directory_;
    size_t size_ = 0;
};

}  // namespace tidings
