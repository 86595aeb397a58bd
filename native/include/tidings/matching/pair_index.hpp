// Conjunctions with two or more equalities, found by their two rarest. A message with ten attributes has 45 pairs,
// nearly all of them unknown, so each pair first asks a bitmap (sixteen bits a key or so, small enough to stay in the
// second-level cache), and only the few survivors touch the table, prefetched together.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "tidings/matching/constraint_table.hpp"

namespace tidings {

class PairIndex {
public:
    static uint64_t key(uint32_t a, uint32_t b) { return a < b ? uint64_t{b} << 32 | a : uint64_t{a} << 32 | b; }

    // The position under which remove() will find the candidate.
    uint32_t add(uint64_t key, const Candidate& candidate) {
        const uint64_t hash = hash_of(key);
        if (Slot* slot = find(hash, key)) {
            if (slot->candidate.row != list_mark) {
                const uint32_t made = lists_.take();
                lists_[made].push_back(slot->candidate);
                slot->candidate = {made, list_mark, 0, 0};
            }
            Column<Candidate>& list = lists_[slot->candidate.token];
            list.push_back(candidate);
            return list.size() - 1;
        }
        directory_.room(hash).put({key, candidate}, hash);
        return 0;
    }

    // Calls moved(row, position) if another candidate took this one's place.
    template <class Moved>
    void remove(uint64_t key, uint32_t position, Moved&& moved) {
        const uint64_t hash = hash_of(key);
        Slot* slot = find(hash, key);
        if (slot->candidate.row != list_mark) return directory_.at(hash).take(slot);
        Column<Candidate>& list = lists_[slot->candidate.token];
        if (position + 1 != list.size()) {
            list[position] = list.back();
            moved(list[position].row, position);
        }
        list.pop_back();
        if (list.size() != 1) return;
        const uint32_t emptied = slot->candidate.token;
        slot->candidate = list[0];
        moved(list[0].row, 0);
        lists_.release(emptied);
    }

    // Calls verify(first, last) with the candidates of every pair among number(0) to number(count - 1), in any order.
    template <class Number, class Verify>
    void find_pairs(size_t count, Number&& number, Verify&& verify) {
        if (count < 2) return;
        if (halves_.size() < count) halves_.resize(count);
        if (probes_.size() < count * (count - 1) / 2) probes_.resize(count * (count - 1) / 2);
        Half* const halves = halves_.data();
        for (size_t i = 0; i < count; ++i) halves[i] = {spread(number(i)), number(i)};
        Probe* const probes = probes_.data();
        const auto directory = directory_.view();
        size_t kept = 0;
        for (uint32_t i = 1; i < count; ++i) {
            const uint64_t mine = halves[i].hash;
            for (uint32_t j = 0; j < i; ++j) {
                const uint64_t hash = mine ^ halves[j].hash;
                const Segment& segment = directory.at(hash);
                const size_t bit = segment.filter_bit(hash);
                probes[kept] = {i, j};
                kept += segment.filter[bit >> 6] >> (bit & 63) & 1;
            }
        }
        for (size_t k = 0; k < kept; ++k) {
            const uint64_t hash = halves[probes[k].i].hash ^ halves[probes[k].j].hash;
            const Segment& segment = directory.at(hash);
            __builtin_prefetch(&segment.slots[segment.home(hash)]);
        }
        for (size_t k = 0; k < kept; ++k) {
            const Half &a = halves[probes[k].i], &b = halves[probes[k].j];
            const Slot* slot = directory.at(a.hash ^ b.hash).find(a.hash ^ b.hash, key(a.number, b.number));
            if (!slot) continue;
            if (slot->candidate.row != list_mark) verify(&slot->candidate, &slot->candidate + 1);
            else verify(lists_[slot->candidate.token].begin(), lists_[slot->candidate.token].end());
        }
    }

    size_t bytes() const {
        size_t sum = directory_.bytes() + lists_.bytes();
        for (const auto& segment : directory_.segments())
            sum += segment->slots.capacity() * sizeof(Slot) + segment->filter.capacity() * sizeof(uint64_t);
        for (uint32_t i = 0; i < lists_.end(); ++i) sum += lists_[i].bytes();
        return sum;
    }

private:
    static constexpr uint64_t no_key = UINT64_MAX;
    static constexpr uint32_t list_mark = UINT32_MAX;  // as row: the token is the number of a list

