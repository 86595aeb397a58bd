// Records what passes here: histories of message ids, as runs, Bloom filters or as they are (docs/tracking.md).
//
//   begin(id) ── slot in the arena ──┬── published, routed ── one history for each origin
//                                    ├── forwarded ────────── … and neighbour
//                                    └── delivered ────────── … and subscriber
//
// On the way of a message only its id is noted, once, and a mark for each history it belongs to. When the arena is full its
// ids are put into one volume after the other (filter_volume.hpp): histories with the same marks share one. A volume
// that is full, or whose persistence interval has passed, is handed out by `take`.
//
// src/tidings/tracking/recording/recorder_backend.py says the same in plain Python.
#pragma once
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tidings/tracking/key_notes.hpp"
#include "tidings/tracking/marks.hpp"
#include "tidings/tracking/stored_content.hpp"
#include "tidings/tracking/tracked_history.hpp"
#include "tidings/tracking/tracker_options.hpp"

namespace tidings {

class Tracker {
public:
    using Kind = HistoryKind;
    using Loss = LossPeer::Cause;
    static constexpr size_t id_bytes = IdArena::id_bytes;
    static constexpr uint64_t bits_max = 1ull << 32;
    static constexpr uint32_t doublings_max = 16;
    static constexpr uint32_t unknown_origin = 0;
    static constexpr size_t kinds = 4;
    static constexpr size_t done_max = 1024;  // full filters that may wait for company

    struct Found {
        uint64_t sequence, hashed, bits;  // how many ids are in a Bloom filter, and not exact; its size
        bool held;
    };

    explicit Tracker(const TrackerOptions& options)
        : options_(options),
          shape_(shape_of(options)),
          arena_(options.exact || options.runs ? 0 : options.bits << options.doublings, options.hashes) {
        if (options.capacity == 0) throw UsageError{"E_TRACKING_CAPACITY", "a filter's capacity is at least 1"};
        if (options.doublings > doublings_max || options.bits > bits_max >> options.doublings)
            throw UsageError{"E_BLOOM_SIZE", "a tracked filter has at most 2^32 bits"};
        const bool lists = options.exact || options.runs;
        Bloom(lists ? 64 : options.bits, lists ? 1 : options.hashes);  // throws if it has no such shape
        for (size_t kind = 0; kind < kinds; ++kind) seeds_[kind] = seed_of(options.broker, static_cast<Kind>(kind));
    }
    Tracker(const Tracker&) = delete;

    bool forwards() const { return options_.forwards; }
    uint32_t broker() const { return options_.broker; }
    KeyNotes keys;  // of local publishers' messages

    // Ids that name other brokers share the histories of origin 0: anybody can invent brokers.
    void know_brokers(const std::vector<uint32_t>& brokers) {
        bounded_ = true;
        brokers_.insert(brokers.begin(), brokers.end());
    }

    // The broker that an id names.
    static uint32_t broker_in(const uint8_t* id) {
        uint32_t origin;
        std::memcpy(&origin, id + 4, 4);
        return __builtin_bswap32(origin);
    }

    // ---- recording; `id` has 16 bytes

    // By a local publisher. One whose id names another broker was sent there first, and is in a history of its own.
    void published(const uint8_t* id, int64_t now_ms) {
        const uint32_t slot = begin(id, now_ms);
        if (const uint32_t origin = origin_of(id); origin == options_.broker) [[likely]]
            published_.set(slot);
        else note(publish_.of(*this, Kind::Publish, origin, 0), slot);
    }

    // One that names this broker was published elsewhere, after its publisher had moved there.
    void routed(const uint8_t* id, int64_t now_ms) {
        const uint32_t slot = begin(id, now_ms);
        note(route_.of(*this, Kind::Route, origin_of(id), 0), slot);
    }

    void forwarded(const uint8_t* id, uint32_t neighbour, int64_t now_ms) {
        if (!options_.forwards) return;
        const uint32_t slot = begin(id, now_ms);
        note(neighbours_[neighbour].of(*this, Kind::Forward, origin_of(id), neighbour), slot);
    }

