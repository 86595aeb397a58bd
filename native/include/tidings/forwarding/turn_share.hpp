// The share that the input of one connection has of a turn of the driver. When it is used up, others come first:
// parsing of the connection stops (`Connection::tired`), and the rest of its input waits in a line for a later turn.
//
// A share ends by time, whatever the frames cost, or by the number of events, which Python has to handle later. The
// time is the system's: a driver in virtual time sets none, and then a share has no end.
#pragma once
#include <deque>

#include "tidings/forwarding/output_queues.hpp"
#include "tidings/support/clock.hpp"

namespace tidings {

class TurnShare {
public:
    static constexpr size_t events_max = 1024;

    // 0: without end.
    void set(int64_t ms) { ms_ = ms; }

    void begin(const OutputQueues& out) {
        events_ = out.events.size();
        if (ms_) ends_ms_ = coarse_ms() + ms_;
    }

    // Before each frame but the first: true if it must wait. Links are never put off.
    bool ends(Connection& connection, const OutputQueues& out) {
        if (!ms_ || connection.neighbour) return false;
        if (coarse_ms() < ends_ms_ && out.events.size() < events_ + events_max) return false;
        if (!std::exchange(connection.tired, true)) line_.push_back(connection.number);
        return true;
    }

    bool has_tired() const { return !line_.empty(); }

    // The connection that has waited longest, to be resumed; -1: none waits.
    int64_t rest(OutputQueues& out) {
        while (!line_.empty()) {
            Connection* connection = out.find(line_.front());
            line_.pop_front();
            if (connection != nullptr && std::exchange(connection->tired, false)) return connection->number;
        }
        return -1;  // what was in the line has been closed
    }

private:
    int64_t ms_ = 0, ends_ms_ = 0;
    size_t events_ = 0;  // when the share began
    std::deque<uint32_t> line_;
};

}  // namespace tidings
