// The encoded matrix without vectors: per router sets of elements (64-bit fingerprints); which routers have a set whose
// elements the message all carries?
//
// Elements that occur in some set are numbered. Each distinct set is a row and lies in the group of one of its
// elements, the one whose group was smallest: common elements (an attribute exists) then get few rows and rare ones (it
// has this value) many. A message marks the numbers of its elements in a bit set, visits the groups of these only, and
// tests the rest of each row by its bits.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tidings/encoding/router_ranks.hpp"
#include "tidings/encoding/vector_table.hpp"
#include "tidings/support/hash.hpp"
#include "tidings/support/id_list.hpp"
#include "tidings/support/id_table.hpp"

namespace tidings {

class ElementMatrix {
    static auto same(uint32_t wanted) {
        return [wanted](uint32_t one) { return one == wanted; };
    }

public:
    static constexpr uint32_t none = IdTable::none;

    explicit ElementMatrix(uint64_t seed) : seed_(seed) {}

    size_t router_count() const { return routers_.size(); }
    size_t row_count() const { return row_index_.size(); }

    // True if the set was new to the router. The elements ascend, each once.
    bool add(uint32_t router, const uint64_t* set, size_t size) {
        const uint32_t slot = slot_of(router);
        uint32_t row = find_row(set, size);
        if (row != none && slots_[slot].find(mix64(row), same(row)) != none) return false;
        if (row == none) row = new_row(set, size);
        rows_[row].routers.push(slot);
        slots_[slot].insert(row, [](uint32_t one) { return mix64(one); });
        return true;
    }

    bool remove(uint32_t router, const uint64_t* set, size_t size) {
        const uint32_t slot = routers_.find(router);
        const uint32_t row = find_row(set, size);
        if (slot == none || row == none || slots_[slot].find(mix64(row), same(row)) == none) return false;
        slots_[slot].erase(row, [](uint32_t one) { return mix64(one); });
        leave(row, slot);
        if (slots_[slot].size() == 0) drop(router);
        return true;
    }

    bool drop(uint32_t router) {
        const uint32_t slot = routers_.find(router);
        if (slot == none) return false;
        slots_[slot].each([&](uint32_t row) { leave(row, slot); });
        slots_[slot] = IdTable();
        routers_.erase(router);
        return true;
    }

    // Appends the routers of one message, ascending, each once. The scratch may be used again.
    struct Scratch {
        std::vector<uint64_t> carried;  // a bit an element number
        std::vector<uint32_t> numbers;
        std::vector<uint64_t> marks;  // a bit a router's rank
    };
    void match(const uint64_t* elements, size_t size, Scratch& scratch, std::vector<uint32_t>& out) const {
        scratch.carried.resize(fingerprints_.size() / 64 + 1);
        scratch.marks.assign(routers_.mark_words(), 0);
        scratch.numbers.clear();
        for (size_t i = 0; i < size; ++i)
            if (const uint32_t number = find_element(elements[i]); number != none) {
                scratch.numbers.push_back(number);
                scratch.carried[number / 64] |= 1ull << (number & 63);
            }
        visit(always_, scratch);
        for (uint32_t number : scratch.numbers) visit(groups_[number], scratch);
        for (uint32_t number : scratch.numbers) scratch.carried[number / 64] = 0;
        routers_.list(scratch.marks.data(), out);
    }

    // Every router that is known, ascending: for a message that carries more than can be said.
    void all_routers(std::vector<uint32_t>& out) const { routers_.list_all(out); }

    size_t memory_bytes() const {
        size_t bytes = sizeof *this + fingerprints_.capacity() * 8 + uses_.capacity() * 4 +
                       rows_.capacity() * sizeof(Row) + element_index_.memory_bytes() + row_index_.memory_bytes() +
                       groups_.capacity() * sizeof(Group);
        for (const Group& group : groups_) bytes += group.capacity() * sizeof(Candidate);
        for (const Row& row : rows_) bytes += row.elements.capacity() * 4 + row.routers.heap_bytes();
        for (const IdTable& own : slots_) bytes += sizeof own + own.memory_bytes();
        return bytes;
    }

private:
    static constexpr uint32_t inline_max = 4;

    struct Candidate {
        uint32_t row;
        uint32_t count;             // of the other elements
        uint32_t rest[inline_max];  // the first of them
    };
    using Group = std::vector<Candidate>;

    struct Row {
        std::vector<uint32_t> elements;  // numbers; the group's comes first
        IdList routers;                  // slots
        uint32_t position = 0;           // in the group
    };

    void visit(const Group& group, Scratch& scratch) const {
        auto carried = [&](uint32_t number) { return scratch.carried[number / 64] >> (number & 63) & 1; };
        for (const Candidate& candidate : group) {
            uint64_t all = 1;
            for (uint32_t i = 0; i < std::min(candidate.count, inline_max); ++i) all &= carried(candidate.rest[i]);
            if (!all) continue;
            const Row& row = rows_[candidate.row];
            for (uint32_t i = inline_max + 1; i < row.elements.size(); ++i) all &= carried(row.elements[i]);
            if (!all) continue;
            for (uint32_t slot : row.routers) routers_.mark(slot, scratch.marks.data());
        }
    }

