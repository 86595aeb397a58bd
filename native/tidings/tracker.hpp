// What passes here, recorded: histories of message ids, as Bloom filters or as they are (docs/tracking.md).
//
//   begin(id) ── slot in the arena ──┬── published, routed ── one history for each origin
//                                    ├── forwarded ────────── … and neighbour
//                                    └── delivered ────────── … and subscriber
//
// On the way of a message only its id is noted, once, and a mark for each history it belongs to. When the arena is full
// the bits of its ids are computed, once for all histories, and set in one filter after the other: filters take turns in the cache,
// not messages. A filter that is full, or whose persistence interval has passed, is handed out by `take`.
//
// src/tidings/tracking/books.py says the same in plain Python.
#pragma once
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tidings/bloom.hpp"

namespace tidings {

struct TrackerOptions {
    uint32_t broker = 0;
    bool exact = false;       // keep the ids themselves; capacity is then that of a buffer
    uint64_t bits = 65536;
    uint32_t hashes = 16;
    uint64_t capacity = 2521;
    int64_t skew_ms = 250, jitter_ms = 0, persist_ms = 1000;
    bool retain = true;       // a filter stored on time goes on being filled
    bool forwards = false;    // a history for each neighbour too
};

// (B, R, S) on its way to the disk.
struct TrackedFilter {
    uint8_t kind = 0;
    uint32_t origin = 0, peer = 0;
    uint64_t sequence = 0, count = 0;
    bool full = false, has_range = false;
    int64_t first_ms = 0, last_ms = 0, opened_ms = 0, stored_ms = 0;
    std::vector<int64_t> singles;
    bool exact = false;  // data is the ids themselves
    std::string data;
};

class Tracker {
public:
    enum class Kind : uint8_t { Publish, Route, Forward, Deliver };
    static constexpr size_t id_bytes = Bloom::IdBytes;
    static constexpr uint64_t bits_max = 1ull << 32;
    static constexpr size_t done_max = 1024;  // full filters that may wait for company

    struct Found {
        uint64_t sequence, hashed;  // how many ids are in a Bloom filter, and not exact
        bool held;
    };

    explicit Tracker(const TrackerOptions& options) : options_(options) {
        if (options.capacity == 0) throw UsageError{"E_TRACKING_CAPACITY", "a filter's capacity is at least 1"};
        if (options.bits > bits_max) throw UsageError{"E_BLOOM_SIZE", "a tracked filter has at most 2^32 bits"};
        Bloom(options.exact ? 64 : options.bits, options.exact ? 1 : options.hashes);  // throws if it has no such shape
        positions_.resize(options.exact ? 0 : slots * options.hashes);
        young_max_ = options.exact ? UINT64_MAX : options.retain ? std::min(options.bits / 8 / id_bytes, options.capacity - 1) : 0;
    }
    Tracker(const Tracker&) = delete;

    bool forwards() const { return options_.forwards; }

    // ---- recording; `id` has 16 bytes

    // By a local publisher. Whose id names another broker (it has moved here) is found in that one's history too.
    void published(const uint8_t* id, int64_t now_ms) {
        const uint32_t slot = begin(id, now_ms);
        note(publish_.of(*this, Kind::Publish, options_.broker, 0), slot);
        if (origins_[slot] != options_.broker) note(route_.of(*this, Kind::Route, origins_[slot], 0), slot);
    }

    void routed(const uint8_t* id, int64_t now_ms) {
        const uint32_t slot = begin(id, now_ms);
        if (origins_[slot] != options_.broker) note(route_.of(*this, Kind::Route, origins_[slot], 0), slot);
    }

    void forwarded(const uint8_t* id, uint32_t neighbour, int64_t now_ms) {
        if (!options_.forwards) return;
        const uint32_t slot = begin(id, now_ms);
        note(neighbours_[neighbour].of(*this, Kind::Forward, origins_[slot], neighbour), slot);
    }

    void delivered(const uint8_t* id, uint32_t subscriber, int64_t now_ms) {
        const uint32_t slot = begin(id, now_ms);
        if (subscriber >= subscribers_.size()) subscribers_.resize(size_t{subscriber} + 1);
        note(subscribers_[subscriber].of(*this, Kind::Deliver, origins_[slot], subscriber), slot);
    }

