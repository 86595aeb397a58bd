// Equal vectors are stored once: a vector's row number, with a count of its holders. Numbers of released rows are used
// again.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "tidings/support/hash.hpp"
#include "tidings/support/id_table.hpp"

namespace tidings {

class VectorTable {
public:
    static constexpr uint32_t none = IdTable::none;

    VectorTable(uint32_t words, uint64_t seed) : w_(words), seed_(seed) {}

    uint32_t words() const { return w_; }
    size_t size() const { return table_.size(); }
    uint32_t rows_end() const { return static_cast<uint32_t>(holders_.size()); }  // every row number is below it
    const uint64_t* operator[](uint32_t row) const { return &data_[static_cast<size_t>(row) * w_]; }

    uint32_t find(const uint64_t* v) const {
        return table_.find(hash64(v, w_ * 8, seed_),
                           [&](uint32_t row) { return std::memcmp((*this)[row], v, w_ * 8) == 0; });
    }

    // The row of the vector, held once more.
    uint32_t hold(const uint64_t* v) {
        uint32_t row = find(v);
        if (row == none) {
            row = fresh();
            std::memcpy(&data_[static_cast<size_t>(row) * w_], v, w_ * 8);
            table_.insert(row, [&](uint32_t one) { return hash64((*this)[one], w_ * 8, seed_); });
        }
        ++holders_[row];
        return row;
    }

    void release(uint32_t row) {
        if (--holders_[row]) return;
        table_.erase(row, [&](uint32_t one) { return hash64((*this)[one], w_ * 8, seed_); });
        free_rows_.push_back(row);
    }

    size_t memory_bytes() const {
        return data_.capacity() * 8 + (holders_.capacity() + free_rows_.capacity()) * 4 + table_.memory_bytes();
    }

private:
    uint32_t fresh() {
        if (!free_rows_.empty()) {
            const uint32_t row = free_rows_.back();
            free_rows_.pop_back();
            return row;
        }
        holders_.push_back(0);
        data_.resize(data_.size() + w_);
        return rows_end() - 1;
    }

    uint32_t w_;
    uint64_t seed_;
    std::vector<uint64_t> data_;
    std::vector<uint32_t> holders_;
    std::vector<uint32_t> free_rows_;
    IdTable table_;
};

}  // namespace tidings
