// What the forwarder cannot finish by itself: for Python, in order.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tidings {

struct Event {
    enum class Kind : uint8_t { Control = 1, Message, Transacted, Ask, Error, Slow, Room, Arrived, Relay, Entry, Ack, Credit, Clock };

    Kind kind;
    uint32_t connection = 0;
    uint8_t type = 0, flags = 0;   // of a control frame
    uint16_t session = 0;
    uint32_t receipt = 0;          // or the subscription that is slow, acknowledged or given credit
    uint32_t more = 0;             // credit
    int64_t expires_ms = 0;
    std::string bytes{};           // the message, a control frame's payload, a destination, or an error's code
    std::string reason{};
    size_t position = 0;
    std::vector<uint32_t> sinks{};
    std::vector<uint32_t> routers{};
    uint64_t tag = 0;
    std::vector<uint64_t> tags{};  // of an acknowledgement
};

class Events {
public:
    void add(Event event) {
        bytes_ += event.bytes.size() + 8 * event.tags.size();
        waiting_.push_back(std::move(event));
    }

    std::vector<Event> take() {
        bytes_ = 0;
        return std::exchange(waiting_, {});
    }

    bool empty() const { return waiting_.empty(); }
    size_t bytes() const { return bytes_; }

private:
    std::vector<Event> waiting_;
    size_t bytes_ = 0;
};

}  // namespace tidings
