// The part of a history that is in memory: (B, R, S), the filter B with the range R of its ids' times and the times S
// of stragglers.
//
// Histories that take the same ids, such as those of subscribers to the same topic, have one volume together: each id
// is put into it once, and it is stored once for all of them. When one of them takes something else, it goes on with a
// copy of its own.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tidings/tracking/id_arena.hpp"
#include "tidings/tracking/run_list.hpp"

namespace tidings {

// The properties that all volumes of a broker share.
struct VolumeShape {
    uint64_t bits;
    uint32_t hashes;
    uint64_t capacity;
    uint32_t doublings_max;  // of both
    int64_t wanted_ms;       // for how long one should be filled: 2·T_s + T_j
    uint64_t young_max;      // the number of ids kept as they are before they become a filter
    bool exact;              // … for ever
    bool runs;               // … as runs
};

struct FilterVolume {
    // Times of arrival of the first and the last id in the arena.
    struct Times {
        int64_t began_ms = 0, now_ms = 0;
    };

    std::vector<uint32_t> owners;  // histories
    int64_t late_ms = 0,
            early_ms = 0;  // what is older than the volume by more than this, or further ahead, is a straggler
    bool mixed = false;    // to some of its owners only what is older still
    bool has_range = false, busy = false;  // busy: the filter before was full
    uint32_t doublings = 0;                // how much larger than usual its filter is
    uint64_t count = 0, stored_count = 0;
    int64_t first_ms = 0, last_ms = 0, opened_ms = 0, dirty_ms = 0;
    std::set<int64_t> singles;
    std::unique_ptr<Bloom> filter;
    std::string ids;
    RunList runs;
    uint64_t seed = 0;  // of its filter
    uint64_t turn = 0;  // in which flush it was filled last

    bool dirty() const { return count > stored_count; }

    bool full(const VolumeShape& shape) const { return count >= shape.capacity << doublings; }

    // A large filter to which little comes any more: it would be stored again and again.
    bool outgrows(const VolumeShape& shape, int64_t now_ms) const {
        return doublings && count - stored_count < shape.capacity && now_ms - opened_ms >= shape.wanted_ms;
    }

    bool holds(int64_t moment) const {
        return count && ((has_range && first_ms <= moment && moment <= last_ms) || singles.contains(moment));
    }

    bool contains(const uint8_t* id) const {
        uint8_t held = 0;
        if (filter) filter->contains(id, 1, &held);
        RunList::Id one;
        std::memcpy(one.data(), id, sizeof one);
        if (runs.scan(one)) return true;
        for (size_t i = 0; i < ids.size() && !held; i += IdArena::id_bytes)
            held = std::memcmp(&ids[i], id, IdArena::id_bytes) == 0;
        return held != 0;
    }

    // The same content, for some of its owners.
    std::shared_ptr<FilterVolume> copy_for(std::vector<uint32_t> some) const {
        auto copy = std::make_shared<FilterVolume>();
        copy->owners = std::move(some);
        copy->early_ms = early_ms;
        copy->has_range = has_range, copy->busy = busy;
        copy->doublings = doublings;
        copy->count = count, copy->stored_count = stored_count;
        copy->first_ms = first_ms, copy->last_ms = last_ms, copy->opened_ms = opened_ms, copy->dirty_ms = dirty_ms;
        copy->seed = seed;
        copy->runs = runs;
        copy->singles = singles;
        if (filter) copy->filter = std::make_unique<Bloom>(*filter);
        copy->ids = ids;
        copy->turn = turn;
        return copy;
    }

    // As many of these ids of the arena as there is room for; returns how many.
    size_t add(const IdArena& arena, const Slots& offered, const VolumeShape& shape, const Times& times) {
        if (!dirty()) dirty_ms = times.began_ms;
        if (count == 0) opened_ms = times.began_ms;
        const Slots taken = offered.head(std::min<uint64_t>(offered.count, (shape.capacity << doublings) - count));
        count += taken.count;
        if (shape.runs) {
            for (uint32_t i = 0; i < taken.count; ++i) runs.add(arena.ids[taken[i]]);
            stretch(arena, taken, times.now_ms);
            return taken.count;
        }
        if (!filter && !shape.exact && (count > shape.young_max || busy)) grow_up(shape);
        if (filter) arena.set(*filter, taken, shape.doublings_max - doublings);
        else
            for (uint32_t i = 0; i < taken.count; ++i)
                ids.append(reinterpret_cast<const char*>(arena.bytes(taken[i])), IdArena::id_bytes);
        stretch(arena, taken, times.now_ms);
        return taken.count;
    }

    // A new one begins, with the same owners.
    void clear(const VolumeShape& shape, int64_t now_ms) {
        busy = full(shape);
        const uint32_t before = std::exchange(doublings, next_doublings(shape, now_ms));
        ids.clear();
        runs.clear();
        if (busy && filter && doublings == before) filter->clear();
        else filter.reset();
        singles.clear();
        has_range = false;
        count = stored_count = 0;
    }

    size_t memory_bytes() const {
        return sizeof *this + ids.capacity() + runs.memory_bytes() + (filter ? filter->memory_bytes() : 0);
    }

private:
    // Filters that are filled faster than a message's time is known lie upon each other, and each of them may err: the
    // next one is larger. If half of it would have lasted twice as long as needed, it is smaller.
    uint32_t next_doublings(const VolumeShape& shape, int64_t now_ms) const {
        auto lasts = static_cast<double>(std::max<int64_t>(now_ms - opened_ms, 0)) *
                     static_cast<double>(shape.capacity << doublings);
        const auto wanted = static_cast<double>(shape.wanted_ms) * static_cast<double>(count);
        if (lasts < wanted) return std::min(doublings + 1, shape.doublings_max);
        uint32_t next = doublings;
        for (; next && lasts >= 4 * wanted; lasts /= 2) --next;
        return next;
    }

    // Its ids take as much room as a filter would: now it is one.
    void grow_up(const VolumeShape& shape) {
        filter = std::make_unique<Bloom>(shape.bits << doublings, shape.hashes, seed);
        filter->add(reinterpret_cast<const uint8_t*>(ids.data()), ids.size() / IdArena::id_bytes);
        ids = {};
    }

    void stretch(const IdArena& arena, const Slots& taken, int64_t now_ms) {
        const auto [oldest, newest] = arena.times_of(taken);
        if (regular(oldest, now_ms) && regular(newest, now_ms)) return widen(oldest, newest);
        for (uint32_t i = 0; i < taken.count; ++i) {
            const int64_t time = arena.times[taken[i]];
            if (regular(time, now_ms)) widen(time, time);
            else singles.insert(time);
        }
    }

    // No straggler: much older than the filter, or from a clock that is ahead.
    bool regular(int64_t time, int64_t now_ms) const {
        return time >= opened_ms - late_ms && time <= now_ms + early_ms;
    }

    void widen(int64_t first, int64_t last) {
        first_ms = has_range ? std::min(first_ms, first) : first;
        last_ms = has_range ? std::max(last_ms, last) : last;
        has_range = true;
    }
};

}  // namespace tidings
