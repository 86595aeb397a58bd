// The bytes of a run list (docs/wire.md, "Run list"): sources and times as differences, in Rice codes whose parameters fit the
// list. It takes little more than the list tells: 65 536 ids of as many publishers in 13 seconds take 29 bits each,
// 14 for the publisher and 14 for the time.
//
// Numbers of publishers look random (`PublisherNumbering`). A list that has their key is written with the counts
// behind them, which are small.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/support/bit_stream.hpp"
#include "tidings/support/error.hpp"
#include "tidings/tracking/old_run_codec.hpp"
#include "tidings/tracking/publisher_numbering.hpp"
#include "tidings/tracking/run_list.hpp"

namespace tidings {

class RunCodec {
public:
    // Sorted.
    static std::string encode(const RunList& list) {
        std::vector<Group> groups = groups_of(list);
        const bool counted = count_publishers(list.numbering, groups);
        const Statistics all(list, groups);
        const uint8_t flags = all.flags() | (counted ? Counted : 0);
        std::string out{magic, static_cast<char>(flags)};
        put(out, list.count());
        put(out, groups.size());
        if (groups.empty()) return out;
        put(out, all.base_ms);
        put(out, groups.front().source);
        if (counted) out.append(reinterpret_cast<const char*>(&list.numbering), sizeof list.numbering);
        return out + encode(list, groups, all, flags);
    }

    // Sorted. Everything else is a CodecError.
    static RunList decode(std::string_view data) {
        if (data.substr(0, 4) == OldRunCodec::magic) return OldRunCodec::decode(data);
        if (data.size() < 2 || data[0] != magic) throw CodecError{"E_RUNS_MAGIC", "not a run list", 0};
        return Decoder(data).list();
    }

private:
    enum Flag : uint8_t {
        Several = 1,      // a source may have several runs
        Counters = 2,     // a run may begin with a counter that is not 0
        Lengths = 4,      // a run may have more than one id
        Differences = 8,  // the first time of a source is the difference to that of the source before
        Counted = 16,     // publishers are counts
        All = 31,
    };
    static constexpr char magic = 'R';
    static constexpr size_t few = 16;

    struct Group {
        uint64_t source;  // as it is written
        size_t begin, end;
    };

    struct Parameters {
        uint32_t source = 0, first = 0, runs = 0, gap = 0, counter = 0, length = 0;

        // Those that a list with these flags needs, in the order in which they are written.
        std::vector<uint32_t*> needed(uint8_t flags, bool several_sources) {
            std::vector<uint32_t*> all{&first};
            if (several_sources) all.push_back(&source);
            if (flags & Several) all.insert(all.end(), {&runs, &gap});
            if (flags & Counters) all.push_back(&counter);
            if (flags & Lengths) all.push_back(&length);
            return all;
        }
    };

    static uint64_t ms_of(uint64_t moment) { return moment >> 16; }
    static uint64_t counter_of(uint64_t moment) { return moment & 0xffff; }
    static uint64_t last_ms(const RunList::Run& run) { return ms_of(run.first + (run.length - 1)); }
    static uint64_t zigzag(uint64_t difference) { return difference << 1 ^ -(difference >> 63); }
    static uint64_t unzigzag(uint64_t code) { return code >> 1 ^ -(code & 1); }

    static std::vector<Group> groups_of(const RunList& list) {
        const std::vector<RunList::Run>& runs = list.runs();
        std::vector<Group> groups;
        groups.reserve(runs.size());
        for (size_t i = 0; i < runs.size(); ++i) {
            if (i == 0 || runs[i].source != runs[i - 1].source) groups.push_back({runs[i].source, i, i});
            groups.back().end = i + 1;
        }
        return groups;
    }