    void delivered(const uint8_t* id, uint32_t subscriber, int64_t now_ms) {
        if (subscriber & LossPeer::bit) return lost(id, subscriber, now_ms);
        const uint32_t slot = begin(id, now_ms);
        note(subscriber_at(subscriber).of(*this, Kind::Deliver, origin_of(id), subscriber), slot);
    }

    // It did not get it.
    void lost(const uint8_t* id, uint32_t subscriber, Loss cause, int64_t now_ms) {
        lost(id, LossPeer::of(subscriber, cause), now_ms);
    }

    // Whom `delivered` speaks of from now on. Messages that go one after the other to the same subscribers are noted
    // once for all.
    void set_audience(const std::vector<uint32_t>& subscribers) {
        if (audience_.subscribers == subscribers) return;
        spread_audience();
        audience_.subscribers = subscribers;
    }

    void delivered(const uint8_t* id, int64_t now_ms) {
        if (audience_.subscribers.empty()) return;
        const uint32_t slot = begin(id, now_ms), origin = origin_of(id);
        if (audience_.origin != origin) [[unlikely]] {
            spread_audience();
            audience_.origin = origin;
        }
        audience_.marks.set(slot);
    }

    // ---- what is stored

    // Filters that are due; with them, or once there are many, those that are full. `all`: these at once.
    std::vector<TrackedFilter> take(int64_t now_ms, bool all) {
        flush(now_ms);
        if (!done_.empty())
            all = all || done_.size() >= done_max || now_ms - done_.front().stored_ms >= options_.persist_ms;
        for (uint32_t index = 0; index < histories_.size(); ++index) {
            FilterVolume* const volume = histories_[index].volume.get();
            if (!volume || volume->owners.front() != index || !volume->dirty()) continue;
            volume->dirty_ms = std::min(volume->dirty_ms, now_ms);  // the clock was set back
            if (volume->dirty_ms + options_.persist_ms > now_ms) continue;
            if (options_.retain && !shape_.exact && !volume->outgrows(shape_, now_ms)) store_copy(*volume, now_ms);
            else store(*volume, now_ms);
            all = true;
        }
        latest_ms_ = now_ms;
        return all ? std::exchange(done_, {}) : std::vector<TrackedFilter>{};
    }

    // This subscriber or neighbour has gone: its histories end. Returns all that waits to be stored.
    std::vector<TrackedFilter> end(Kind kind, uint32_t peer, int64_t now_ms) {
        flush(now_ms);
        if (now_ms < latest_ms_) set_back(now_ms);
        if (kind == Kind::Forward) end(neighbours_[peer], now_ms), neighbours_.erase(peer);
        else if (kind == Kind::Deliver && peer < subscribers_.size()) {
            end(subscribers_[peer], now_ms);
            for (uint32_t cause = 0; cause < LossPeer::causes; ++cause) {
                const auto found = losses_.find(LossPeer::of(peer, static_cast<Loss>(cause)));
                if (found != losses_.end()) end(found->second, now_ms), losses_.erase(found);
            }
        }
        return std::exchange(done_, {});
    }

    std::vector<TrackedFilter> end_all(int64_t now_ms) {
        flush(now_ms);
        for (uint32_t index = 0; index < histories_.size(); ++index) {
            FilterVolume* const volume = histories_[index].volume.get();
            if (volume && volume->owners.front() == index && volume->dirty()) store(*volume, now_ms);
        }
        return std::exchange(done_, {});
    }

    // The filter in memory, if it belongs to the matching set of this time, and whether it holds the id.
    std::optional<Found> find(Kind kind, uint32_t origin, uint32_t peer, const uint8_t* id, int64_t moment_ms,
                              int64_t now_ms) {
        flush(now_ms);
        const Point* const point = at(kind, peer);
        if (point == nullptr || !point->histories.contains(origin)) return {};
        const History& history = histories_[point->histories.at(origin)];
        const FilterVolume& volume = *history.volume;  // whatever was noted has one, after the flush
        if (!volume.holds(moment_ms)) return {};
        return Found{history.sequence, volume.filter ? volume.count : 0, shape_.bits << volume.doublings,
                     volume.contains(id)};
    }

