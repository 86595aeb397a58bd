// Conjunctions that only bounds can find. An access key would not help: half of all messages satisfy a typical bound.
// Rows that bound the same lines (an attribute's values of one kind) form a group and are stored by columns, the lowest
// and the highest admitted position of each line, so that one comparison settles eight rows. A message skips every
// group with a line it has no value on. Compared with cumulative bitmaps per (attribute, bucket) this takes 8 bytes a
// line instead of one bit a bucket, is exact at every threshold, and a row is added or removed in constant time.
#pragma once
#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "tidings/matching/column.hpp"
#include "tidings/matching/hash_index.hpp"
#include "tidings/matching/position.hpp"
#include "tidings/support/hash.hpp"
#include "tidings/support/simd.hpp"
#if defined(TIDINGS_X86)
#include <immintrin.h>
#endif

namespace tidings {

class RangeGroups {
public:
    struct Interval {
        uint32_t line, low,
            high;  // positions, both admitted; if none is, low is position_high and high is position_low
    };
    static uint64_t line_bit(uint32_t line) { return 1ull << (line & 63); }
    static constexpr uint32_t check_rest = 1u << 31;  // in a row's number: it has constraints besides bounds

    // Intervals sorted by line. Returns the place under which remove() will find the row.
    uint32_t add(const std::vector<Interval>& intervals, uint32_t token, uint32_t row) {
        const uint32_t number = find_or_add(intervals);
        Group& group = *groups_[number];
        if (group.chunks.empty() || group.chunks.back()->size == chunk_size_max)
            group.chunks.push_back(std::make_unique<Chunk>(group.lines.size()));
        group.chunks.back()->push(intervals, token, row);
        return group.size++;
    }

    template <class Moved>
    void remove(const std::vector<Interval>& intervals, uint32_t place, Moved&& moved) {
        const uint32_t number = find(intervals, hash_of(intervals));
        Group& group = *groups_[number];
        Chunk& last = *group.chunks.back();
        if (place != --group.size) {
            group.chunks[place / chunk_size_max]->copy(place % chunk_size_max, last, last.size - 1);
            moved(last.rows[last.size - 1] & ~check_rest, place);
        }
        if (--last.size == 0) group.chunks.pop_back();
        if (group.size == 0) drop(number, hash_of(intervals));
    }

    // For the rows whose bounds admit the positions: hits(tokens, count), or doubt(token, row) where more must decide.
    // `low` and `high` give a line's position, or what satisfies no bound; `present` has the bits of lines with a
    // position.
    template <class Hits, class Doubt>
    void match(uint32_t line, uint64_t present, const uint32_t* low, const uint32_t* high, Hits&& hits, Doubt&& doubt) {
        if (line >= by_line_.size()) return;
        for (const Entry& entry : by_line_[line]) {
            if (entry.lines & ~present) continue;
            const Group& group = *groups_[entry.group];
            positions_.clear();
            bool exact = true;
            for (const uint32_t one : group.lines) {
                if (low[one] != high[one]) break;
                positions_.push_back(low[one]);
                exact = exact && exact_position(low[one]);
            }
            if (positions_.size() != group.lines.size()) continue;
            for (const auto& chunk : group.chunks) match_chunk(*chunk, exact, hits, doubt);
        }
    }

    size_t bytes() const {
        size_t sum = index_.bytes() + groups_.capacity() * sizeof(void*) + by_line_.capacity() * sizeof(by_line_[0]);
        for (const auto& group : groups_) {
            if (!group) continue;
            sum += sizeof(Group) + group->lines.capacity() * 4 + group->chunks.capacity() * sizeof(void*);
            for (const auto& chunk : group->chunks) sum += chunk->bytes();
        }
        return sum;
    }

private:
    static constexpr uint32_t chunk_size_max = 1024;

    // Columns low and high of each line, one after the other, then tokens and rows.
    struct Chunk {
        std::unique_ptr<uint32_t[]> storage;
        uint32_t *tokens = nullptr, *rows = nullptr;
        uint32_t size = 0, capacity = 0;
        const size_t lines;

        explicit Chunk(size_t lines) : lines(lines) {}

        uint32_t* column(size_t i) const { return storage.get() + i * capacity; }
        size_t bytes() const { return sizeof(Chunk) + (2 * lines + 2) * capacity * sizeof(uint32_t); }

        void push(const std::vector<Interval>& intervals, uint32_t token, uint32_t row) {
            if (size == capacity) grow();
            for (size_t i = 0; i < lines; ++i) {
                column(2 * i)[size] = intervals[i].low;
                column(2 * i + 1)[size] = intervals[i].high;
            }
            tokens[size] = token;
            rows[size++] = row;
        }
        void copy(size_t to, const Chunk& other, size_t from) {
            for (size_t i = 0; i < 2 * lines + 2; ++i) column(i)[to] = other.column(i)[from];
        }
        void grow() {
            Chunk wider(lines);
            wider.capacity = capacity ? capacity * 2 : 16;
            wider.storage = std::make_unique<uint32_t[]>((2 * lines + 2) * wider.capacity);
            for (size_t i = 0; i < 2 * lines + 2; ++i) std::copy_n(column(i), size, wider.column(i));
            storage = std::move(wider.storage);
            capacity = wider.capacity;
            tokens = column(2 * lines);
            rows = column(2 * lines + 1);
        }
    };

    struct Entry {
        uint64_t lines;  // their bits: most groups are ruled out without being looked at
        uint32_t group;
    };