    // Writes counts instead of numbers, if that is smaller; of few sources always, so that the key is not lost when lists
    // are united.
    static bool count_publishers(uint64_t numbering, std::vector<Group>& groups) {
        if (!numbering || groups.empty() || groups.size() > PublisherNumbering::sources_max) return false;
        const PublisherNumbering numbers(numbering);
        std::vector<Group> counted = groups;
        for (Group& group : counted) group.source = numbers.count_of(group.source);
        std::ranges::sort(counted, {}, &Group::source);
        const auto bits = [](const std::vector<Group>& some) {
            RiceLengths steps;
            for (size_t i = 1; i < some.size(); ++i) steps.add(some[i].source - some[i - 1].source - 1);
            return steps.bits(steps.best());
        };
        if (groups.size() >= few && bits(counted) + 64 >= bits(groups)) return false;
        groups = std::move(counted);
        return true;
    }

    // Of a list: what it needs, and the best parameters, which some of its sources show.
    struct Statistics {
        static constexpr size_t samples = 2048;

        uint64_t base_ms = UINT64_MAX;
        bool several = false, counted = false, longer = false;
        RiceLengths sources, offsets, differences, runs, gaps, counters, lengths;

        Statistics(const RunList& list, const std::vector<Group>& groups) {
            const std::vector<RunList::Run>& all = list.runs();
            uint64_t begins = 0, more = 0;
            for (const RunList::Run& run : all) {
                base_ms = std::min(base_ms, ms_of(run.first));
                begins |= run.first;
                more |= run.length - 1;
            }
            several = all.size() > groups.size();
            counted = counter_of(begins) != 0;
            longer = more != 0;
            const size_t step = groups.size() / samples + 1;
            for (size_t at = 0; at < groups.size(); at += step) sample(all, groups, at);
        }

        void sample(const std::vector<RunList::Run>& all, const std::vector<Group>& groups, size_t at) {
            const Group& group = groups[at];
            const uint64_t first = ms_of(all[group.begin].first);
            offsets.add(first - base_ms);
            differences.add(zigzag(first - (at ? ms_of(all[groups[at - 1].begin].first) : base_ms)));
            if (at) sources.add(group.source - groups[at - 1].source - 1);
            runs.add(group.end - group.begin - 1);
            for (size_t i = group.begin; i < group.end; ++i) {
                if (i > group.begin) gaps.add(ms_of(all[i].first) - last_ms(all[i - 1]));
                counters.add(counter_of(all[i].first));
                lengths.add(all[i].length - 1);
            }
        }

        bool steps() const { return differences.bits(differences.best()) < offsets.bits(offsets.best()); }

        uint8_t flags() const {
            return static_cast<uint8_t>((several ? Several : 0) | (counted ? Counters : 0) | (longer ? Lengths : 0) |
                                        (steps() ? Differences : 0));
        }

        Parameters parameters(uint8_t flags) const {
            return {sources.best(),  flags & Differences ? differences.best() : offsets.best(),
                    runs.best(),     gaps.best(),
                    counters.best(), lengths.best()};
        }
    };

    static std::string encode(const RunList& list, const std::vector<Group>& groups, const Statistics& all,
                              uint8_t flags) {
        Parameters with = all.parameters(flags);
        BitWriter out;
        for (const uint32_t* parameter : with.needed(flags, groups.size() > 1))
            out.put(*parameter, Rice::parameter_bits);
        uint64_t before = all.base_ms, source = groups.front().source;
        const std::vector<RunList::Run>& runs = list.runs();
        for (const Group& group : groups) {
            if (&group != &groups.front()) out.rice(group.source - source - 1, with.source);
            source = group.source;
            if (flags & Several) out.rice(group.end - group.begin - 1, with.runs);
            const uint64_t first = ms_of(runs[group.begin].first);
            out.rice(flags & Differences ? zigzag(first - before) : first - all.base_ms, with.first);
            before = first;
            for (size_t i = group.begin; i < group.end; ++i) {
                if (i > group.begin) out.rice(ms_of(runs[i].first) - last_ms(runs[i - 1]), with.gap);
                if (flags & Counters) out.rice(counter_of(runs[i].first), with.counter);
                if (flags & Lengths) out.rice(runs[i].length - 1, with.length);
            }
        }
        return out.take();
    }