    // ---- what is stored

    // Filters that are due; with them, or once there are many, those that are full. `all`: these at once.
    std::vector<TrackedFilter> take(int64_t now_ms, bool all) {
        flush(now_ms);
        if (!done_.empty()) all = all || done_.size() >= done_max || now_ms - done_.front().stored_ms >= options_.persist_ms;
        for (History& history : histories_) {
            if (!history.dirty()) continue;
            history.dirty_ms = std::min(history.dirty_ms, now_ms);  // the clock was set back
            if (history.dirty_ms + options_.persist_ms > now_ms) continue;
            if (options_.retain && !options_.exact) store_copy(history, now_ms);
            else store(history, now_ms);
            all = true;
        }
        return all ? std::exchange(done_, {}) : std::vector<TrackedFilter>{};
    }

    // This subscriber or neighbour has gone: its histories end. Returns all that waits to be stored.
    std::vector<TrackedFilter> end(Kind kind, uint32_t peer, int64_t now_ms) {
        flush(now_ms);
        if (kind == Kind::Forward) end(neighbours_[peer], now_ms), neighbours_.erase(peer);
        else if (kind == Kind::Deliver && peer < subscribers_.size()) end(subscribers_[peer], now_ms);
        return std::exchange(done_, {});
    }

    std::vector<TrackedFilter> end_all(int64_t now_ms) {
        flush(now_ms);
        for (History& history : histories_)
            if (history.dirty()) store(history, now_ms);
        return std::exchange(done_, {});
    }

    // The filter in memory, if it belongs to the matching set of this time, and whether it holds the id.
    std::optional<Found> find(Kind kind, uint32_t origin, uint32_t peer, const uint8_t* id, int64_t moment_ms, int64_t now_ms) {
        flush(now_ms);
        const Point* const point = at(kind, peer);
        if (point == nullptr || !point->histories.contains(origin)) return {};
        const History* const history = &histories_[point->histories.at(origin)];
        if (!history->holds(moment_ms)) return {};
        uint8_t held = 0;
        if (history->filter) history->filter->contains(id, 1, &held);
        for (size_t i = 0; i < history->ids.size() && !held; i += id_bytes) held = std::memcmp(&history->ids[i], id, id_bytes) == 0;
        return Found{history->sequence, history->filter ? history->count : 0, held != 0};
    }

    // Subscribers whose filter in memory has a message of this origin and time as a straggler.
    std::vector<uint32_t> stragglers(uint32_t origin, int64_t moment_ms, int64_t now_ms) {
        flush(now_ms);
        std::vector<uint32_t> found;
        for (const History& history : histories_)
            if (history.used && history.kind == Kind::Deliver && history.origin == origin && history.singles.contains(moment_ms))
                found.push_back(history.peer);
        return found;
    }

    size_t memory_bytes() const {
        size_t bytes = sizeof *this + positions_.size() * sizeof(uint32_t) + marks_.size() * sizeof(Marks);
        for (const History& history : histories_)
            bytes += sizeof history + history.ids.capacity() + (history.filter ? history.filter->memory_bytes() : 0);
        for (const TrackedFilter& filter : done_) bytes += filter.data.size();
        return bytes;
    }

private:
    static constexpr size_t slots = 128;  // few enough for their positions and two filters to stay in the nearest cache
    static constexpr uint32_t none = UINT32_MAX;

    struct History {
        Kind kind = Kind::Publish;
        bool used = false, has_range = false, busy = false;  // busy: the filter before was full
        uint32_t origin = 0, peer = 0;
        uint64_t sequence = 0, count = 0, stored_count = 0;
        int64_t first_ms = 0, last_ms = 0, opened_ms = 0, dirty_ms = 0;
        std::set<int64_t> singles;
        std::unique_ptr<Bloom> filter;
        std::string ids;

        bool dirty() const { return used && count > stored_count; }
        bool holds(int64_t moment) const {
            return count && ((has_range && first_ms <= moment && moment <= last_ms) || singles.contains(moment));
        }
    };

    // Which ids of the arena belong to a history. Apart from the histories, and small: it is touched for every delivery.
    struct Marks {
        std::array<uint64_t, slots / 64> words{};
        bool any = false;
    };

