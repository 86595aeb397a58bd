// Rows of interests of which none makes another needless, kept as they come and go.
//
// A row has elements: those of an encoded row, or the constraints of an exact filter. A row whose elements are all in
// another one's makes that needless: whatever the other lets through, it lets through too. Those that are not needless
// are *active*: the antichain that a router advertises. The others stay aside, each under an active one, its *cover*,
// and look for another place when that goes.
//
//   element  holders (active rows that have it)     a larger row is among the holders of each of my elements: I look
//            filed (those that are looked for here) at the shortest list. A smaller one has only elements of mine, and
//                                                   is filed under one of them: I look at what is filed under mine.
//
// A row is filed under the element that fewest are filed under, so that what all ask for does not make them neighbours.
// Elements are known by 64-bit hashes under a secret seed.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tidings/codec/predicate.hpp"
#include "tidings/matching/column.hpp"
#include "tidings/support/hash.hpp"
#include "tidings/support/id_list.hpp"
#include "tidings/support/id_table.hpp"

namespace tidings {

class RowAntichain {
    static constexpr uint32_t none = IdTable::none;

public:
    using RowSet = std::unordered_set<std::string>;

    explicit RowAntichain(uint64_t seed) : seed_(seed) {}

    // Active ones.
    size_t size() const { return active_.size(); }

    template <class Visit>
    void each(Visit&& visit) const {
        for (const uint32_t id : active_) visit(std::string_view(rows_[id].bytes));
    }

    // Once more, with these elements.
    void add(std::string_view row, std::span<const uint64_t> elements) {
        if (held_already(row)) return;
        std::vector<uint64_t> hashes;
        for (const uint64_t one : elements) hashes.push_back(mix64(one ^ seed_));
        enter(row, std::move(hashes));
    }

    // Once more, a filter with this predicate. Its elements are the constraints that all its conjunctions have; if they
    // are not all that it asks for, it has one of its own as well, so that it makes no other needless.
    void add_filter(std::string_view row, std::string_view encoded) {
        if (held_already(row)) return;
        const Predicate predicate = read_predicate(encoded);
        std::vector<uint64_t> hashes;
        if (!predicate.conjunctions.empty())
            for (const Constraint& one : predicate.conjunctions[0].constraints)
                if (in_all(predicate, one.bytes)) hashes.push_back(hash64(one.bytes, seed_));
        if (predicate.conjunctions.size() != 1 || !predicate.program.empty()) hashes.push_back(own_hash(row));
        enter(row, std::move(hashes));
    }

    // Once less. False if it is not there.
    bool remove(std::string_view row) {
        const uint32_t id = find(row);
        if (id == none) return false;
        if (--rows_[id].count > 0) return true;
        if (rows_[id].cover != none) {
            leave_cover(id);
        } else {
            take_out(id);
            const IdList orphans = std::move(rows_[id].aside);
            for (const uint32_t one : orphans) {
                rows_[one].cover = none;
                settle(one);
            }
        }
        for (const Held& one : rows_[id].held) release_element(one.element);
        index_.erase(id, [&](uint32_t one) { return rows_[one].hash; });
        rows_.release(id);
        return true;
    }

    // Rows that are active and were not at the last call, and the other way round.
    std::pair<RowSet, RowSet> take_changes() {
        std::pair<RowSet, RowSet> changes;
        changes.first.swap(come_);
        changes.second.swap(gone_);
        return changes;
    }

    // All rows and elements.
    std::pair<size_t, size_t> sizes() const { return {index_.size(), element_index_.size()}; }

private:
    struct Held {
        uint32_t element;
        uint32_t position;  // among its holders, while the row is active
    };
    struct Row {
        std::string bytes;
        std::vector<Held> held;  // ascending
        IdList aside;            // rows that this one is the cover of
        uint64_t hash = 0;
        uint32_t count = 0;     // how often it was added
        uint32_t cover = none;  // none: it is active
        uint32_t position = 0;  // among the active ones, or those of its cover
        uint32_t place = none;  // the element that it is filed under; none: it has none
        uint32_t filed_at = 0;  // its position there
    };
    struct Element {
        uint64_t hash = 0;
        uint32_t count = 0;  // of rows
        IdList holders, filed;
    };

    uint64_t own_hash(std::string_view row) const { return hash64(row, mix64(seed_ + 1)); }

    static bool in_all(const Predicate& predicate, std::string_view constraint) {
        return std::ranges::all_of(predicate.conjunctions, [&](const Conjunction& conjunction) {
            return std::ranges::any_of(conjunction.constraints,
                                       [&](const Constraint& one) { return one.bytes == constraint; });
        });
    }

    uint32_t find(std::string_view row) const {
        return index_.find(own_hash(row), [&](uint32_t id) { return rows_[id].bytes == row; });
    }

    bool held_already(std::string_view row) {
        const uint32_t id = find(row);
        if (id == none) return false;
        ++rows_[id].count;
        return true;
    }

