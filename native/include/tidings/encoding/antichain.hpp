// One router's vectors. A vector that contains another one of the same router adds nothing: whatever matches it matches
// the smaller one. So only the minimal vectors (an antichain) are *active*; the others are kept aside, each under one
// active vector that it contains, its *cover*. When a cover goes, the vectors under it look for another or become
// active.
//
//   active   0001      0110        remove 0001:   0110      1001
//   aside    1001      1110                       1110      1011
//            1011
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "tidings/encoding/vector_table.hpp"

namespace tidings {

inline bool is_subset(const uint64_t* small, const uint64_t* large, uint32_t words) {
    uint64_t lacking = 0;
    for (uint32_t i = 0; i < words; ++i) lacking |= small[i] & ~large[i];
    return lacking == 0;
}

inline uint32_t popcount(const uint64_t* v, uint32_t words) {
    uint32_t ones = 0;
    for (uint32_t i = 0; i < words; ++i) ones += static_cast<uint32_t>(std::popcount(v[i]));
    return ones;
}

class Antichain {
public:
    static constexpr uint32_t none = ~0u;

    Antichain() = default;

    size_t size() const { return index_.size(); }

    bool has(uint32_t row) const { return find(row) != none; }

    // `on(row)` and `off(row)` are called for rows that become active and cease to be. The row must not be there yet.
    template <class On, class Off>
    void add(uint32_t row, const VectorTable& table, On&& on, Off&& off) {
        const uint32_t member = fresh(row);
        const uint64_t* v = table[row];
        if (const uint32_t cover = find_cover(v, table.words()); cover != none) {
            attach(member, cover);
            return;
        }
        for (uint32_t i = static_cast<uint32_t>(active_.size()); i-- > 0;) {
            if (!is_subset(v, &packed_[static_cast<size_t>(i) * table.words()], table.words())) continue;
            const uint32_t larger = active_[i];
            deactivate(larger, table.words());
            off(members_[larger].row);
            while (members_[larger].first != none) move(members_[larger].first, member);
            attach(larger, member);
        }
        activate(member, table);
        on(row);
    }

    template <class On, class Off>
    void remove(uint32_t row, const VectorTable& table, On&& on, Off&& off) {
        const uint32_t member = find(row);
        if (members_[member].cover != none) {
            detach(member);
        } else {
            deactivate(member, table.words());
            off(row);
            for (uint32_t orphan : take_children(member, table))
                if (const uint32_t cover = find_cover(table[members_[orphan].row], table.words()); cover != none) {
                    attach(orphan, cover);
                } else {
                    activate(orphan, table);
                    on(members_[orphan].row);
                }
        }
        index_.erase(member, [&](uint32_t one) { return hash_row(members_[one].row); });
        free_members_.push_back(member);
    }

    template <class Visit>
    void each_active(Visit&& visit) const {
        for (uint32_t member : active_) visit(members_[member].row);
    }

    std::vector<uint32_t> rows() const {
        std::vector<uint32_t> all;
        all.reserve(size());
        std::vector<bool> gone(members_.size());
        for (uint32_t member : free_members_) gone[member] = true;
        for (uint32_t i = 0; i < members_.size(); ++i)
            if (!gone[i]) all.push_back(members_[i].row);
        return all;
    }

    size_t memory_bytes() const {
        return sizeof *this + members_.capacity() * sizeof(Member) + packed_.capacity() * 8 + index_.memory_bytes() +
               (active_.capacity() + free_members_.capacity()) * 4;
    }

private:
    struct Member {
        uint32_t row;
        uint32_t cover;           // the active member that it contains; none: it is active itself
        uint32_t position;        // in `active`
        uint32_t first;           // of those it covers
        uint32_t next, previous;  // among those its cover covers
    };

    static uint64_t hash_row(uint32_t row) { return mix64(row); }

    uint32_t find(uint32_t row) const {
        return index_.find(hash_row(row), [&](uint32_t member) { return members_[member].row == row; });
    }

    uint32_t fresh(uint32_t row) {
        uint32_t member = static_cast<uint32_t>(members_.size());
        if (free_members_.empty()) {
            members_.emplace_back();
        } else {
            member = free_members_.back();
            free_members_.pop_back();
        }
        members_[member] = {row, none, none, none, none, none};
        index_.insert(member, [&](uint32_t one) { return hash_row(members_[one].row); });
        return member;
    }

    uint32_t find_cover(const uint64_t* v, uint32_t words) const {
        const uint64_t* at = packed_.data();
        if (words == 4) {
            for (uint32_t i = 0; i < active_.size(); ++i, at += 4)
                if (is_subset(at, v, 4)) return active_[i];
        } else {
            for (uint32_t i = 0; i < active_.size(); ++i, at += words)
                if (is_subset(at, v, words)) return active_[i];
        }
        return none;
    }

    void activate(uint32_t member, const VectorTable& table) {
        members_[member].cover = none;
        members_[member].position = static_cast<uint32_t>(active_.size());
        active_.push_back(member);
        const uint64_t* v = table[members_[member].row];
        packed_.insert(packed_.end(), v, v + table.words());
    }

    void deactivate(uint32_t member, uint32_t words) {
        const uint32_t position = members_[member].position, last = active_.back();
        active_[position] = last;
        members_[last].position = position;
        std::copy(packed_.end() - words, packed_.end(), packed_.begin() + static_cast<ptrdiff_t>(position) * words);
        active_.pop_back();
        packed_.resize(packed_.size() - words);
    }

    void attach(uint32_t member, uint32_t cover) {
        Member& one = members_[member];
        one.cover = cover;
        one.previous = none;
        one.next = members_[cover].first;
        if (one.next != none) members_[one.next].previous = member;
        members_[cover].first = member;
    }

    void detach(uint32_t member) {
        const Member& one = members_[member];
        if (one.next != none) members_[one.next].previous = one.previous;
        if (one.previous != none) members_[one.previous].next = one.next;
        else members_[one.cover].first = one.next;
    }

    void move(uint32_t member, uint32_t cover) {
        detach(member);
        attach(member, cover);
    }

    // Those a member covered, the smallest first: none of them can then displace one that became active before it.
    std::vector<uint32_t> take_children(uint32_t member, const VectorTable& table) {
        std::vector<std::pair<uint32_t, uint32_t>> sized;
        for (uint32_t child = members_[member].first; child != none; child = members_[child].next)
            sized.emplace_back(popcount(table[members_[child].row], table.words()), child);
        members_[member].first = none;
        std::sort(sized.begin(), sized.end());
        std::vector<uint32_t> children;
        for (const auto& one : sized) children.push_back(one.second);
        return children;
    }

    std::vector<Member> members_;
    std::vector<uint32_t> free_members_;
    IdTable index_;                 // row -> member
    std::vector<uint32_t> active_;  // members
    std::vector<uint64_t> packed_;  // their vectors, side by side
};

}  // namespace tidings
