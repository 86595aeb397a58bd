// Settings of the recorder of histories (tracker.hpp).
#pragma once
#include <cstdint>

namespace tidings {

struct TrackerOptions {
    uint32_t broker = 0;
    bool exact = false;  // keep the ids themselves; capacity is then that of a buffer
    bool runs = false;   // … as runs, handed out as a filter if that is smaller
    uint64_t bits = 65536;
    uint32_t hashes = 16;
    uint64_t capacity = 2521;
    uint32_t doublings = 0;  // of bits and capacity, for histories that fill filters too fast
    int64_t skew_ms = 250, jitter_ms = 0, persist_ms = 1000;
    bool retain = true;      // a filter stored on time goes on being filled
    bool forwards = false;   // a history for each neighbour too
    uint64_t numbering = 0;  // key of the numbers of local publishers (`PublisherNumbering`)
};

}  // namespace tidings