    // Subscribers whose filter in memory has a message of this origin and time as a straggler.
    std::vector<uint32_t> stragglers(uint32_t origin, int64_t moment_ms, int64_t now_ms) {
        flush(now_ms);
        std::vector<uint32_t> found;
        for (const History& history : histories_)
            if (history.volume && history.kind == Kind::Deliver && history.origin == origin &&
                !(history.peer & LossPeer::bit) && history.volume->singles.contains(moment_ms))
                found.push_back(history.peer);
        return found;
    }

    size_t memory_bytes() const {
        size_t bytes = sizeof *this + arena_.memory_bytes() + histories_.size() * (sizeof(History) + sizeof(Marks));
        for (uint32_t index = 0; index < histories_.size(); ++index)
            if (const FilterVolume* volume = histories_[index].volume.get(); volume && volume->owners.front() == index)
                bytes += volume->memory_bytes();
        const std::string* last = nullptr;
        for (const TrackedFilter& filter : done_)
            if (filter.data.get() != last) bytes += (last = filter.data.get())->size();
        return bytes;
    }

private:
    static constexpr uint32_t none = UINT32_MAX;
    static constexpr size_t fresh_max = 16;  // volumes begun in one flush that a new history is compared with

    using History = TrackedHistory;

    // A point that messages pass: a history for each origin, few of them, and mostly the same as for the last message.
    struct Point {
        uint32_t last_origin = 0, last = none;
        std::unordered_map<uint32_t, uint32_t> histories;  // by origin

        uint32_t of(Tracker& tracker, Kind kind, uint32_t origin, uint32_t peer) {
            if (last_origin == origin && last != none) [[likely]]
                return last;
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
            case Kind::Deliver: {
                const auto found = losses_.find(peer);
                if (found != losses_.end()) return &found->second;
                return peer < subscribers_.size() ? &subscribers_[peer] : nullptr;
            }
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
        history.kind = kind;
        history.origin = origin;
        history.peer = peer;
        history.sequence = next_sequence_++;
        history.late_ms = options_.skew_ms + (kind == Kind::Publish ? 0 : options_.jitter_ms);
        return index;
    }

    // The clock was set back: deadlines of the old time may never come.
    void set_back(int64_t now_ms) {
        for (const History& history : histories_)
            if (history.volume) history.volume->dirty_ms = std::min(history.volume->dirty_ms, now_ms);
        latest_ms_ = now_ms;
    }

    void end(Point& point, int64_t now_ms) {
        for (const auto& [origin, index] : point.histories) {
            History& history = histories_[index];
            FilterVolume& volume = *history.volume;
            if (volume.dirty())
                emit(volume, index, StoredContents(volume, shape_, seeds_).of(static_cast<size_t>(history.kind)),
                     now_ms);
            std::erase(volume.owners, index);
            if (!volume.owners.empty()) own(volume);
            history = History{};
            free_.push_back(index);
        }
        point = Point{};
    }

    // ---- the arena

    uint32_t origin_of(const uint8_t* id) {
        const uint32_t origin = broker_in(id);
        if (origin == options_.broker || origin == last_known_) [[likely]]
            return origin;
        if (bounded_ && !brokers_.contains(origin)) return unknown_origin;
        return last_known_ = origin;
    }

    // The slot of an id: that of the last one if it is the same.
    uint32_t begin(const uint8_t* bytes, int64_t now_ms) {
        IdArena::Id id;
        std::memcpy(id.data(), bytes, sizeof id);
        if (arena_.ends_with(id)) return arena_.used - 1;
        if (arena_.full()) [[unlikely]]
            flush(now_ms);
        if (arena_.empty()) times_.began_ms = now_ms;
        times_.now_ms = now_ms;
        return arena_.add(id);
    }

    void lost(const uint8_t* id, uint32_t peer, int64_t now_ms) {
        const uint32_t slot = begin(id, now_ms);
        note(losses_[peer].of(*this, Kind::Deliver, origin_of(id), peer), slot);
    }

