// Events of the forwarding plane: work that it hands to Python, in order. One struct for each kind, with the names and
// the order of fields of src/tidings/kernel/events.py, which says what each of them means.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tidings {

struct ControlFrame {
    uint32_t connection;
    uint8_t type;
    uint8_t flags;
    uint16_t session;
    std::string payload;
};

struct Published {
    uint32_t connection;
    uint32_t receipt;
    bool perhaps_sent;
    int64_t expires_ms;
    std::string message;
    std::vector<uint32_t> sinks;
};

struct PublishedToRouters {
    uint32_t connection;
    uint32_t receipt;
    bool perhaps_sent;
    int64_t expires_ms;
    std::string message;
    std::vector<uint32_t> sinks;
    std::vector<uint32_t> routers;
};

struct PublishedToScheme {
    uint32_t connection;
    uint32_t receipt;
    bool perhaps_sent;
    int64_t expires_ms;
    std::string message;
    std::vector<uint32_t> sinks;
};

struct Transacted {
    uint32_t connection;
    uint16_t session;
    uint32_t receipt;
    std::string message;
};

struct PublishCheck {
    uint32_t connection;
    uint16_t session;
    uint32_t receipt;
    bool queue;
    std::string destination;
};

struct Acknowledged {
    uint32_t connection;
    uint16_t session;
    uint32_t subscription;
    uint8_t flags;
    std::vector<uint64_t> tags;
};

struct CreditGiven {
    uint32_t connection;
    uint32_t subscription;
    uint32_t more;
};

struct FrameError {
    uint32_t connection;
    std::string code;
    std::string reason;
    size_t position;
    uint32_t receipt;
};

struct SlowConsumer {
    uint32_t connection;
    uint32_t subscription;
};

struct MessagesDropped {
    uint32_t connection;
    uint32_t subscription;
    uint64_t dropped;
    std::string_view reason;
};

struct MemoryShort {
    uint32_t connection;
};

struct OutputRoom {
    uint32_t connection;
};

struct ClockDrift {
    uint32_t connection;
    int64_t sent_ms;
};

struct CongestionChanged {
    uint32_t connection;
};

struct RemoteMessage {
    uint32_t connection;
    int64_t expires_ms;
    std::string message;
    std::vector<uint32_t> sinks;
};

struct Relayed {
    uint32_t connection;
    uint8_t hops;
    uint64_t tag;
    std::vector<uint32_t> routers;
    std::vector<uint64_t> numbers;
    uint32_t origin;
    uint64_t epoch;
    bool repeated;
    int64_t expires_ms;
    std::string message;
};

using Event = std::variant<ControlFrame, Published, PublishedToRouters, PublishedToScheme, Transacted, PublishCheck,
                           Acknowledged, CreditGiven, FrameError, SlowConsumer, MessagesDropped, MemoryShort,
                           OutputRoom, ClockDrift, CongestionChanged, RemoteMessage, Relayed>;

class Events {
public:
    template <typename Kind>
    void add(Kind event) {
        bytes_ += bytes_of(event);
        waiting_.emplace_back(std::move(event));
    }

    std::vector<Event> take() {
        bytes_ = 0;
        return std::exchange(waiting_, {});
    }

    bool empty() const { return waiting_.empty(); }
    size_t size() const { return waiting_.size(); }
    size_t bytes() const { return bytes_; }

private:
    // Of what a peer decides the size of.
    template <typename Kind>
    static size_t bytes_of(const Kind& event) {
        if constexpr (requires { event.message; }) return event.message.size();
        else if constexpr (requires { event.payload; }) return event.payload.size();
        else if constexpr (requires { event.destination; }) return event.destination.size();
        else if constexpr (requires { event.tags; }) return 8 * event.tags.size();
        else if constexpr (requires { event.code; }) return event.code.size();
        else return 0;
    }

    std::vector<Event> waiting_;
    size_t bytes_ = 0;
};

}  // namespace tidings