    void enter(std::string_view bytes, std::vector<uint64_t> hashes) {
        const uint32_t id = rows_.take();
        Row& row = rows_[id];
        row.bytes = bytes;
        row.hash = own_hash(bytes);
        row.count = 1;
        index_.insert(id, [&](uint32_t one) { return rows_[one].hash; });
        std::ranges::sort(hashes);
        hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
        row.held.reserve(hashes.size());
        for (const uint64_t hash : hashes) row.held.push_back({hold_element(hash), 0});
        std::ranges::sort(row.held, {}, &Held::element);
        settle(id);
    }

    uint32_t hold_element(uint64_t hash) {
        const auto hash_of = [&](uint32_t one) { return elements_[one].hash; };
        uint32_t element = element_index_.find(hash, [&](uint32_t one) { return elements_[one].hash == hash; });
        if (element == none) {
            element = elements_.take();
            elements_[element].hash = hash;
            element_index_.insert(element, hash_of);
        }
        ++elements_[element].count;
        return element;
    }

    void release_element(uint32_t element) {
        if (--elements_[element].count) return;
        element_index_.erase(element, [&](uint32_t one) { return elements_[one].hash; });
        elements_.release(element);
    }

    // ---- places

    // Aside, or in the place of all that it makes needless.
    void settle(uint32_t id) {
        if (const uint32_t smaller = contained(id); smaller != none) {
            put_aside(id, smaller);
            return;
        }
        for (const uint32_t larger : containing(id)) {
            take_out(larger);
            const IdList under = std::move(rows_[larger].aside);
            for (const uint32_t one : under) put_aside(one, id);
            put_aside(larger, id);
        }
        put_in(id);
    }

    void put_aside(uint32_t id, uint32_t cover) {
        rows_[id].cover = cover;
        rows_[id].position = rows_[cover].aside.size();
        rows_[cover].aside.push(id);
    }

    void leave_cover(uint32_t id) {
        IdList& aside = rows_[rows_[id].cover].aside;
        const uint32_t position = rows_[id].position;
        aside.take_out(position);
        if (position < aside.size()) rows_[aside[position]].position = position;
    }

    void put_in(uint32_t id) {
        Row& row = rows_[id];
        row.cover = none;
        row.position = static_cast<uint32_t>(active_.size());
        active_.push_back(id);
        row.place = none;
        for (Held& one : row.held) {
            Element& element = elements_[one.element];
            one.position = element.holders.size();
            element.holders.push(id);
            if (row.place == none || element.filed.size() < elements_[row.place].filed.size()) row.place = one.element;
        }
        IdList& filed = row.place == none ? bare_ : elements_[row.place].filed;
        row.filed_at = filed.size();
        filed.push(id);
        note(row.bytes, come_, gone_);
    }

    void take_out(uint32_t id) {
        const Row& row = rows_[id];
        rows_[active_.back()].position = row.position;
        active_[row.position] = active_.back();
        active_.pop_back();
        for (const Held& one : row.held) {
            IdList& holders = elements_[one.element].holders;
            holders.take_out(one.position);
            if (one.position < holders.size()) held(holders[one.position], one.element).position = one.position;
        }
        IdList& filed = row.place == none ? bare_ : elements_[row.place].filed;
        filed.take_out(row.filed_at);
        if (row.filed_at < filed.size()) rows_[filed[row.filed_at]].filed_at = row.filed_at;
        note(row.bytes, gone_, come_);
    }

    Held& held(uint32_t id, uint32_t element) {
        return *std::ranges::lower_bound(rows_[id].held, element, {}, &Held::element);
    }

    // Reports whether all elements of the first are among those of the second.
    bool includes(uint32_t small, uint32_t large) const {
        const auto &few = rows_[small].held, &many = rows_[large].held;
        return std::includes(many.begin(), many.end(), few.begin(), few.end(),
                             [](const Held& a, const Held& b) { return a.element < b.element; });
    }

    // An active row of which all elements are among its own.
    uint32_t contained(uint32_t id) const {
        if (bare_.size()) return bare_[0];
        for (const Held& one : rows_[id].held)
            for (const uint32_t other : elements_[one.element].filed)
                if (includes(other, id)) return other;
        return none;
    }

    // The active rows that have all its elements.
    std::vector<uint32_t> containing(uint32_t id) const {
        const Row& row = rows_[id];
        if (row.held.empty()) return active_;
        const auto count = [&](const Held& one) { return elements_[one.element].holders.size(); };
        const Held& fewest = *std::ranges::min_element(row.held, {}, count);
        std::vector<uint32_t> found;
        for (const uint32_t other : elements_[fewest.element].holders)
            if (includes(id, other)) found.push_back(other);
        return found;
    }

    // A row is active now, or is no longer; if it was the other before, nothing has changed in the end.
    static void note(const std::string& row, RowSet& now, RowSet& before) {
        if (!before.erase(row)) now.insert(row);
    }

    uint64_t seed_;
    Pages<Row> rows_;
    IdTable index_;  // of rows
    Pages<Element> elements_;
    IdTable element_index_;
    std::vector<uint32_t> active_;
    IdList bare_;  // active rows without elements: at most one
    RowSet come_, gone_;
};

}  // namespace tidings