    Point& subscriber_at(uint32_t subscriber) {
        if (subscriber >= subscribers_.size()) subscribers_.resize(size_t{subscriber} + 1);
        return subscribers_[subscriber];
    }

    Marks& marks_of(uint32_t index) {
        if (!marks_[index].any) dirty_.push_back(index);
        return marks_[index];
    }

    // Two subscriptions of one subscriber are one delivery.
    void note(uint32_t index, uint32_t slot) { marks_of(index).set(slot); }

    void spread_audience() {
        if (!audience_.marks.any) return;
        const Marks common = std::exchange(audience_.marks, {});
        for (const uint32_t subscriber : audience_.subscribers)
            marks_of(subscriber_at(subscriber).of(*this, Kind::Deliver, audience_.origin, subscriber)).unite(common);
    }

    void spread_published() {
        if (published_.any)
            marks_of(publish_.of(*this, Kind::Publish, options_.broker, 0)).unite(std::exchange(published_, {}));
    }

    void flush(int64_t now_ms) {
        if (arena_.empty()) return;
        spread_published();
        spread_audience();
        times_.now_ms = std::max(times_.now_ms, now_ms);
        latest_ms_ = std::max(latest_ms_, times_.began_ms);
        arena_.read_times();
        oldest_ms_ = arena_.oldest_ms();
        ++turn_;
        for (const uint32_t index : dirty_)
            if (!histories_[index].volume) place(index);
        fresh_.clear();
        leaders_.clear();
        for (const uint32_t index : dirty_) {
            if (histories_[index].volume->turn == turn_) continue;
            if (!agree(*histories_[index].volume)) split(histories_[index].volume);
            histories_[index].volume->turn = turn_;
            leaders_.push_back(index);
        }
        for (uint32_t first = 0; first < arena_.used; first += IdArena::chunk) {
            if (shape_.exact) {
                for (const uint32_t index : leaders_) fill(*histories_[index].volume, marks_[index], first);
                continue;
            }
            for (const uint64_t seed : seeds_) {  // positions are of one kind of histories at a time
                bool found = false;
                for (const uint32_t index : leaders_) {
                    FilterVolume& volume = *histories_[index].volume;
                    if (volume.seed != seed) continue;
                    if (!std::exchange(found, true)) arena_.find_positions(first, seed);
                    fill(volume, marks_[index], first);
                }
            }
        }
        for (const uint32_t index : dirty_) marks_[index] = {};
        dirty_.clear();
        arena_.used = 0;
    }

    // A new history: with another new one of the same marks, or alone.
    void place(uint32_t index) {
        for (const std::shared_ptr<FilterVolume>& one : fresh_) {
            if (marks_[one->owners.front()] != marks_[index] ||
                !shares(histories_[one->owners.front()], histories_[index]))
                continue;
            one->owners.push_back(index);
            own(*one);
            histories_[index].volume = one;
            return;
        }
        auto volume = histories_[index].volume = std::make_shared<FilterVolume>();
        volume->owners = {index};
        volume->early_ms = options_.skew_ms;
        volume->seed = seeds_[static_cast<size_t>(histories_[index].kind)];
        volume->runs.numbering = options_.numbering;
        own(*volume);
        if (fresh_.size() < fresh_max) fresh_.push_back(volume);
    }

    // Filters are of one kind. Lists never err: all histories may have one together.
    bool shares(const History& one, const History& other) const { return shape_.exact || one.kind == other.kind; }

    // Its owners have changed.
    void own(FilterVolume& volume) const {
        const auto late_ms = [&](uint32_t index) { return histories_[index].late_ms; };
        const auto [least, most] = std::ranges::minmax(volume.owners, {}, late_ms);
        volume.late_ms = late_ms(least);
        volume.mixed = late_ms(least) != late_ms(most);
    }

