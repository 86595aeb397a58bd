// Equal vectors are stored once: a vector's row number, with a count of who holds it. Numbers of released rows are used again.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "tidings/support/hash.hpp"
#include "tidings/support/id_table.hpp"

namespace tidings {

class VectorTable {
public:
    static constexpr uint32_t None = IdTable::None;

    VectorTable(uint32_t words, uint64_t seed) : w(words), seed(seed) {}

    uint32_t words() const { return w; }
    size_t size() const { return table.size(); }
    uint32_t rows_end() const { return static_cast<uint32_t>(holders.size()); }  // every row number is below it
    const uint64_t* operator[](uint32_t row) const { return &data[static_cast<size_t>(row) * w]; }

    uint32_t find(const uint64_t* v) const {
        return table.find(hash64(v, w * 8, seed), [&](uint32_t row) { return std::memcmp((*this)[row], v, w * 8) == 0; });
    }

    // The row of the vector, held once more.
    uint32_t hold(const uint64_t* v) {
        uint32_t row = find(v);
        if (row == None) {
            row = fresh();
            std::memcpy(&data[static_cast<size_t>(row) * w], v, w * 8);
            table.insert(row, [&](uint32_t one) { return hash64((*this)[one], w * 8, seed); });
        }
        ++holders[row];
        return row;
    }

    void release(uint32_t row) {
        if (--holders[row]) return;
        table.erase(row, [&](uint32_t one) { return hash64((*this)[one], w * 8, seed); });
        free_rows.push_back(row);
    }

    size_t memory_bytes() const {
        return data.capacity() * 8 + (holders.capacity() + free_rows.capacity()) * 4 + table.memory_bytes();
    }

private:
    uint32_t fresh() {
        if (!free_rows.empty()) {
            const uint32_t row = free_rows.back();
            free_rows.pop_back();
            return row;
        }
        holders.push_back(0);
        data.resize(data.size() + w);
        return rows_end() - 1;
    }

    uint32_t w;
    uint64_t seed;
    std::vector<uint64_t> data;
    std::vector<uint32_t> holders;
    std::vector<uint32_t> free_rows;
    IdTable table;
};

// The smallest thing a row must know: which routers want it. Up to two without memory of their own.
class RouterList {
public:
    RouterList() = default;
    RouterList(RouterList&& other) noexcept { swap(other); }
    RouterList& operator=(RouterList&& other) noexcept { swap(other); return *this; }
    ~RouterList() { if (capacity > Inline) delete[] heap; }

    uint32_t size() const { return count; }
    const uint32_t* begin() const { return capacity > Inline ? heap : own; }
    const uint32_t* end() const { return begin() + count; }

    void push(uint32_t slot) {
        if (count == capacity) grow();
        items()[count++] = slot;
    }

    void remove(uint32_t slot) {
        uint32_t* at = items();
        while (*at != slot) ++at;
        *at = items()[--count];
    }

    size_t heap_bytes() const { return capacity > Inline ? capacity * 4 : 0; }

private:
    static constexpr uint32_t Inline = 2;

    uint32_t* items() { return capacity > Inline ? heap : own; }

    void grow() {
        uint32_t* larger = new uint32_t[capacity * 2];
        std::memcpy(larger, items(), count * 4);
        if (capacity > Inline) delete[] heap;
        heap = larger;
        capacity *= 2;
    }

    void swap(RouterList& other) {
        char bytes[sizeof(RouterList)];
        std::memcpy(bytes, static_cast<void*>(this), sizeof bytes);
        std::memcpy(static_cast<void*>(this), static_cast<void*>(&other), sizeof bytes);
        std::memcpy(static_cast<void*>(&other), bytes, sizeof bytes);
    }

    uint32_t count = 0;
    uint32_t capacity = Inline;
    union {
        uint32_t own[Inline] = {0, 0};
        uint32_t* heap;
    };
};

}  // namespace tidings
