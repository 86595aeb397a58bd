// A dynamic set of M-bit vectors that finds those that are subsets of a message.
//
// The rows lie in blocks of up to 512 (subset_block.hpp), in the order of their bits read from position 0 on.
// Neighbours in that order begin with the same bits, so a block's rows have a few set bits in common, and a message
// that lacks one of these skips the block after one comparison. Order also makes it dynamic: as in a B-tree a full
// block is split in two and thin neighbours are joined, so an insertion or removal never touches more than 512 rows.
//
//   order:   [ 1101.. 1110.. ]  [ 1000.. 1001.. 1011.. ]  [ 0110.. 0111.. ]
//   common:    11                 10                        011
//
// Messages are taken 64 at a time and blocks are the outer loop: a block is read into the first-level cache once and
// serves all 64. On the workload of the B-DRP paper with a million vectors (2000 blocks) more than half of the blocks
// are skipped. What was not done: a tree of common bits above the blocks, and a separate row scan for small sets, which
// was slower even at 1000 rows.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "tidings/encoding/subset_block.hpp"

namespace tidings {

class SubsetIndex {
public:
    static constexpr uint32_t messages_at_once = 64;

    explicit SubsetIndex(const VectorTable& table) : table_(table), w_(table.words()) { new_block(0); }

    uint32_t size() const { return live_; }

    // The table's row must not be in the index yet.
    void insert(uint32_t row) {
        if (row >= where_.size()) where_.resize(table_.rows_end());
        uint32_t place = place_of(table_[row]);
        if (blocks_[order_[place]]->full()) {
            split(place);
            place = place_of(table_[row]);
        }
        put(order_[place], row);
        ++live_;
    }

    void erase(uint32_t row) {
        const Place at = where_[row];
        blocks_[at.block]->erase(table_[row], at.slot, table_);
        --live_;
        if (blocks_[at.block]->size() < SubsetBlock::rows_max / 4) join_if_thin(place_of(table_[row]));
    }

    // Calls emit(message, row) for every pair where the row is a subset of the message's vector.
    template <class Emit>
    void match(const uint64_t* messages, size_t n, Emit&& emit, Simd level = simd_best()) const {
        std::vector<uint16_t> zeros(messages_at_once * w_ * 64);
        for (size_t start = 0; start < n; start += messages_at_once) {
            const uint32_t size = static_cast<uint32_t>(std::min<size_t>(messages_at_once, n - start));
            const Batch batch = prepare(messages + start * w_, size, zeros.data());
            auto report = [&](uint32_t message, uint32_t row) { emit(start + message, row); };
            switch (level) {
                case Simd::Avx512: match_avx512(batch, report); break;
                case Simd::Avx2: match_avx2(batch, report); break;
                default: match_body<ColumnsPortable>(batch, report);
            }
        }
    }

    size_t memory_bytes() const {
        return sizeof *this + order_.size() * SubsetBlock::memory_bytes(w_) + where_.capacity() * sizeof(Place) +
               (free_blocks_.capacity() + order_.capacity()) * 4;
    }

private:
    struct Place {
        uint32_t block;
        uint32_t slot;
    };

    struct Batch {
        const uint64_t* vectors;
        uint32_t size;
        const uint16_t* zeros;  // of message i: from i * M on
        uint32_t zero_counts[messages_at_once];
    };

    Batch prepare(const uint64_t* vectors, uint32_t size, uint16_t* zeros) const {
        Batch batch{vectors, size, zeros, {}};
        for (uint32_t i = 0; i < size; ++i) {
            uint16_t* out = zeros + i * w_ * 64;
            for (uint32_t j = 0; j < w_; ++j)
                for (uint64_t rest = ~vectors[i * w_ + j]; rest; rest &= rest - 1)
                    *out++ = static_cast<uint16_t>(j * 64 + static_cast<uint32_t>(std::countr_zero(rest)));
            batch.zero_counts[i] = static_cast<uint32_t>(out - (zeros + i * w_ * 64));
        }
        return batch;
    }

    template <class Report>
    TIDINGS_TARGET_AVX2 void match_avx2(const Batch& batch, Report& report) const {
        match_body<ColumnsAvx2>(batch, report);
    }
    template <class Report>
    TIDINGS_TARGET_AVX512 void match_avx512(const Batch& batch, Report& report) const {
        match_body<ColumnsAvx512>(batch, report);
    }