    struct Slot {
        uint64_t key = no_key;
        Candidate candidate{};
    };

    // A pair's hash is that of its numbers, combined: so a message hashes each of its equalities once, not each pair.
    static uint64_t spread(uint32_t number) { return mix64(number + 0x9E3779B97F4A7C15ull); }
    static uint64_t hash_of(uint64_t key) {
        return spread(static_cast<uint32_t>(key)) ^ spread(static_cast<uint32_t>(key >> 32));
    }

    struct Segment {
        std::vector<Slot> slots = std::vector<Slot>(8);
        std::vector<uint64_t> filter = std::vector<uint64_t>(1);
        size_t filter_mask = 63;
        uint32_t used = 0, stale = 0;  // stale: removed since the filter was made
        unsigned depth = 0;

        // Any number of slots, so that a segment need not double: where a hash belongs is its share of them.
        size_t home(uint64_t hash) const { return static_cast<uint32_t>(hash) * slots.size() >> 32; }
        size_t after(size_t i) const { return i + 1 == slots.size() ? 0 : i + 1; }
        size_t distance(size_t from, size_t to) const { return to >= from ? to - from : to + slots.size() - from; }
        bool full() const { return used * 5 >= slots.size() * 4; }
        bool large() const { return slots.size() >= 2048; }
        size_t filter_bit(uint64_t hash) const { return hash >> 12 & filter_mask; }

        const Slot* find(uint64_t hash, uint64_t key) const {
            for (size_t i = home(hash);; i = after(i)) {
                if (slots[i].key == key) return &slots[i];
                if (slots[i].key == no_key) return nullptr;
            }
        }
        void put(const Slot& slot, uint64_t hash) {
            size_t i = home(hash);
            while (slots[i].key != no_key) i = after(i);
            slots[i] = slot;
            const size_t bit = filter_bit(hash);
            filter[bit >> 6] |= 1ull << (bit & 63);
            ++used;
        }
        void take(Slot* slot) {
            size_t gap = static_cast<size_t>(slot - slots.data());
            for (size_t i = gap;;) {
                i = after(i);
                if (slots[i].key == no_key) break;
                if (distance(home(hash_of(slots[i].key)), i) >= distance(gap, i)) {
                    slots[gap] = slots[i];
                    gap = i;
                }
            }
            slots[gap] = Slot{};
            --used;
            if (++stale * 4 > slots.size()) refill(slots.size(), nullptr);
        }
        void grow() { refill(slots.size() + slots.size() / 2, nullptr); }
        void split(Segment& upper) {
            upper.depth = ++depth;
            // A half with more than its share grows while it is filled.
            const size_t room = slots.size() * 5 / 8;
            upper.resize(room);
            refill(room, &upper);
        }
        void resize(size_t size) {
            slots.assign(size, Slot{});
            filter.assign(std::bit_ceil(std::max<size_t>(1, size * filter_bits_per_slot / 64)), 0);
            filter_mask = filter.size() * 64 - 1;
            used = stale = 0;
        }
        void refill(size_t size, Segment* upper) {
            std::vector<Slot> old;
            old.swap(slots);
            resize(size);
            for (const Slot& slot : old) {
                if (slot.key == no_key) continue;
                const uint64_t hash = hash_of(slot.key);
                Segment& half = upper && (hash >> (64 - depth) & 1) ? *upper : *this;
                if (half.full()) half.grow();
                half.put(slot, hash);
            }
        }
    };
    static constexpr size_t filter_bits_per_slot = 8;

    struct Half {
        uint64_t hash;
        uint32_t number;
    };
    struct Probe {
        uint32_t i, j;  // of halves
    };

    Slot* find(uint64_t hash, uint64_t key) { return const_cast<Slot*>(directory_.at(hash).find(hash, key)); }

    Directory<Segment> directory_;
    Pages<Column<Candidate>> lists_;
    std::vector<Half> halves_;
    std::vector<Probe> probes_;
};

}  // namespace tidings