    // True if two owners of a volume do the same with what is in the arena: they take the same, and if what is late to
    // one is not to the other, nothing is late to either.
    bool alike(const FilterVolume& volume, uint32_t one, uint32_t other) const {
        return marks_[one] == marks_[other] && (!volume.mixed || oldest_ms_ >= times_.began_ms - volume.late_ms ||
                                                histories_[one].late_ms == histories_[other].late_ms);
    }

    bool agree(const FilterVolume& volume) const {
        return std::ranges::all_of(volume.owners,
                                   [&](uint32_t index) { return alike(volume, volume.owners.front(), index); });
    }

    // Owners that differ part.
    void split(std::shared_ptr<FilterVolume> volume) {
        std::vector<uint32_t> left = volume->owners;
        const auto as_first = [&, first = left.front()](uint32_t index) { return alike(*volume, first, index); };
        const auto others = std::ranges::stable_partition(left, as_first);
        auto apart = volume->copy_for({others.begin(), others.end()});
        left.erase(others.begin(), left.end());
        volume->owners = std::move(left);
        own(*volume);
        own(*apart);
        for (const uint32_t index : apart->owners) histories_[index].volume = apart;
        if (!agree(*apart)) split(apart);
    }

    // With what is marked in the chunk of the arena that begins here.
    void fill(FilterVolume& volume, const Marks& marks, uint32_t first) {
        std::array<uint16_t, IdArena::chunk> list;
        Slots chosen = marks.in_chunk(first, list.data());
        while (chosen.count) {
            chosen = chosen.tail(volume.add(arena_, chosen, shape_, times_));
            if (volume.full(shape_)) store(volume, times_.now_ms);
        }
    }

    // ---- out

    void emit(const FilterVolume& volume, uint32_t index, const StoredContent& content, int64_t now_ms) {
        const History& history = histories_[index];
        TrackedFilter& out = done_.emplace_back();
        out.kind = static_cast<uint8_t>(history.kind);
        out.origin = history.origin;
        out.peer = history.peer;
        out.sequence = history.sequence;
        out.count = volume.count;
        out.full = volume.full(shape_);
        out.has_range = volume.has_range;
        out.first_ms = volume.first_ms;
        out.last_ms = volume.last_ms;
        out.opened_ms = volume.opened_ms;
        out.stored_ms = now_ms;
        out.singles.assign(volume.singles.begin(), volume.singles.end());
        out.form = content.form;
        out.data = content.data;
    }

    void store_copy(FilterVolume& volume, int64_t now_ms) {
        StoredContents contents(volume, shape_, seeds_);
        for (const uint32_t index : volume.owners)
            emit(volume, index, contents.of(static_cast<size_t>(histories_[index].kind)), now_ms);
        volume.stored_count = volume.count;
    }

    void store(FilterVolume& volume, int64_t now_ms) {
        store_copy(volume, now_ms);
        volume.clear(shape_, now_ms);
        for (const uint32_t index : volume.owners) histories_[index].sequence = next_sequence_++;
    }

    const TrackerOptions options_;
    const VolumeShape shape_;
    std::array<uint64_t, kinds> seeds_{};
    std::unordered_set<uint32_t> brokers_;  // others that there are, or were
    uint32_t last_known_ = 0;
    bool bounded_ = false;  // before the first call of `know_brokers` every id is believed
    std::vector<History> histories_;
    std::vector<Marks> marks_;                          // of each history
    std::vector<uint32_t> free_, dirty_, leaders_;      // dirty: have marks; leaders: of these, one for each volume
    std::vector<std::shared_ptr<FilterVolume>> fresh_;  // begun in this flush
    Point publish_, route_;
    std::vector<Point> subscribers_;
    Marks published_;  // marks of H_P
    Audience audience_;
    std::unordered_map<uint32_t, Point> neighbours_, losses_;
    std::vector<TrackedFilter> done_;
    uint64_t next_sequence_ = 0, turn_ = 0;
    FilterVolume::Times times_;
    int64_t oldest_ms_ = 0;  // of the ids in the arena
    int64_t latest_ms_ = 0;  // no deadline in memory was reckoned from a later time
    IdArena arena_;
};

}  // namespace tidings