    struct Group {
        std::vector<uint32_t> lines;
        std::vector<std::unique_ptr<Chunk>> chunks;
        uint32_t size = 0;
    };

    static uint64_t hash_of(const std::vector<Interval>& intervals) {
        uint64_t hash = intervals.size();
        for (const Interval& one : intervals) hash = mix64(hash ^ one.line * 0x9E3779B97F4A7C15ull);
        return hash;
    }

    uint32_t find(const std::vector<Interval>& intervals, uint64_t hash) const {
        return index_.find(hash, [&](uint32_t number) {
            return std::ranges::equal(groups_[number]->lines, intervals, {}, {}, &Interval::line);
        });
    }

    uint32_t find_or_add(const std::vector<Interval>& intervals) {
        const uint64_t hash = hash_of(intervals);
        uint32_t number = find(intervals, hash);
        if (number != none) return number;
        auto group = std::make_unique<Group>();
        for (const Interval& one : intervals) group->lines.push_back(one.line);
        if (group->lines.back() >= by_line_.size()) by_line_.resize(group->lines.back() + 1);
        if (free_.empty()) {
            number = static_cast<uint32_t>(groups_.size());
            groups_.emplace_back();
        } else {
            number = free_.back();
            free_.pop_back();
        }
        uint64_t lines = 0;
        for (const uint32_t line : group->lines) lines |= line_bit(line);
        by_line_[access(*group)].push_back({lines, number});
        groups_[number] = std::move(group);
        index_.insert(hash, number);
        return number;
    }

    // The line that will lead to a new group: the one that leads to the fewest so far.
    uint32_t access(const Group& group) const {
        return *std::ranges::min_element(group.lines, {}, [&](uint32_t line) { return by_line_[line].size(); });
    }

    void drop(uint32_t number, uint64_t hash) {
        for (const uint32_t line : groups_[number]->lines) {
            Column<Entry>& list = by_line_[line];
            for (uint32_t i = 0; i < list.size(); ++i)
                if (list[i].group == number) {
                    list[i] = list.back();
                    list.pop_back();
                    break;
                }
        }
        index_.erase(hash, number);
        groups_[number].reset();
        free_.push_back(number);
    }

    template <class Hits, class Doubt>
    void match_chunk(const Chunk& chunk, bool exact, Hits& hits, Doubt& doubt) {
        for (uint32_t start = 0; start < chunk.size; start += 64) {
            uint64_t mask = admitted(chunk, start);
            if (chunk.size - start < 64) mask &= (1ull << (chunk.size - start)) - 1;
            uint32_t found[64];
            size_t count = 0;
            for (; mask; mask &= mask - 1) {
                const uint32_t i = start + static_cast<uint32_t>(std::countr_zero(mask));
                if (!(chunk.rows[i] & check_rest) && (exact || !touches(chunk, i))) found[count++] = chunk.tokens[i];
                else doubt(chunk.tokens[i], chunk.rows[i] & ~check_rest);
            }
            hits(static_cast<const uint32_t*>(found), count);
        }
    }

    // True if a bound stands exactly at an odd position of the message.
    bool touches(const Chunk& chunk, uint32_t i) const {
        for (size_t line = 0; line < chunk.lines; ++line) {
            const uint32_t at = positions_[line];
            if (!exact_position(at) && (chunk.column(2 * line)[i] == at || chunk.column(2 * line + 1)[i] == at))
                return true;
        }
        return false;
    }

    // Bit i: row start + i admits all positions. Capacities are multiples of 16, so whole vectors may be read.
    uint64_t admitted(const Chunk& chunk, uint32_t start) const {
#if defined(TIDINGS_X86)
        if (simd_best() != Simd::Portable) return admitted_avx2(chunk, start);
#endif
        const uint32_t count = std::min<uint32_t>(64, chunk.capacity - start);
        uint64_t mask = ~0ull;
        for (size_t line = 0; line < chunk.lines && mask; ++line) {
            const uint32_t *low = chunk.column(2 * line) + start, *high = chunk.column(2 * line + 1) + start,
                           at = positions_[line];
            uint64_t here = 0;
            for (uint32_t i = 0; i < count; ++i) here |= uint64_t{low[i] <= at && at <= high[i]} << i;
            mask &= here;
        }
        return mask;
    }

#if defined(TIDINGS_X86)
    TIDINGS_TARGET_AVX2 uint64_t admitted_avx2(const Chunk& chunk, uint32_t start) const {
        const uint32_t count = std::min<uint32_t>(64, chunk.capacity - start);
        uint64_t mask = ~0ull;
        for (size_t line = 0; line < chunk.lines && mask; ++line) {
            const uint32_t *low = chunk.column(2 * line) + start, *high = chunk.column(2 * line + 1) + start;
            const __m256i at = _mm256_set1_epi32(static_cast<int>(positions_[line]));
            uint64_t here = 0;
            for (uint32_t i = 0; i < count; i += 8) {
                const __m256i l = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(low + i));
                const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high + i));
                const __m256i inside = _mm256_cmpeq_epi32(_mm256_min_epu32(_mm256_max_epu32(l, at), h), at);
                here |= uint64_t{static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(inside)))} << i;
            }
            mask &= here;
        }
        return mask;
    }
#endif

    std::vector<std::unique_ptr<Group>> groups_;
    Column<uint32_t> free_;
    HashIndex index_;
    std::vector<Column<Entry>> by_line_;  // groups reached from a line
    std::vector<uint32_t> positions_;
};

}  // namespace tidings
