// The encoded matrix: per router a set of M-bit vectors; finds the routers that have a vector that is a subset of a
// message's.
//
// Equal vectors of all routers are one row (vector_table.hpp). A row is searched (subset_index.hpp) as long as it is
// active for some router (antichain.hpp), and knows for which.
#pragma once
#include <cstdint>
#include <vector>

#include "tidings/encoding/antichain.hpp"
#include "tidings/encoding/router_ranks.hpp"
#include "tidings/encoding/subset_index.hpp"
#include "tidings/support/error.hpp"
#include "tidings/support/id_list.hpp"

namespace tidings {

// Answers for n messages in a row: those of message i are values[offsets[i]] to values[offsets[i + 1]].
struct Answers {
    std::vector<uint64_t> offsets;
    std::vector<uint32_t> values;
};

class EncodedMatrix {
    // Called by an antichain: a row becomes active for a router, or ceases to be.
    auto on(uint32_t slot) {
        return [this, slot](uint32_t row) {
            if (wanting_[row].size() == 0) index_.insert(row);
            wanting_[row].push(slot);
        };
    }

    auto off(uint32_t slot) {
        return [this, slot](uint32_t row) {
            wanting_[row].remove(slot);
            if (wanting_[row].size() == 0) index_.erase(row);
        };
    }

public:
    static constexpr uint32_t bits_max = 1 << 14;

    EncodedMatrix(uint32_t bits, uint64_t seed) : table_(checked(bits) / 64, seed), index_(table_) {}
    EncodedMatrix(const EncodedMatrix&) = delete;

    uint32_t bits() const { return table_.words() * 64; }
    size_t router_count() const { return routers_.size(); }
    size_t row_count() const { return table_.size(); }         // distinct vectors
    size_t active_row_count() const { return index_.size(); }  // of these, searched

    // Returns the number of vectors that were new to the router. Small vectors first: a larger one then finds its cover
    // at once.
    size_t add(uint32_t router, const uint64_t* vectors, size_t n) {
        if (n == 0) return 0;
        const uint32_t slot = slot_of(router);
        const size_t before = slots_[slot].size();
        for (const uint64_t* v : by_size(vectors, n)) {
            const uint32_t row = hold(v);
            if (slots_[slot].has(row)) table_.release(row);
            else slots_[slot].add(row, table_, on(slot), off(slot));
        }
        return slots_[slot].size() - before;
    }

    // Returns the number of vectors that the router had.
    size_t remove(uint32_t router, const uint64_t* vectors, size_t n) {
        const uint32_t slot = routers_.find(router);
        if (slot == RouterRanks::none) return 0;
        size_t removed = 0;
        for (size_t i = 0; i < n; ++i) {
            const uint32_t row = table_.find(vectors + i * table_.words());
            if (row == VectorTable::none || !slots_[slot].has(row)) continue;
            remove_row(slot, row);
            ++removed;
        }
        if (slots_[slot].size() == 0) drop(router);
        return removed;
    }

    // The router's vectors are these from now on. Additions first: they may cover what a removal would bring back.
    void replace(uint32_t router, const uint64_t* vectors, size_t n) {
        if (n == 0) {
            drop(router);
            return;
        }
        add(router, vectors, n);
        const uint32_t slot = routers_.find(router);
        std::vector<bool> wanted(table_.rows_end());
        for (size_t i = 0; i < n; ++i) wanted[table_.find(vectors + i * table_.words())] = true;
        for (uint32_t row : slots_[slot].rows())
            if (!wanted[row]) remove_row(slot, row);
    }

    bool drop(uint32_t router) {
        const uint32_t slot = routers_.find(router);
        if (slot == RouterRanks::none) return false;
        slots_[slot].each_active(off(slot));
        for (uint32_t row : slots_[slot].rows()) table_.release(row);
        slots_[slot] = Antichain();
        routers_.erase(router);
        return true;
    }

