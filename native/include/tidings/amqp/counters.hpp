// What is counted of sessions and links of AMQP (specification, parts 2.5.6 and 2.6.7): the state that the hot path and
// Python's state machines share.
#pragma once
#include <cstdint>
#include <deque>
#include <string>

namespace tidings {

// Serial numbers (RFC 1982) wrap around.
inline int32_t serial_distance(uint32_t ahead, uint32_t other) { return static_cast<int32_t>(ahead - other); }

struct AmqpLinkCounters {
    uint32_t delivery_count = 0;
    int64_t credit = 0;  // below zero: the client has sent more than it was allowed
    bool hot = false;    // plain messages of this link do not need Python

    // Of a link by which the client sends.
    int64_t under_way = 0;  // messages that the broker has not accepted yet
    std::string destination;
    bool queue = false;

    // Of a link by which we send.
    uint32_t subscription = 0;
    int64_t granted = 0;  // credit that the broker has for it
    uint64_t sent = 0;    // messages; the last one's tag
    bool says_destination = false, presettled = false;
    uint64_t message_bytes_max = 0;  // 0: any
    bool touched = false;            // Python is to look at its credit
    bool draining = false;
};

struct AmqpSessionCounters {
    // A delivery that the client has not settled; subscription 0: none, or Python's.
    struct Unsettled {
        uint32_t subscription = 0;
        uint64_t tag = 0;
    };

    uint32_t next_incoming_id = 0;
    int64_t remote_incoming_window = 0, incoming_window = 0;
    uint32_t next_outgoing_id = 0, next_delivery_id = 0;
    uint32_t waiting = 0;  // links that have transfers waiting for a window or for credit
    uint32_t first_unsettled = 0;
    std::deque<Unsettled> unsettled;  // from that delivery id on

    Unsettled* find(uint32_t id) {
        const uint32_t place = id - first_unsettled;
        return place < unsettled.size() && unsettled[place].subscription ? &unsettled[place] : nullptr;
    }

    void add(uint32_t id, Unsettled one) {
        if (unsettled.empty()) first_unsettled = id;
        while (id - first_unsettled > unsettled.size()) unsettled.push_back({});
        unsettled.push_back(one);
    }

    void remove(uint32_t id) {
        unsettled[id - first_unsettled].subscription = 0;
        while (!unsettled.empty() && !unsettled.front().subscription) unsettled.pop_front(), ++first_unsettled;
    }
};

}  // namespace tidings
