// What a tracker knows of one history, of those who receive the current messages, and the shape of its volumes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "tidings/tracking/filter_volume.hpp"
#include "tidings/tracking/marks.hpp"
#include "tidings/tracking/tracker_options.hpp"

namespace tidings {

// A subscriber's histories of what it lost have a peer of their own.
struct LossPeer {
    enum class Cause : uint8_t { Dropped, Expired, Buried };
    static constexpr uint32_t causes = 3, bit = 1u << 31, shift = 28;

    static uint32_t of(uint32_t subscriber, Cause cause) {
        return bit | static_cast<uint32_t>(cause) << shift | subscriber;
    }
};

enum class HistoryKind : uint8_t { Publish, Route, Forward, Deliver };

// What filters of one seed claim falsely others need not.
inline uint64_t seed_of(uint32_t broker, HistoryKind kind) {
    return mix64(uint64_t{broker} << 8 | (static_cast<uint64_t>(kind) + 1));
}

struct TrackedHistory {
    HistoryKind kind = HistoryKind::Publish;
    uint32_t origin = 0, peer = 0;
    uint64_t sequence = 0;
    int64_t late_ms = 0;                   // what is older than a volume by more than this is a straggler
    std::shared_ptr<FilterVolume> volume;  // from the first flush on
};

// The receivers of the current messages, and marks that are for all of them.
struct Audience {
    uint32_t origin = 0;
    std::vector<uint32_t> subscribers;
    Marks marks;
};

inline VolumeShape shape_of(const TrackerOptions& of) {
    const bool lists = of.exact || of.runs;
    const uint64_t young = lists       ? UINT64_MAX
                           : of.retain ? std::min(of.bits / 8 / IdArena::id_bytes, of.capacity - 1)
                                       : 0;
    return {of.bits, of.hashes, of.capacity, of.doublings, 2 * of.skew_ms + of.jitter_ms + 1, young, lists, of.runs};
}

}  // namespace tidings
