// An exact list of message ids, as runs. Ids of one publisher follow each other in time and counter, so that most lists
// are a few runs a millisecond: no bits an id for one publisher that sends as fast as it can, some sixteen for hundreds
// that send now and then.
//
//   source 7·1   [t, t+1, t+2, t+3]   [t', t'+1]      times with counters, as one number of 64 bits
//   source 9·1   [u]   [u']   [u'']
//
// docs/wire.md, "Run list", has the bytes. src/tidings/tracking/recording/reference_runs.py says the same in plain Python.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidings/support/error.hpp"
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

    void append(const RunList& other) { runs_.insert(runs_.end(), other.runs_.begin(), other.runs_.end()); }

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

    // Another publisher for nearly every id: runs would take more room than a filter, and much more time.
    bool scattered() const {
        if (runs_.size() < sample) return false;
        std::vector<uint64_t> sources(sample);
        for (size_t i = 0; i < sample; ++i) sources[i] = runs_[i].source;
        std::ranges::sort(sources);
        const auto repeated = std::ranges::unique(sources);
        return sample - repeated.size() > sample / 2;
    }

    // Sorted.
    std::string encode() const {
        std::string out = "TRL1";
        put(out, count());
        uint64_t base_ms = UINT64_MAX, sources = 0;
        for (size_t i = 0; i < runs_.size(); ++i) {
            base_ms = std::min(base_ms, runs_[i].first >> 16);
            sources += i == 0 || runs_[i].source != runs_[i - 1].source;
        }
        put(out, sources);
        put(out, runs_.empty() ? 0 : base_ms);
        uint64_t before = 0;
        for (size_t begin = 0, end; begin < runs_.size(); begin = end) {
            const uint64_t source = runs_[begin].source;
            for (end = begin + 1; end < runs_.size() && runs_[end].source == source;) ++end;
            put(out, source - before);
            before = source;
            put(out, end - begin);
            uint64_t last_ms = base_ms;
            for (size_t i = begin; i < end; ++i) last_ms = put_run(out, runs_[i], last_ms);
        }
        return out;
    }

    // Sorted. Everything else is a CodecError.
    static RunList decode(std::string_view data) {
        Input in{data, 4};
        if (data.substr(0, 4) != "TRL1") throw CodecError{"E_RUNS_MAGIC", "not a run list", 0};
        const uint64_t ids = in.varint(), sources = in.varint(), base_ms = in.varint();
        RunList list;
        uint64_t source = 0, found = 0;
        for (uint64_t s = 0; s < sources; ++s) {
            const uint64_t step = in.varint();
            if (s && step == 0) in.fail("E_RUNS_ORDER", "a source that was there before");
            if (source + step < source) in.fail("E_RUNS_RANGE", "a source of more than 64 bits");
            source += step;
            uint64_t runs = in.varint(), last_ms = base_ms;
            for (bool first = true; runs; --runs, first = false) found += in.run(list, source, last_ms, first);
        }
        if (in.at != data.size()) in.fail("E_RUNS_LONG", "bytes after the last run");
        if (found != ids) in.fail("E_RUNS_COUNT", "not as many ids as the header says");
        return list;
    }

private:
    static constexpr size_t sample = 1024;
    static constexpr uint32_t none = UINT32_MAX;
    static constexpr uint64_t moment_max = UINT64_MAX;

    struct Input {
        std::string_view data;
        size_t at;

        [[noreturn]] void fail(const char* code, const char* reason) const { throw CodecError{code, reason, at}; }

        uint64_t varint() {
            uint64_t value = 0;
            for (int shift = 0; shift < 64; shift += 7) {
                if (at == data.size()) fail("E_RUNS_SHORT", "truncated run list");
                const auto byte = static_cast<uint8_t>(data[at++]);
                if (shift == 63 && byte > 1) break;
                value |= static_cast<uint64_t>(byte & 127) << shift;
                if (byte < 128) return value;
            }
            fail("E_RUNS_RANGE", "a number of more than 64 bits");
        }

        // Returns how many ids it has.
        uint64_t run(RunList& list, uint64_t source, uint64_t& last_ms, bool first) {
            const uint64_t code = varint(), ms = last_ms + (code >> 2);
            const uint64_t counter = code & 2 ? varint() : 0;
            const uint64_t more = code & 1 ? varint() : 0;
            const uint64_t length = code & 1 ? more + 2 : 1;
            if (ms < last_ms || ms >> 48 || counter >> 16 || more >= moment_max - 2)
                fail("E_RUNS_RANGE", "a time of more than 48 bits, or a counter of more than 16");
            const uint64_t moment = ms << 16 | counter;
            if (length - 1 > moment_max - moment) fail("E_RUNS_RANGE", "a run that does not end");
            if (!first) {
                const Run& before = list.runs_.back();
                if (moment <= before.first + (before.length - 1)) fail("E_RUNS_ORDER", "runs are not in order");
            }
            list.runs_.push_back({source, moment, length});
            last_ms = (moment + (length - 1)) >> 16;
            return length;
        }
    };

    static void put(std::string& out, uint64_t value) {
        for (; value >= 128; value >>= 7) out.push_back(static_cast<char>(value | 128));
        out.push_back(static_cast<char>(value));
    }

    // Returns the time of its last id.
    static uint64_t put_run(std::string& out, const Run& run, uint64_t last_ms) {
        const uint64_t counter = run.first & 0xffff;
        put(out, ((run.first >> 16) - last_ms) << 2 | uint64_t{counter != 0} << 1 | uint64_t{run.length > 1});
        if (counter) put(out, counter);
        if (run.length > 1) put(out, run.length - 2);
        return (run.first + run.length - 1) >> 16;
    }

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
                if (sources.size() > runs_.size() / 4) {  // few runs of many sources
                    std::ranges::sort(runs_, ascends);
                    return;
                }
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

    std::vector<Run> runs_;
};

}  // namespace tidings