    // Where messages pass: a history for each origin, few of them, and mostly the same as for the last message.
    struct Point {
        uint32_t last_origin = 0, last = none;
        std::unordered_map<uint32_t, uint32_t> histories;  // by origin

        uint32_t of(Tracker& tracker, Kind kind, uint32_t origin, uint32_t peer) {
            if (last_origin == origin && last != none) [[likely]] return last;
            const auto [found, fresh] = histories.try_emplace(origin, 0);
            if (fresh) found->second = tracker.open(kind, origin, peer);
            last_origin = origin;
            return last = found->second;
        }
    };

    const Point* at(Kind kind, uint32_t peer) const {
        switch (kind) {
            case Kind::Publish: return &publish_;
            case Kind::Route: return &route_;
            case Kind::Forward: {
                const auto found = neighbours_.find(peer);
                return found == neighbours_.end() ? nullptr : &found->second;
            }
            case Kind::Deliver: return peer < subscribers_.size() ? &subscribers_[peer] : nullptr;
        }
        return nullptr;
    }

    uint32_t open(Kind kind, uint32_t origin, uint32_t peer) {
        uint32_t index = static_cast<uint32_t>(histories_.size());
        if (free_.empty()) {
            histories_.emplace_back();
            marks_.emplace_back();
        } else {
            index = free_.back();
            free_.pop_back();
        }
        History& history = histories_[index];
        history.used = true;
        history.kind = kind;
        history.origin = origin;
        history.peer = peer;
        history.sequence = next_sequence_++;
        return index;
    }

    void end(Point& point, int64_t now_ms) {
        for (const auto& [origin, index] : point.histories) {
            History& history = histories_[index];
            if (history.dirty()) store(history, now_ms);
            history = History{};
            free_.push_back(index);
        }
        point = Point{};
    }

    // ---- the arena

    // The slot of an id: that of the last one if it is the same.
    uint32_t begin(const uint8_t* id, int64_t now_ms) {
        if (used_ && std::memcmp(ids_[used_ - 1].data(), id, id_bytes) == 0) return used_ - 1;
        if (used_ == slots) flush(now_ms);
        if (used_ == 0) began_ms_ = now_ms;
        now_ms_ = now_ms;
        std::memcpy(ids_[used_].data(), id, id_bytes);
        uint32_t origin;
        uint64_t time;
        std::memcpy(&origin, id + 4, 4);
        std::memcpy(&time, id + 8, 8);
        origins_[used_] = __builtin_bswap32(origin);
        times_[used_] = static_cast<int64_t>(__builtin_bswap64(time) >> 16);
        return used_++;
    }

    void note(uint32_t index, uint32_t slot) {
        Marks& marks = marks_[index];
        if (!marks.any) {
            marks.any = true;
            dirty_.push_back(index);
        }
        marks.words[slot / 64] |= 1ull << (slot % 64);  // two subscriptions of one subscriber are one delivery
    }

    void flush(int64_t now_ms) {
        if (used_ == 0) return;
        now_ms_ = std::max(now_ms_, now_ms);
        if (!options_.exact)
            for (uint32_t slot = 0; slot < used_; ++slot)
                Bloom::positions_of(ids_[slot].data(), options_.bits, options_.hashes, &positions_[slot * options_.hashes]);
        for (const uint32_t index : dirty_) add(histories_[index], marks_[index]);
        dirty_.clear();
        used_ = 0;
    }

    void add(History& history, Marks& marks) {
        if (!history.dirty()) history.dirty_ms = began_ms_;
        uint64_t count = 0;
        for (const uint64_t word : marks.words) count += static_cast<uint64_t>(std::popcount(word));
        if (history.filter && history.count && history.count + count < options_.capacity) add_all(history, marks, count);
        else each(marks, [&](uint32_t slot) { add_one(history, slot); });
        marks = {};
    }

    template <class Do>
    static void each(const Marks& marks, Do&& what) {
        for (size_t word = 0; word < marks.words.size(); ++word)
            for (uint64_t left = marks.words[word]; left; left &= left - 1)
                what(static_cast<uint32_t>(64 * word + static_cast<size_t>(std::countr_zero(left))));
    }

