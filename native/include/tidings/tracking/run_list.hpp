// An exact list of message ids, as runs. Ids of one publisher follow each other in time and counter, so that most lists
// are a few runs a millisecond: no bits an id for one publisher that sends as fast as it can, some sixteen for hundreds
// that send now and then.
//
//   source 7·1   [t, t+1, t+2, t+3]   [t', t'+1]      times with counters, as one number of 64 bits
//   source 9·1   [u]   [u']   [u'']
//
// `RunCodec` writes and reads it.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "tidings/support/hash.hpp"

namespace tidings {

class RunList {
public:
    static constexpr size_t id_bytes = 16;
    using Id = std::array<uint64_t, 2>;  // as it lies in a message

    // `source`: broker and publisher, so that runs sort by broker first; `first`: milliseconds and counter.
    struct Run {
        uint64_t source, first, length;
        bool operator==(const Run&) const = default;
        auto key() const { return std::pair{source, first}; }
    };

    // Of the id's first word as it lies in a message, and the other way round.
    static uint64_t source_of(uint64_t word) { return std::rotl(__builtin_bswap64(word), 32); }
    static uint64_t word_of(uint64_t source) { return __builtin_bswap64(std::rotl(source, 32)); }

    uint64_t numbering = 0;  // key of the publishers' numbers, if it is known (`PublisherNumbering`)

    bool empty() const { return runs_.empty(); }
    size_t size() const { return runs_.size(); }
    const std::vector<Run>& runs() const { return runs_; }
    size_t memory_bytes() const { return runs_.capacity() * sizeof(Run); }

    void add(const Id& id) {
        const uint64_t source = source_of(id[0]), moment = __builtin_bswap64(id[1]);
        if (!runs_.empty()) [[likely]] {
            Run& last = runs_.back();
            if (last.source == source && last.first + last.length == moment) {
                ++last.length;
                return;
            }
        }
        runs_.push_back({source, moment, 1});
    }

    // Keeps the room that was needed, unless it was needed once only.
    void clear() {
        if (runs_.capacity() > 4 * runs_.size() + 1024) runs_ = {};
        else runs_.clear();
    }

    // While ids are still added, in any order.
    bool scan(const Id& id) const {
        const uint64_t source = source_of(id[0]), moment = __builtin_bswap64(id[1]);
        return std::ranges::any_of(
            runs_, [=](const Run& run) { return run.source == source && moment - run.first < run.length; });
    }

    // After `sort`.
    bool find(const Id& id) const {
        const uint64_t source = source_of(id[0]), moment = __builtin_bswap64(id[1]);
        const auto after = std::ranges::upper_bound(runs_, std::pair{source, moment}, {}, &Run::key);
        if (after == runs_.begin()) return false;
        const Run& run = after[-1];
        return run.source == source && moment - run.first < run.length;
    }

    void append(const Run& run) { runs_.push_back(run); }
    void append(const RunList& other) {
        runs_.insert(runs_.end(), other.runs_.begin(), other.runs_.end());
        if (!numbering) numbering = other.numbering;
    }

    // By source and time, each id once.
    void sort() {
        by_source();
        size_t kept = 0;
        for (size_t i = 0; i < runs_.size(); ++i) {
            const Run run = runs_[i];
            if (kept && runs_[kept - 1].source == run.source) {
                Run& last = runs_[kept - 1];
                if (run.first - last.first <= last.length) {  // it overlaps, or follows
                    last.length = std::max(last.length, run.first - last.first + run.length);
                    continue;
                }
            }
            runs_[kept++] = run;
        }
        runs_.resize(kept);
    }

    // Sorted: the number of different ids.
    uint64_t count() const {
        uint64_t ids = 0;
        for (const Run& run : runs_) ids += run.length;
        return ids;
    }

    template <class Each>
    void each(const Each& take) const {
        for (const Run& run : runs_)
            for (uint64_t i = 0; i < run.length; ++i) take(Id{word_of(run.source), __builtin_bswap64(run.first + i)});
    }

private:
    static constexpr uint32_t none = UINT32_MAX;

