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

// The smallest thing a row must know: which routers want it. Up to two without memory of their own.
class RouterList {
public:
    RouterList() = default;
    RouterList(RouterList&& other) noexcept { swap(other); }
    RouterList& operator=(RouterList&& other) noexcept {
        swap(other);
        return *this;
    }
    ~RouterList() {
        if (capacity_ > inline_max) delete[] heap;
    }

    uint32_t size() const { return count_; }
    const uint32_t* begin() const { return capacity_ > inline_max ? heap : own; }
    const uint32_t* end() const { return begin() + count_; }

    void push(uint32_t slot) {
        if (count_ == capacity_) grow();
        items()[count_++] = slot;
    }

    void remove(uint32_t slot) {
        uint32_t* at = items();
        while (*at != slot) ++at;
        *at = items()[--count_];
    }

    size_t heap_bytes() const { return capacity_ > inline_max ? capacity_ * 4 : 0; }

private:
    static constexpr uint32_t inline_max = 2;

    uint32_t* items() { return capacity_ > inline_max ? heap : own; }

    void grow() {
        uint32_t* larger = new uint32_t[capacity_ * 2];
        std::memcpy(larger, items(), count_ * 4);
        if (capacity_ > inline_max) delete[] heap;
        heap = larger;
        capacity_ *= 2;
    }

    void swap(RouterList& other) {
        char bytes[sizeof(RouterList)];
        std::memcpy(bytes, static_cast<void*>(this), sizeof bytes);
        std::memcpy(static_cast<void*>(this), static_cast<void*>(&other), sizeof bytes);
        std::memcpy(static_cast<void*>(&other), bytes, sizeof bytes);
    }

    uint32_t count_ = 0;
    uint32_t capacity_ = inline_max;
    union {
        uint32_t own[inline_max] = {0, 0};
        uint32_t* heap;
    };
};

}  // namespace tidings
