// Conjunctions of two or more constraints, each distinct one stored once: a row of references in an arena of words.
#pragma once
#include <algorithm>
#include <map>
#include <span>

#include "tidings/matching/constraint_table.hpp"

namespace tidings {

// Short records of 32-bit words, addressed by offset; never moved, recycled by length.
class WordArena {
public:
    uint32_t take(uint32_t words) {
        Column<uint32_t>& free = free_[words];
        if (!free.empty()) {
            const uint32_t offset = free.back();
            free.pop_back();
            return offset;
        }
        if (pages_.empty() || used_ + words > page_words) {
            if (pages_.size() == pages_max) throw UsageError{"E_MATCHER_LIMIT", "the matcher is full"};
            pages_.push_back(std::make_unique<uint32_t[]>(page_words));
            used_ = 0;
        }
        const uint32_t offset = static_cast<uint32_t>((pages_.size() - 1) * page_words + used_);
        used_ += words;
        return offset;
    }
    void release(uint32_t offset, uint32_t words) { free_[words].push_back(offset); }

    uint32_t* at(uint32_t offset) { return pages_[offset / page_words].get() + offset % page_words; }
    const uint32_t* at(uint32_t offset) const { return pages_[offset / page_words].get() + offset % page_words; }
    size_t bytes() const {
        size_t sum = pages_.size() * page_words * sizeof(uint32_t);
        for (const auto& [words, free] : free_) sum += free.bytes();
        return sum;
    }

    static constexpr uint32_t page_words = 1 << 15;

private:
    static constexpr size_t pages_max = (size_t{1} << 31) / page_words;  // offsets leave one bit free

    std::vector<std::unique_ptr<uint32_t[]>> pages_;
    std::map<uint32_t, Column<uint32_t>> free_;
    uint32_t used_ = 0;
};

// The access path of a row: through a pair of equalities, the list of its first constraint, its bounds, or always
// looked at.
enum class Access : uint32_t { Pair, List, Range, Always };

class RowTable {
public:
    static constexpr uint32_t header_words = 3, constraints_max = 4096;

    struct Row {
        uint32_t token;   // whom it leads to
        uint32_t place;   // where its index keeps it
        uint32_t layout;  // number of references, access
        Reference first[1];

        uint32_t count() const { return layout >> 2; }
        Access access() const { return static_cast<Access>(layout & 3); }
        std::span<const Reference> references() const { return {first, count()}; }
        // Those that must be checked when the index has found the row.
        std::span<const Reference> rest() const {
            const uint32_t found = access() == Access::Pair ? 2 : access() == Access::List ? 1 : 0;
            return {first + found, count() - found};
        }
    };
    static_assert(sizeof(Row) == (header_words + 1) * sizeof(uint32_t));

    Row& operator[](uint32_t row) { return *reinterpret_cast<Row*>(arena_.at(row)); }
    const Row& operator[](uint32_t row) const { return *reinterpret_cast<const Row*>(arena_.at(row)); }

    // The row with exactly these references (each once, in any order), or none.
    uint32_t find(const std::vector<Reference>& references) const {
        return index_.find(hash_of(references), [&](uint32_t row) {
            const auto stored = (*this)[row].references();
            return stored.size() == references.size() && std::ranges::all_of(references, [&](Reference one) {
                       return std::ranges::find(stored, one) != stored.end();
                   });
        });
    }

    uint32_t add(const std::vector<Reference>& references, Access access) {
        const uint32_t row = arena_.take(header_words + static_cast<uint32_t>(references.size()));
        Row& made = (*this)[row];
        made.layout = static_cast<uint32_t>(references.size()) << 2 | static_cast<uint32_t>(access);
        std::copy(references.begin(), references.end(), made.first);
        index_.insert(hash_of(references), row);
        return row;
    }

    void erase(uint32_t row) {
        index_.erase(hash_of((*this)[row].references()), row);
        arena_.release(row, header_words + (*this)[row].count());
    }

    size_t size() const { return index_.size(); }
    size_t bytes() const { return arena_.bytes() + index_.bytes(); }

private:
    static uint64_t hash_of(std::span<const Reference> references) {
        uint64_t sum = references.size();  // a sum, so that order does not matter
        for (const Reference one : references) sum += mix64(one + 0x9E3779B97F4A7C15ull);
        return mix64(sum);
    }

    WordArena arena_;
    HashIndex index_;
};

}  // namespace tidings
