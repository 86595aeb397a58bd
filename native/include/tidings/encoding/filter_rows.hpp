// Rows that are exact filters: per router predicates as subscriptions have them; which routers have one that a message
// satisfies? They stand beside encoded rows, for subscriptions whose filter is smaller or that the encoding would widen
// (src/tidings/routing/bdrp/interests.py).
//
// As bytes such a row is a byte that counts the zeros at its end (0 or 1), the predicate, and these zeros: they keep
// its length from being a multiple of 8, by which encoded rows are known.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/encoding/router_ranks.hpp"
#include "tidings/encoding/vector_table.hpp"
#include "tidings/matching/matcher.hpp"
#include "tidings/support/hash.hpp"
#include "tidings/support/id_table.hpp"

namespace tidings {

class FilterRows {
    static constexpr uint32_t none = IdTable::none;

public:
    explicit FilterRows(uint64_t seed) : seed_(seed) {
        // What is given up may match: a broker too many rather than one too few.
        matcher_.limit(Budget::message_steps, true);
    }

    static bool is_filter(std::string_view row) { return row.size() % 8 != 0; }

    // The predicate of a row; throws if it is none.
    static std::string_view predicate(std::string_view row) {
        const auto zeros = static_cast<uint8_t>(row[0]);
        if (zeros > 1 || row.size() < 2u + zeros || (zeros && row.back() != 0))
            throw UsageError{"E_INTEREST_ROW", "the row is no filter"};
        return row.substr(1, row.size() - 1 - zeros);
    }

    static void check(std::string_view row) {
        const Predicate read = read_predicate(predicate(row));
        if (!read.program.empty()) Program{read.program};
        const NormalForm normal(read);
    }

    bool empty() const { return routers_.size() == 0; }
    size_t size() const { return index_.size(); }
    bool has(uint32_t router) const { return routers_.find(router) != RouterRanks::none; }
    uint8_t derived() const { return matcher_.derived(); }

    // True if the row was new to the router.
    bool add(uint32_t router, std::string_view row) {
        uint32_t id = find(row);
        const uint32_t known = routers_.find(router);
        if (id != none && known != RouterRanks::none && holds(known, id)) return false;
        if (id == none) id = new_row(row);
        const uint32_t slot = routers_.slot_of(router);
        if (slots_.size() < routers_.slots_end()) slots_.resize(routers_.slots_end());
        rows_[id].routers.push(slot);
        slots_[slot].insert(id, [](uint32_t one) { return mix64(one); });
        return true;
    }

    bool remove(uint32_t router, std::string_view row) {
        const uint32_t slot = routers_.find(router), id = find(row);
        if (slot == RouterRanks::none || id == none || !holds(slot, id)) return false;
        slots_[slot].erase(id, [](uint32_t one) { return mix64(one); });
        leave(id, slot);
        if (slots_[slot].size() == 0) drop(router);
        return true;
    }

    bool drop(uint32_t router) {
        const uint32_t slot = routers_.find(router);
        if (slot == RouterRanks::none) return false;
        slots_[slot].each([&](uint32_t id) { leave(id, slot); });
        slots_[slot] = IdTable();
        routers_.erase(router);
        return true;
    }

    // Appends the routers of one message, ascending, each once.
    void match(const MessageView& message, std::vector<uint32_t>& out) {
        matcher_.match(message, matched_);
        marks_.assign(routers_.mark_words(), 0);
        for (const uint32_t id : matched_)
            for (const uint32_t slot : rows_[id].routers) routers_.mark(slot, marks_.data());
        routers_.list(marks_.data(), out);
    }

private:
    struct Row {
        std::string bytes;
        RouterList routers;  // slots
    };

    bool holds(uint32_t slot, uint32_t id) const {
        return slots_[slot].find(mix64(id), [id](uint32_t one) { return one == id; }) != none;
    }

    uint64_t hash(std::string_view row) const { return hash64(row, seed_); }

    uint32_t find(std::string_view row) const {
        return index_.find(hash(row), [&](uint32_t id) { return rows_[id].bytes == row; });
    }

    uint32_t new_row(std::string_view row) {
        uint32_t id = static_cast<uint32_t>(rows_.size());
        if (!free_.empty()) id = free_.back();
        matcher_.add(id, predicate(row));  // may refuse it: nothing has changed yet
        if (free_.empty()) rows_.emplace_back();
        else free_.pop_back();
        rows_[id].bytes = row;
        index_.insert(id, [&](uint32_t one) { return hash(rows_[one].bytes); });
        return id;
    }

    void leave(uint32_t id, uint32_t slot) {
        rows_[id].routers.remove(slot);
        if (rows_[id].routers.size()) return;
        index_.erase(id, [&](uint32_t one) { return hash(rows_[one].bytes); });
        matcher_.remove(id);
        rows_[id] = Row();
        free_.push_back(id);
    }

    uint64_t seed_;
    Matcher matcher_;
    std::vector<Row> rows_;
    std::vector<uint32_t> free_;
    IdTable index_;  // of rows by their bytes
    RouterRanks routers_;
    std::vector<IdTable> slots_;  // each router's rows
    Column<uint32_t> matched_;
    std::vector<uint64_t> marks_;
};

}  // namespace tidings
