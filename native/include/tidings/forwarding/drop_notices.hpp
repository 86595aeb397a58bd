// Messages that a policy dropped for direct sinks, counted by reason until the subscriber is notified. What was dropped
// meanwhile adds up: a sink is notified at most once a call of `send`, and a connection that reads nothing gets no more
// than `unread_max` notices.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "tidings/forwarding/connection.hpp"
#include "tidings/forwarding/events.hpp"
#include "tidings/forwarding/sink.hpp"

namespace tidings {

class DropNotices {
public:
    static constexpr uint32_t unread_max = 64;

    void note(Sink& sink, const Connection& connection, DropReason reason, size_t count) {
        sink.untold[static_cast<size_t>(reason)] += count;
        if (!std::exchange(sink.noted, true)) sinks_.push_back(connection.direct.at(sink.number));
    }

    void forget(uint32_t index) { std::erase(sinks_, index); }

    // `sink_at` and `connection_at` find these by their numbers.
    template <typename SinkAt, typename ConnectionAt>
    void send(SinkAt sink_at, ConnectionAt connection_at, Events& events) {
        std::erase_if(sinks_, [&](uint32_t index) {
            Sink& sink = sink_at(index);
            Connection& connection = connection_at(sink.connection);
            if (connection.unread_notices >= unread_max) return false;
            for (size_t reason = 0; reason < sink.untold.size(); ++reason) {
                const uint64_t count = std::exchange(sink.untold[reason], 0);
                if (count == 0) continue;
                events.add(MessagesDropped{sink.connection, sink.number, count, drop_reasons[reason]});
                ++connection.unread_notices;
            }
            sink.noted = false;
            return true;
        });
    }

private:
    std::vector<uint32_t> sinks_;  // with a notice to send, in the order of their first drops
};

}  // namespace tidings
