// Up to 512 vectors of M bits as columns: for each of the M positions 512 bits, one a row. The rows stay in a
// VectorTable.
//
// A row matches a message if it has no bit where the message has none. So the rows that do *not* match are the union of
// the columns at the message's zero bits: one load and one OR decide a bit for 512 rows at once, and as soon as the
// union is full the block is done. Before that, one comparison with the bits that all rows of the block share
// (`common`) rejects the whole block; the index keeps similar rows together so that this happens most of the time.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "tidings/encoding/simd_lane.hpp"
#include "tidings/encoding/vector_table.hpp"

namespace tidings {

class SubsetBlock {
public:
    static constexpr uint32_t rows_max = column_words * 64;

    explicit SubsetBlock(uint32_t words) : w_(words) {
        const size_t size = data_words(w_) * 8;
        data_.reset(static_cast<uint64_t*>(std::aligned_alloc(64, (size + 63) / 64 * 64)));
        if (!data_) throw std::bad_alloc();
        std::memset(data_.get(), 0, size);
        std::memset(common(), 0xFF, w_ * 8);
    }

    uint32_t size() const { return count_; }
    bool full() const { return count_ == rows_max; }
    uint64_t* common() { return alive() + column_words; }
    const uint64_t* common() const { return alive() + column_words; }
    uint64_t* low() { return common() + w_; }  // no row of the block sorts before it
    const uint64_t* low() const { return common() + w_; }

    template <class Visit>
    void each_slot(Visit&& visit) const {
        for (uint32_t lane = 0; lane < column_words; ++lane)
            for (uint64_t rest = alive()[lane]; rest; rest &= rest - 1)
                visit(lane * 64 + static_cast<uint32_t>(std::countr_zero(rest)));
    }

    static constexpr size_t memory_bytes(uint32_t w) { return sizeof(SubsetBlock) + data_words(w) * 8; }

    uint32_t insert(const uint64_t* vector, uint32_t row) {
        uint32_t lane = 0;
        while (~alive()[lane] == 0) ++lane;
        const uint32_t slot = lane * 64 + static_cast<uint32_t>(std::countr_zero(~alive()[lane]));
        flip(vector, slot);
        for (uint32_t i = 0; i < w_; ++i) common()[i] &= vector[i];
        rows[slot] = row;
        ++count_;
        return slot;
    }

    // `common` may have become too small, which is correct but slower; it is recomputed now and then.
    void erase(const uint64_t* vector, uint32_t slot, const VectorTable& table) {
        flip(vector, slot);
        --count_;
        if (++erased_ < rows_max / 16) return;
        erased_ = 0;
        std::memset(common(), 0xFF, w_ * 8);
        each_slot([&](uint32_t other) {
            for (uint32_t i = 0; i < w_; ++i) common()[i] &= table[rows[other]][i];
        });
    }

    // Sets bit s of `hits` for each row s that is a subset of the message whose zero bits are listed; false: none is.
    // Ops is one of simd_lane.hpp.
    template <class Ops>
    TIDINGS_INLINE bool match(const uint16_t* zeros, uint32_t zero_count, uint64_t* hits) const {
        return Ops::match(data_.get(), alive(), zeros, zero_count, hits);
    }

    uint32_t rows[rows_max];  // slot -> row number

private:
    struct Free {
        void operator()(uint64_t* p) const { std::free(p); }
    };

    const uint64_t* alive() const { return data_.get() + w_ * 64 * column_words; }
    uint64_t* alive() { return data_.get() + w_ * 64 * column_words; }
    static constexpr size_t data_words(uint32_t w) { return w * 64 * column_words + column_words + w * 2; }

    void flip(const uint64_t* vector, uint32_t slot) {
        const uint64_t bit = 1ull << (slot & 63);
        alive()[slot / 64] ^= bit;
        for (uint32_t i = 0; i < w_; ++i)
            for (uint64_t rest = vector[i]; rest; rest &= rest - 1) {
                const uint32_t position = i * 64 + static_cast<uint32_t>(std::countr_zero(rest));
                data_[position * column_words + slot / 64] ^= bit;
            }
    }

    uint32_t w_;
    uint32_t count_ = 0;
    uint32_t erased_ = 0;                     // since `common` was computed
    std::unique_ptr<uint64_t[], Free> data_;  // columns, alive, common, low
};

}  // namespace tidings