    template <class Ops, class Report>
    TIDINGS_INLINE void match_body(const Batch& batch, Report& report) const {
        for (uint32_t block_id : order_) {
            const SubsetBlock& block = *blocks_[block_id];
            uint32_t open[messages_at_once];  // the messages that have all bits the block's rows share
            const uint32_t count = w_ == 4 ? select<4>(block, batch, open) : select<0>(block, batch, open);
            for (uint32_t i = 0; i < count; ++i) {
                const uint32_t message = open[i];
                alignas(64) uint64_t hits[column_words];
                if (!block.match<Ops>(batch.zeros + message * w_ * 64, batch.zero_counts[message], hits)) continue;
                for (uint32_t lane = 0; lane < column_words; ++lane)
                    for (uint64_t rest = hits[lane]; rest; rest &= rest - 1)
                        report(message, block.rows[lane * 64 + static_cast<uint32_t>(std::countr_zero(rest))]);
            }
        }
    }

    template <uint32_t Words>
    TIDINGS_INLINE uint32_t select(const SubsetBlock& block, const Batch& batch, uint32_t* open) const {
        const uint32_t n = Words ? Words : w_;
        const uint64_t* common = block.common();
        uint32_t count = 0;
        for (uint32_t i = 0; i < batch.size; ++i) {
            const uint64_t* message = batch.vectors + i * n;
            uint64_t lacking = 0;
            for (uint32_t j = 0; j < n; ++j) lacking |= common[j] & ~message[j];
            open[count] = i;
            count += lacking == 0;
        }
        return count;
    }

    // Order by bits from position 0 on, a set bit first.
    bool before(const uint64_t* a, const uint64_t* b) const {
        for (uint32_t i = 0; i < w_; ++i)
            if (const uint64_t differ = a[i] ^ b[i]) return a[i] >> std::countr_zero(differ) & 1;
        return false;
    }

    // The last block whose lower bound is not after v.
    uint32_t place_of(const uint64_t* v) const {
        const auto after = std::upper_bound(
            order_.begin() + 1, order_.end(), v,
            [&](const uint64_t* key, uint32_t block) { return before(key, blocks_[block]->low()); });
        return static_cast<uint32_t>(after - order_.begin()) - 1;
    }

    uint32_t new_block(uint32_t place) {
        uint32_t id;
        if (free_blocks_.empty()) {
            id = static_cast<uint32_t>(blocks_.size());
            blocks_.push_back(std::make_unique<SubsetBlock>(w_));
        } else {
            id = free_blocks_.back();
            free_blocks_.pop_back();
            blocks_[id] = std::make_unique<SubsetBlock>(w_);
        }
        order_.insert(order_.begin() + place, id);
        return id;
    }

    void put(uint32_t block, uint32_t row) { where_[row] = {block, blocks_[block]->insert(table_[row], row)}; }

    // Moves the upper half of a full block into a new one after it.
    void split(uint32_t place) {
        SubsetBlock& block = *blocks_[order_[place]];
        std::vector<uint32_t> rows(block.rows, block.rows + SubsetBlock::rows_max);
        const auto middle = rows.begin() + SubsetBlock::rows_max / 2;
        std::nth_element(rows.begin(), middle, rows.end(),
                         [&](uint32_t a, uint32_t b) { return before(table_[a], table_[b]); });
        for (auto row = middle; row != rows.end(); ++row) block.erase(table_[*row], where_[*row].slot, table_);
        const uint32_t upper = new_block(place + 1);
        std::memcpy(blocks_[upper]->low(), table_[*middle], w_ * 8);
        for (auto row = middle; row != rows.end(); ++row) put(upper, *row);
    }

    // Joins a block that has become thin with its successor or predecessor if both fit well into one.
    void join_if_thin(uint32_t place) {
        if (order_.size() == 1) return;
        const uint32_t left = place + 1 < order_.size() ? place : place - 1;
        SubsetBlock& kept = *blocks_[order_[left]];
        SubsetBlock& gone = *blocks_[order_[left + 1]];
        if (kept.size() + gone.size() > SubsetBlock::rows_max * 3 / 4) return;
        gone.each_slot([&](uint32_t slot) { put(order_[left], gone.rows[slot]); });
        const uint32_t id = order_[left + 1];
        order_.erase(order_.begin() + left + 1);
        blocks_[id].reset();
        free_blocks_.push_back(id);
    }

    const VectorTable& table_;
    uint32_t w_;
    uint32_t live_ = 0;
    std::deque<std::unique_ptr<SubsetBlock>> blocks_;
    std::vector<uint32_t> order_;  // block numbers, by lower bound
    std::vector<uint32_t> free_blocks_;
    std::vector<Place> where_;  // row -> block and slot
};

}  // namespace tidings