    uint32_t find_element(uint64_t fingerprint) const {
        return element_index_.find(mix64(fingerprint ^ seed_),
                                   [&](uint32_t number) { return fingerprints_[number] == fingerprint; });
    }

    uint32_t hold_element(uint64_t fingerprint) {
        uint32_t number = find_element(fingerprint);
        if (number == none) {
            number = take(free_elements_, fingerprints_.size());
            if (number == fingerprints_.size()) {
                fingerprints_.push_back(0);
                uses_.push_back(0);
                groups_.emplace_back();
            }
            fingerprints_[number] = fingerprint;
            element_index_.insert(number, [&](uint32_t one) { return mix64(fingerprints_[one] ^ seed_); });
        }
        ++uses_[number];
        return number;
    }

    void release_element(uint32_t number) {
        if (--uses_[number]) return;
        element_index_.erase(number, [&](uint32_t one) { return mix64(fingerprints_[one] ^ seed_); });
        groups_[number] = Group();
        free_elements_.push_back(number);
    }

    uint64_t hash_set(const uint64_t* set, size_t size) const { return hash64(set, size * 8, seed_); }

    uint64_t hash_row(uint32_t row) const {
        std::vector<uint64_t> set = sorted_set(row);
        return hash_set(set.data(), set.size());
    }

    std::vector<uint64_t> sorted_set(uint32_t row) const {
        std::vector<uint64_t> set;
        for (uint32_t number : rows_[row].elements) set.push_back(fingerprints_[number]);
        std::sort(set.begin(), set.end());
        return set;
    }

    uint32_t find_row(const uint64_t* set, size_t size) const {
        return row_index_.find(hash_set(set, size), [&](uint32_t row) {
            return rows_[row].elements.size() == size && std::ranges::equal(sorted_set(row), std::span(set, size));
        });
    }

    uint32_t new_row(const uint64_t* set, size_t size) {
        const uint32_t row = take(free_rows_, rows_.size());
        if (row == rows_.size()) rows_.emplace_back();
        std::vector<uint32_t>& numbers = rows_[row].elements;
        for (size_t i = 0; i < size; ++i) numbers.push_back(hold_element(set[i]));
        auto smaller = [&](uint32_t a, uint32_t b) { return uses_[a] < uses_[b]; };
        if (size) std::iter_swap(numbers.begin(), std::min_element(numbers.begin(), numbers.end(), smaller));
        Group& group = size ? groups_[numbers[0]] : always_;
        rows_[row].position = static_cast<uint32_t>(group.size());
        Candidate candidate{row, size ? static_cast<uint32_t>(size - 1) : 0, {}};
        for (uint32_t i = 0; i < std::min(candidate.count, inline_max); ++i) candidate.rest[i] = numbers[i + 1];
        group.push_back(candidate);
        row_index_.insert(row, [&](uint32_t one) { return hash_row(one); });
        return row;
    }

    // The router no longer wants the row; a row that no router wants goes.
    void leave(uint32_t row, uint32_t slot) {
        rows_[row].routers.remove(slot);
        if (rows_[row].routers.size()) return;
        row_index_.erase(row, [&](uint32_t one) { return hash_row(one); });
        std::vector<uint32_t> numbers = std::move(rows_[row].elements);
        Group& group = numbers.empty() ? always_ : groups_[numbers[0]];
        group[rows_[row].position] = group.back();
        rows_[group.back().row].position = rows_[row].position;
        group.pop_back();
        for (uint32_t number : numbers) release_element(number);
        rows_[row] = Row();
        free_rows_.push_back(row);
    }

    static uint32_t take(std::vector<uint32_t>& spare, size_t next) {
        if (spare.empty()) return static_cast<uint32_t>(next);
        const uint32_t number = spare.back();
        spare.pop_back();
        return number;
    }

    uint32_t slot_of(uint32_t router) {
        const uint32_t slot = routers_.slot_of(router);
        if (slots_.size() < routers_.slots_end()) slots_.resize(routers_.slots_end());
        return slot;
    }

    uint64_t seed_;
    std::vector<uint64_t> fingerprints_;  // of an element number
    std::vector<uint32_t> uses_;          // rows that have it
    std::vector<Group> groups_;
    std::vector<uint32_t> free_elements_;
    IdTable element_index_;
    std::vector<Row> rows_;
    std::vector<uint32_t> free_rows_;
    IdTable row_index_;
    Group always_;  // the empty set
    RouterRanks routers_;
    std::vector<IdTable> slots_;  // each router's rows
};

}  // namespace tidings
