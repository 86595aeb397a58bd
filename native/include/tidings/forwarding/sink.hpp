// The target of a match: a connection's output (direct), Python (mailbox), or another broker (link).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tidings/stomp/frame.hpp"

namespace tidings {

enum class Policy : uint8_t { PushBack, DropOldest, DropNewest, Disconnect };

// The reasons why a subscriber does not get a message; docs/wire.md, DROPPED, defines them.
enum class DropReason : uint8_t { Oldest, Newest, Stalled, Far, Cost };
inline constexpr std::array<std::string_view, 5> drop_reasons{"oldest", "newest", "stalled", "far", "cost"};

struct alignas(64) Sink {
    enum class Kind : uint8_t { Free, Direct, Mailbox, Link };

    static constexpr int64_t unlimited = INT64_MAX;
    static constexpr size_t waiting_bytes = 64;  // what one message costs in a backlog besides its frame
    static constexpr uint32_t link_number = UINT32_MAX;

    // The end of a large frame, the same for all sinks that it waits for.
    struct SharedEnd {
        std::string bytes;
        size_t sinks = 0;
    };

    struct Waiting {
        std::string frame;  // without its end, if that is shared
        std::shared_ptr<SharedEnd> end;
        int64_t expires_ms;
        std::array<uint8_t, 16> id{};  // of the message; nothing for links
        Waiting(std::string bytes, std::shared_ptr<SharedEnd> shared, int64_t expires,
                const uint8_t* message_id = nullptr)
            : frame(std::move(bytes)),
              end(std::move(shared)),
              expires_ms(expires) {
            if (message_id) std::copy_n(message_id, id.size(), id.begin());
        }
        size_t own_bytes() const { return frame.size() + waiting_bytes; }
        size_t bytes() const { return own_bytes() + (end ? end->bytes.size() : 0); }
    };

    // Most sinks never have one, and a deque takes half a kilobyte even while it is empty.
    class Backlog {
    public:
        bool empty() const { return !queue_ || queue_->empty(); }
        size_t size() const { return queue_ ? queue_->size() : 0; }
        Waiting& front() { return queue_->front(); }
        void push_back(Waiting waiting) {
            if (!queue_) queue_ = std::make_unique<std::deque<Waiting>>();
            queue_->push_back(std::move(waiting));
        }
        void pop_front() { queue_->pop_front(); }

    private:
        std::unique_ptr<std::deque<Waiting>> queue_;
    };

    // Fields that every delivery reads come first: one cache line.
    Kind kind = Kind::Free;
    StompVersion version = StompVersion::V12;  // if it speaks STOMP
    Policy policy = Policy::PushBack;
    bool no_local = false;
    bool stalled = false;  // takes nothing: no longer holds up publishers, loses messages instead
    bool leaving = false;  // Python was told to disconnect it
    bool queued = false;   // it has a backlog, and is in its connection's list of those
    bool noted = false;    // its subscriber must be told of drops
    uint32_t connection = 0;
    uint32_t number = 0;  // of the subscription, as its client counts
    int64_t credit = unlimited;
    uint64_t delivered = 0;
    std::string label;  // how its frames begin, in STOMP; empty: it speaks the native protocol
    uint64_t dropped = 0;
    bool congested = false;                              // full of what other brokers send: publishers there wait
    std::array<uint64_t, drop_reasons.size()> untold{};  // of these, by reason, what its subscriber was not told yet
    uint32_t place = 0;                                  // if it is queued: in its connection's list
    size_t backlog_bytes = 0, backlog_bytes_max = 0;
    int64_t moved_ms = 0;           // when something last left the backlog, or began to wait in it
    Backlog backlog;                // for credit, or for room in the output
    std::vector<uint32_t> waiters;  // publishing connections that are pushed back because of this sink

    // Both return by how many bytes what is held changes.
    size_t keep(Waiting one) {
        backlog_bytes += one.bytes();
        const size_t more = one.own_bytes() + (one.end && one.end->sinks++ == 0 ? one.end->bytes.size() : 0);
        backlog.push_back(std::move(one));
        return more;
    }
    size_t forget_oldest() {
        const Waiting& first = backlog.front();
        backlog_bytes -= first.bytes();
        const size_t less = first.own_bytes() + (first.end && --first.end->sinks == 0 ? first.end->bytes.size() : 0);
        backlog.pop_front();
        return less;
    }

    // Take back what is left of the credit; unlimited credit counts as none.
    uint32_t take_credit() { return credit == unlimited ? 0 : static_cast<uint32_t>(std::exchange(credit, 0)); }
    // Only credit can empty its backlog, and it still holds up publishers.
    bool starving() const { return kind == Kind::Direct && queued && credit == 0 && !stalled; }
    bool full() const { return backlog_bytes > backlog_bytes_max; }
    bool relaxed() const { return backlog_bytes <= backlog_bytes_max / 2; }
};

}  // namespace tidings
