// Rows that are exact filters: per router predicates as subscriptions have them; which routers have one that a message
// satisfies? They stand beside encoded rows, for subscriptions whose filter is smaller or that the encoding would widen
// (src/tidings/routing/bdrp/interests.py). A router advertises in parts, and while it restarts a row may be in two of
// them: each row is counted.
//
// As bytes such a row is a byte that counts the zeros at its end (0 or 1), the predicate, and these zeros: they keep
// its length from being a multiple of 8, by which encoded rows are known. These bytes are not kept, for there may be a
// million: a row is known by a 128-bit hash of them under a secret seed. Beside the matcher a row takes some 50 bytes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tidings/encoding/router_ranks.hpp"
#include "tidings/encoding/vector_table.hpp"
#include "tidings/matching/matcher.hpp"
#include "tidings/support/hash.hpp"
#include "tidings/support/id_list.hpp"
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

    bool empty() const { return size() == 0; }
    size_t size() const { return index_.size(); }
    uint8_t derived() const { return matcher_.derived(); }

    // Once more.
    void add(uint32_t router, std::string_view row) {
        const Fingerprint print = fingerprint(row);
        uint32_t id = find(print);
        if (id == none) id = new_row(print, row);
        rows_[id].routers.push(routers_.slot_of(router));
    }

    // Once less; false if the router does not have it.
    bool remove(uint32_t router, std::string_view row) {
        const uint32_t slot = routers_.find(router), id = find(fingerprint(row));
        if (slot == RouterRanks::none || id == none || !holds(id, slot)) return false;
        rows_[id].routers.remove(slot);
        release(id);
        return true;
    }

    // Takes as long as there are rows.
    bool drop(uint32_t router) {
        const uint32_t slot = routers_.find(router);
        if (slot == RouterRanks::none) return false;
        for (uint32_t id = 0; id < rows_.end(); ++id) {
            if (!holds(id, slot)) continue;
            while (holds(id, slot)) rows_[id].routers.remove(slot);
            release(id);
        }
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
    struct Fingerprint {
        uint64_t low, high;
        bool operator==(const Fingerprint&) const = default;
    };
    struct Row {
        Fingerprint print{0, 0};
        IdList routers;  // slots, those that have it several times several times
    };

    bool holds(uint32_t id, uint32_t slot) const {
        const IdList& routers = rows_[id].routers;
        return std::find(routers.begin(), routers.end(), slot) != routers.end();
    }

    Fingerprint fingerprint(std::string_view row) const { return {hash64(row, seed_), hash64(row, mix64(seed_ + 1))}; }

    uint32_t find(const Fingerprint& print) const {
        return index_.find(print.low, [&](uint32_t id) { return rows_[id].print == print; });
    }

    uint32_t new_row(const Fingerprint& print, std::string_view row) {
        const uint32_t id = rows_.take();
        try {
            matcher_.add(id, predicate(row));
        } catch (...) {  // refused: nothing has changed
            rows_.release(id);
            throw;
        }
        rows_[id].print = print;
        index_.insert(id, [&](uint32_t one) { return rows_[one].print.low; });
        return id;
    }

    // If no router has it any more.
    void release(uint32_t id) {
        if (rows_[id].routers.size()) return;
        index_.erase(id, [&](uint32_t one) { return rows_[one].print.low; });
        matcher_.remove(id);
        rows_.release(id);
    }

    uint64_t seed_;
    Matcher matcher_;
    Pages<Row> rows_;  // by id
    IdTable index_;    // of rows by their fingerprints
    RouterRanks routers_;
    Column<uint32_t> matched_;
    std::vector<uint64_t> marks_;
};

}  // namespace tidings