    // For each message the routers with a matching vector, each once, ascending.
    Answers match(const uint64_t* messages, size_t n, Simd level = simd_best()) const {
        Answers answers{{0}, {}};
        const size_t words = routers_.mark_words();
        std::vector<uint64_t> marks(SubsetIndex::messages_at_once * words);
        for (size_t start = 0; start < n; start += SubsetIndex::messages_at_once) {
            const size_t size = std::min<size_t>(SubsetIndex::messages_at_once, n - start);
            std::fill(marks.begin(), marks.end(), 0);
            index_.match(
                messages + start * table_.words(), size,
                [&](size_t message, uint32_t row) {
                    for (uint32_t slot : wanting_[row]) routers_.mark(slot, &marks[message * words]);
                },
                level);
            for (size_t message = 0; message < size; ++message) {
                routers_.list(&marks[message * words], answers.values);
                answers.offsets.push_back(answers.values.size());
            }
        }
        return answers;
    }

    // For each message the active rows that match, in no particular order.
    Answers match_rows(const uint64_t* messages, size_t n, Simd level = simd_best()) const {
        Answers answers{{0}, {}};
        std::vector<std::vector<uint32_t>> found(SubsetIndex::messages_at_once);
        for (size_t start = 0; start < n; start += SubsetIndex::messages_at_once) {
            const size_t size = std::min<size_t>(SubsetIndex::messages_at_once, n - start);
            index_.match(
                messages + start * table_.words(), size,
                [&](size_t message, uint32_t row) { found[message].push_back(row); }, level);
            for (size_t message = 0; message < size; ++message) {
                answers.values.insert(answers.values.end(), found[message].begin(), found[message].end());
                answers.offsets.push_back(answers.values.size());
                found[message].clear();
            }
        }
        return answers;
    }

    // The vectors of a router: all, or only the minimal ones.
    std::vector<uint64_t> vectors(uint32_t router, bool minimal) const {
        std::vector<uint64_t> out;
        const uint32_t slot = routers_.find(router);
        if (slot == RouterRanks::none) return out;
        auto append = [&](uint32_t row) { out.insert(out.end(), table_[row], table_[row] + table_.words()); };
        const Antichain& own = slots_[slot];
        if (minimal) own.each_active(append);
        else
            for (uint32_t row : own.rows()) append(row);
        return out;
    }

    size_t memory_bytes() const {
        size_t bytes = sizeof *this + table_.memory_bytes() + index_.memory_bytes() +
                       wanting_.capacity() * sizeof(IdList);
        for (const IdList& list : wanting_) bytes += list.heap_bytes();
        for (const Antichain& own : slots_) bytes += own.memory_bytes();
        return bytes;
    }

private:
    static uint32_t checked(uint32_t bits) {
        if (bits == 0 || bits % 64 || bits > bits_max)
            throw UsageError{"E_MATRIX_BITS", std::to_string(bits) + " bits are not a multiple of 64 from 64 to 16384"};
        return bits;
    }

    uint32_t hold(const uint64_t* v) {
        const uint32_t row = table_.hold(v);
        if (row >= wanting_.size()) wanting_.resize(row + 1);
        return row;
    }

    void remove_row(uint32_t slot, uint32_t row) {
        slots_[slot].remove(row, table_, on(slot), off(slot));
        table_.release(row);
    }

    std::vector<const uint64_t*> by_size(const uint64_t* vectors, size_t n) const {
        std::vector<const uint64_t*> sorted(n);
        for (size_t i = 0; i < n; ++i) sorted[i] = vectors + i * table_.words();
        std::stable_sort(sorted.begin(), sorted.end(), [&](const uint64_t* a, const uint64_t* b) {
            return popcount(a, table_.words()) < popcount(b, table_.words());
        });
        return sorted;
    }

    uint32_t slot_of(uint32_t router) {
        const uint32_t slot = routers_.slot_of(router);
        if (slots_.size() < routers_.slots_end()) slots_.resize(routers_.slots_end());
        return slot;
    }

    VectorTable table_;
    SubsetIndex index_;
    std::vector<IdList> wanting_;  // row -> slots of the routers for which it is active
    RouterRanks routers_;
    std::vector<Antichain> slots_;  // each router's vectors
};

}  // namespace tidings
