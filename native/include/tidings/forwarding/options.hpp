// Limits and counters of the forwarder.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "tidings/forwarding/sink.hpp"
#include "tidings/forwarding/topic_meter.hpp"

namespace tidings {

struct ForwarderOptions {
    static constexpr size_t answers_bytes_max = 64 << 10;  // of output above its limit before its client must read
    size_t output_bytes_max = 1 << 20;    // a connection's output beyond this goes to its sinks' backlogs
    size_t memory_bytes_max = 256 << 20;  // output, backlogs, input and events together
    size_t login_frame_bytes_max = 64 << 10;
    int64_t stall_ms = 1000;
};

struct ForwarderStats {
    static constexpr size_t protocols_max = 16;
    struct Messages {
        uint64_t received = 0, delivered = 0;
    };
    std::array<Messages, protocols_max> by_protocol{};  // by the number that a connection was opened with
    uint64_t received = 0, received_bytes = 0, sent_bytes = 0;
    uint64_t unmatched = 0, expired = 0, dropped_link = 0, pushed_back = 0;
    std::array<uint64_t, drop_reasons.size()> dropped{};  // for subscribers, by reason
    uint64_t feeds = 0, writes = 0;  // blocks of bytes that came from sockets, and that went to them
    TopicMeter by_destination;

    void arrived(uint8_t protocol) { ++received, ++by_protocol[protocol].received; }
    uint64_t delivered() const {
        uint64_t all = 0;
        for (const Messages& one : by_protocol) all += one.delivered;
        return all;
    }
};

}  // namespace tidings