    // Runs of one source mostly are in order already: they are put together, and sorted only where they are not.
    void by_source() {
        const auto ascends = [](const Run& one, const Run& other) { return one.key() < other.key(); };
        if (std::ranges::is_sorted(runs_, ascends)) return;
        struct Slot {
            uint64_t source;
            uint32_t number = none;
        };
        std::vector<Slot> table(std::bit_ceil(runs_.size() / 2 + 2));
        std::vector<uint32_t> slot_of(runs_.size());
        std::vector<uint64_t> sources;
        uint64_t last = runs_.front().source + 1;
        for (size_t i = 0; i < runs_.size(); ++i) {
            if (runs_[i].source == last) {
                slot_of[i] = slot_of[i - 1];
                continue;
            }
            last = runs_[i].source;
            size_t at = fold_multiply(last, 0x9E3779B97F4A7C15) & (table.size() - 1);
            while (table[at].number != none && table[at].source != last) at = (at + 1) & (table.size() - 1);
            if (table[at].number == none) {
                table[at] = {last, static_cast<uint32_t>(sources.size())};
                sources.push_back(last);
                if (sources.size() > runs_.size() / 4) return radix_sort();  // few runs of many sources
            }
            slot_of[i] = table[at].number;
        }
        std::vector<uint32_t> order(sources.size());
        for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
        std::ranges::sort(order, {}, [&](uint32_t slot) { return sources[slot]; });
        std::vector<size_t> starts(sources.size());
        for (const uint32_t slot : slot_of) ++starts[slot];
        size_t at = 0;
        for (const uint32_t slot : order) at += std::exchange(starts[slot], at);
        std::vector<Run> sorted(runs_.size());
        std::vector<size_t> ends = starts;
        for (size_t i = 0; i < runs_.size(); ++i) sorted[ends[slot_of[i]]++] = runs_[i];
        for (uint32_t slot = 0; slot < sources.size(); ++slot) {
            const auto begin = sorted.begin() + static_cast<std::ptrdiff_t>(starts[slot]);
            const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(ends[slot]);
            if (!std::is_sorted(begin, end, ascends)) std::sort(begin, end, ascends);
        }
        runs_ = std::move(sorted);
    }

    // Stable, by the bits of sources that differ: mostly those of publishers.
    void radix_sort() {
        constexpr uint32_t digit_bits = 11;
        struct Place {
            uint32_t bits, number;
        };
        uint64_t different = 0;
        for (const Run& run : runs_) different |= run.source ^ runs_.front().source;
        const auto ascends = [](const Run& one, const Run& other) { return one.key() < other.key(); };
        const auto bits = static_cast<uint32_t>(std::bit_width(different));
        if (bits > 32) {
            std::ranges::sort(runs_, ascends);
            return;
        }
        std::vector<Place> places(runs_.size()), sorted(runs_.size());
        for (uint32_t i = 0; i < runs_.size(); ++i) places[i] = {static_cast<uint32_t>(runs_[i].source), i};
        for (uint32_t shift = 0; shift < bits; shift += digit_bits) {
            std::array<uint32_t, 1u << digit_bits> ends{};
            const auto digit = [&](const Place& place) { return place.bits >> shift & (ends.size() - 1); };
            for (const Place& place : places) ++ends[digit(place)];
            uint32_t at = 0;
            for (uint32_t& end : ends) at += std::exchange(end, at);
            for (const Place& place : places) sorted[ends[digit(place)]++] = place;
            places.swap(sorted);
        }
        std::vector<Run> ordered(runs_.size());
        for (size_t i = 0; i < runs_.size(); ++i) ordered[i] = runs_[places[i].number];
        runs_ = std::move(ordered);
        for (auto begin = runs_.begin(), end = begin; begin != runs_.end(); begin = end) {
            for (end = begin + 1; end != runs_.end() && end->source == begin->source;) ++end;
            if (!std::is_sorted(begin, end, ascends)) std::sort(begin, end, ascends);
        }
    }

    std::vector<Run> runs_;
};

}  // namespace tidings