    // As `add_one` of each, where none of them opens, makes or fills a filter.
    void add_all(History& history, const Marks& marks, uint64_t count) {
        int64_t first = INT64_MAX, last = INT64_MIN;
        each(marks, [&](uint32_t slot) {
            history.filter->set(&positions_[slot * options_.hashes]);
            first = std::min(first, times_[slot]);
            last = std::max(last, times_[slot]);
        });
        history.count += count;
        if (regular(history, first) && regular(history, last)) {
            stretch(history, first);
            stretch(history, last);
        } else {
            each(marks, [&](uint32_t slot) { stretch(history, times_[slot]); });
        }
    }

    void add_one(History& history, uint32_t slot) {
        if (history.count == 0) history.opened_ms = began_ms_;
        ++history.count;
        if (!history.filter && (history.count > young_max_ || (history.busy && !options_.exact))) grow_up(history);
        if (history.filter) history.filter->set(&positions_[slot * options_.hashes]);
        else history.ids.append(reinterpret_cast<const char*>(ids_[slot].data()), id_bytes);
        stretch(history, times_[slot]);
        if (history.count >= options_.capacity) {
            store(history, now_ms_);
            history.dirty_ms = began_ms_;
        }
    }

    // Its ids take as much room as a filter would: now it is one.
    void grow_up(History& history) {
        history.filter = std::make_unique<Bloom>(options_.bits, options_.hashes);
        history.filter->add(reinterpret_cast<const uint8_t*>(history.ids.data()), history.ids.size() / id_bytes);
        history.ids = {};
    }

    // No straggler: much older than the filter, or from a clock that is ahead.
    bool regular(const History& history, int64_t time) const {
        const int64_t jitter_ms = history.kind == Kind::Publish ? 0 : options_.jitter_ms;
        return time >= history.opened_ms - options_.skew_ms - jitter_ms && time <= now_ms_ + options_.skew_ms;
    }

    // R, or S for a straggler.
    void stretch(History& history, int64_t time) {
        if (!regular(history, time)) {
            history.singles.insert(time);
            return;
        }
        history.first_ms = history.has_range ? std::min(history.first_ms, time) : time;
        history.last_ms = history.has_range ? std::max(history.last_ms, time) : time;
        history.has_range = true;
    }

    // ---- out

    void store_copy(History& history, int64_t now_ms) {
        TrackedFilter& out = done_.emplace_back();
        out.kind = static_cast<uint8_t>(history.kind);
        out.origin = history.origin;
        out.peer = history.peer;
        out.sequence = history.sequence;
        out.count = history.count;
        out.full = history.count >= options_.capacity;
        out.has_range = history.has_range;
        out.first_ms = history.first_ms;
        out.last_ms = history.last_ms;
        out.opened_ms = history.opened_ms;
        out.stored_ms = now_ms;
        out.singles.assign(history.singles.begin(), history.singles.end());
        out.exact = !history.filter;
        if (out.exact) {
            out.data = history.ids;
        } else {
            out.data.resize(history.filter->serialised_bytes());
            history.filter->serialise(reinterpret_cast<uint8_t*>(out.data.data()));
        }
        history.stored_count = history.count;
    }

    void store(History& history, int64_t now_ms) {
        store_copy(history, now_ms);
        history.busy = history.count >= options_.capacity;
        history.ids.clear();
        if (history.busy && history.filter) history.filter->clear();
        else history.filter.reset();
        history.singles.clear();
        history.has_range = false;
        history.count = history.stored_count = 0;
        history.sequence = next_sequence_++;
    }

    const TrackerOptions options_;
    std::vector<History> histories_;
    std::vector<Marks> marks_;  // of each history
    std::vector<uint32_t> free_, dirty_;
    Point publish_, route_;
    std::vector<Point> subscribers_;
    std::unordered_map<uint32_t, Point> neighbours_;
    std::vector<TrackedFilter> done_;
    uint64_t next_sequence_ = 0;
    uint32_t used_ = 0;
    int64_t began_ms_ = 0, now_ms_ = 0;  // of what is in the arena: the first and the last
    std::array<std::array<uint8_t, id_bytes>, slots> ids_{};
    std::array<uint32_t, slots> origins_{};
    std::array<int64_t, slots> times_{};
    uint64_t young_max_ = 0;  // so many ids are kept as they are before they become a filter
    std::vector<uint32_t> positions_;  // of the ids in the arena, k each
};

}  // namespace tidings