    static void put(std::string& out, uint64_t value) {
        for (; value >= 128; value >>= 7) out.push_back(static_cast<char>(value | 128));
        out.push_back(static_cast<char>(value));
    }

    class Decoder {
    public:
        explicit Decoder(std::string_view data) : in_{data, 2}, flags_(static_cast<uint8_t>(data[1])), bits_({}) {
            if (flags_ & ~All) in_.fail("E_RUNS_FLAGS", "an unknown flag");
        }

        RunList list() {
            const uint64_t ids = in_.varint(), sources = in_.varint();
            if (sources) read(sources);
            else if (in_.at != in_.data.size()) in_.fail("E_RUNS_LONG", "bytes after the last run");
            if (found_ != ids) in_.fail("E_RUNS_COUNT", "not as many ids as the header says");
            if (flags_ & Counted) list_.sort();
            return std::move(list_);
        }

    private:
        void read(uint64_t sources) {
            const uint64_t base_ms = in_.varint();
            uint64_t source = in_.varint();
            if (flags_ & Counted) numbers_.emplace(list_.numbering = in_.word());
            bits_ = BitReader(in_.data.substr(in_.at));
            for (uint32_t* parameter : with_.needed(flags_, sources > 1))
                *parameter = static_cast<uint32_t>(bits_.get(Rice::parameter_bits));
            uint64_t before = base_ms;
            for (uint64_t s = 0; s < sources; ++s) {
                if (s) source = next(source);
                uint64_t runs = flags_ & Several ? bits_.rice(with_.runs) + 1 : 1;
                const uint64_t first = bits_.rice(with_.first);
                before = flags_ & Differences ? before + unzigzag(first) : base_ms + first;
                const uint64_t number = numbers_ ? numbers_->number_of(source) : source;
                uint64_t last_ms = run(number, before, false);
                while (--runs) last_ms = run(number, last_ms + bits_.rice(with_.gap), true);
            }
            if (!bits_.at_end()) fail("E_RUNS_LONG", "bytes after the last run");
        }

        uint64_t next(uint64_t source) const {
            const uint64_t step = bits_.rice(with_.source);
            if (step == UINT64_MAX || source + step + 1 <= source)
                fail("E_RUNS_RANGE", "a source of more than 64 bits");
            return source + step + 1;
        }

        // Returns the time of its last id.
        uint64_t run(uint64_t source, uint64_t ms, bool follows) {
            const uint64_t counter = flags_ & Counters ? bits_.rice(with_.counter) : 0;
            const uint64_t more = flags_ & Lengths ? bits_.rice(with_.length) : 0;
            if (bits_.over()) fail("E_RUNS_SHORT", "truncated run list");
            if (ms >> 48 || counter >> 16)
                fail("E_RUNS_RANGE", "a time of more than 48 bits, or a counter of more than 16");
            const uint64_t moment = ms << 16 | counter;
            if (more > UINT64_MAX - moment || more == UINT64_MAX) fail("E_RUNS_RANGE", "a run that does not end");
            if (follows && (ms < ms_of(list_.runs().back().first) ||
                            moment <= list_.runs().back().first + (list_.runs().back().length - 1)))
                fail("E_RUNS_ORDER", "runs are not in order");
            list_.append({source, moment, more + 1});
            found_ += more + 1;
            return ms_of(moment + more);
        }

        [[noreturn]] void fail(const char* code, const char* reason) const {
            throw CodecError{code, reason, std::min(in_.at + bits_.byte(), in_.data.size())};
        }

        RunInput in_;
        const uint8_t flags_;
        mutable BitReader bits_;
        Parameters with_;
        std::optional<PublisherNumbering> numbers_;
        RunList list_;
        uint64_t found_ = 0;
    };
};

}  // namespace tidings
