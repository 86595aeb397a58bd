// Subscribers that ask for one bound and nothing else, sorted by it: those that a message satisfies lie side by side,
// from the value to one of the ends, and are copied out in slices. Chunks keep insertion cheap in lists of any length.
#pragma once
#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "tidings/matching/column.hpp"

namespace tidings {

class BoundList {
public:
    struct Entry {
        uint32_t bound, token, number;  // number: of the constraint, for when positions cannot decide
        auto operator<=>(const Entry&) const = default;
    };

    void add(const Entry& entry) {
        ++size_;
        least_ = std::min(least_, entry.bound);
        greatest_ = std::max(greatest_, entry.bound);
        if (chunks_.empty()) chunks_.push_back(std::make_unique<Chunk>());
        const size_t at = chunk_for(entry);
        Chunk& chunk = *chunks_[at];
        const size_t place = chunk.lower(entry);
        chunk.bounds.insert(place, entry.bound);
        chunk.tokens.insert(place, entry.token);
        chunk.numbers.insert(place, entry.number);
        if (chunk.bounds.size() < chunk_size_max) return;
        auto upper = std::make_unique<Chunk>();
        upper->take_upper_half(chunk);
        chunks_.insert(chunks_.begin() + static_cast<ptrdiff_t>(at) + 1, std::move(upper));
    }

    void remove(const Entry& entry) {
        --size_;
        const size_t at = chunk_for(entry);
        Chunk& chunk = *chunks_[at];
        const size_t place = chunk.lower(entry);
        chunk.bounds.erase(place);
        chunk.tokens.erase(place);
        chunk.numbers.erase(place);
        if (chunk.bounds.empty()) chunks_.erase(chunks_.begin() + static_cast<ptrdiff_t>(at));
        least_ = chunks_.empty() ? UINT32_MAX : chunks_.front()->bounds[0];
        greatest_ = chunks_.empty() ? 0 : chunks_.back()->bounds.back();
    }

    size_t size() const { return size_; }

    // Upper bounds that admit `position`: emit(tokens, count) for those that surely do, doubt(token, number) for the
    // others.
    template <class Emit, class Doubt>
    void above(uint32_t position, Emit&& emit, Doubt&& doubt) const {
        if (position > greatest_) return;
        for (size_t i = chunks_.size(); i-- > 0;) {
            const Chunk& chunk = *chunks_[i];
            const size_t first = chunk.first_from(position), past = chunk.past(first, position);
            settle(chunk, first, past, position, emit, doubt);
            emit(chunk.tokens.data() + past, chunk.tokens.size() - past);
            if (first > 0) break;
        }
    }

    // Lower bounds that admit it.
    template <class Emit, class Doubt>
    void below(uint32_t position, Emit&& emit, Doubt&& doubt) const {
        if (position < least_) return;
        for (const auto& chunk : chunks_) {
            const size_t first = chunk->first_from(position), past = chunk->past(first, position);
            emit(chunk->tokens.data(), first);
            settle(*chunk, first, past, position, emit, doubt);
            if (past < chunk->tokens.size()) break;
        }
    }

    size_t bytes() const {
        size_t sum = chunks_.capacity() * sizeof(void*);
        for (const auto& chunk : chunks_) sum += sizeof(Chunk) + chunk->bounds.bytes() * 3;
        return sum;
    }

private:
    static constexpr size_t chunk_size_max = 512;

    struct Chunk {
        Column<uint32_t> bounds, tokens, numbers;

        Entry at(size_t i) const { return {bounds[i], tokens[i], numbers[i]}; }

        size_t first_from(uint32_t bound) const {
            const uint32_t* base = bounds.data();
            size_t count = bounds.size();
            while (count > 1) {  // without a branch that could be mispredicted
                const size_t half = count / 2;
                base += half * (base[half - 1] < bound);
                count -= half;
            }
            return static_cast<size_t>(base - bounds.data()) + (count == 1 && *base < bound);
        }
        size_t past(size_t first, uint32_t bound) const {
            return first < bounds.size() && bounds[first] == bound ? first_from(bound + 1) : first;
        }
        size_t lower(const Entry& entry) const {
            size_t first = first_from(entry.bound);
            size_t last = past(first, entry.bound);
            while (first < last) {
                const size_t middle = (first + last) / 2;
                if (at(middle) < entry) first = middle + 1;
                else last = middle;
            }
            return first;
        }
        void take_upper_half(Chunk& lower) {
            const size_t half = lower.bounds.size() / 2;
            for (const auto column : {&Chunk::bounds, &Chunk::tokens, &Chunk::numbers}) {
                (this->*column).append((lower.*column).data() + half, (lower.*column).size() - half);
                while ((lower.*column).size() > half) (lower.*column).pop_back();
            }
        }
    };

    // The last chunk that begins at or before the entry.
    size_t chunk_for(const Entry& entry) const {
        if (chunks_.size() == 1) return 0;  // it may still be empty
        const auto after = std::upper_bound(
            chunks_.begin(), chunks_.end(), entry,
            [](const Entry& e, const std::unique_ptr<Chunk>& chunk) { return e < chunk->at(0); });
        return after == chunks_.begin() ? 0 : static_cast<size_t>(after - chunks_.begin()) - 1;
    }

    template <class Emit, class Doubt>
    static void settle(const Chunk& chunk, size_t first, size_t past, uint32_t position, Emit& emit, Doubt& doubt) {
        if (position % 2 == 0) return emit(chunk.tokens.data() + first, past - first);
        for (size_t i = first; i < past; ++i) doubt(chunk.tokens[i], chunk.numbers[i]);
    }

    std::vector<std::unique_ptr<Chunk>> chunks_;
    size_t size_ = 0;
    uint32_t least_ = UINT32_MAX, greatest_ = 0;  // bounds; most messages ask in vain and need not look further
};

// Those of one line.
struct BoundLists {
    BoundList upper, lower;

    size_t size() const { return upper.size() + lower.size(); }
};

}  // namespace tidings
