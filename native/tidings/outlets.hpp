// Where messages leave: connections with their output, direct sinks with their backlogs, and the pressure both put on
// publishers. Knows nothing of matching or parsing.
#pragma once
#include <cstring>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tidings/batch.hpp"
#include "tidings/connection.hpp"
#include "tidings/error.hpp"
#include "tidings/events.hpp"
#include "tidings/sink.hpp"

namespace tidings {

enum FrameType : uint8_t { FramePublish = frame_publish, FrameDeliver = frame_deliver, FrameReceipts = 0x12, FrameCredit = 0x22 };

struct ForwarderOptions {
    size_t output_bytes_max = 1 << 20;      // a connection's output beyond this goes to its sinks' backlogs
    size_t memory_bytes_max = 256 << 20;    // output, backlogs, input and events together
    size_t login_frame_bytes_max = 64 << 10;
    int64_t stall_ms = 1000;
};

struct ForwarderStats {
    uint64_t received = 0, received_bytes = 0, delivered = 0, sent_bytes = 0;
    uint64_t unmatched = 0, expired = 0, dropped_oldest = 0, dropped_newest = 0, dropped_stalled = 0, dropped_link = 0, pushed_back = 0, feeds = 0;
};

class Outlets {
public:
    static constexpr uint32_t nobody = UINT32_MAX;

    explicit Outlets(const ForwarderOptions& options) : options(options) {}

    // ---- connections

    uint32_t open() {
        uint32_t number;
        if (free_connections_.empty()) {
            number = static_cast<uint32_t>(connections_.size());
            connections_.emplace_back();
        } else {
            number = free_connections_.back();
            free_connections_.pop_back();
        }
        connections_[number] = std::make_unique<Connection>();
        connections_[number]->open = true;
        connections_[number]->frame_bytes_max = options.login_frame_bytes_max;
        connections_[number]->output_bytes_max = options.output_bytes_max;
        return number;
    }

    // Its sinks must be gone before.
    void close(uint32_t number) {
        Connection& connection = at(number);
        if (!connection.direct.empty()) throw UsageError{"E_CONNECTION_SINKS", "the connection still has sinks"};
        held_bytes_ -= connection.output.size() + connection.tail.size();
        std::erase(dirty_, number);
        std::erase(resumable_, number);
        std::erase(memory_waiters_, number);
        if (connection.pushed_back)
            for (Sink& sink : sinks_) std::erase(sink.waiters, number);
        connections_[number].reset();
        free_connections_.push_back(number);
        relieve_memory();
    }

    Connection& at(uint32_t number) {
        if (number >= connections_.size() || !connections_[number]) throw UsageError{"E_NO_CONNECTION", "no such connection"};
        return *connections_[number];
    }

    Sink& sink_at(uint32_t index) {
        if (index >= sinks_.size() || sinks_[index].kind == Sink::Kind::Free) throw UsageError{"E_NO_SINK", "no such sink"};
        return sinks_[index];
    }

    // ---- sinks

    // The number the next sink will have.
    uint32_t next_sink() const { return free_sinks_.empty() ? static_cast<uint32_t>(sinks_.size()) : free_sinks_.back(); }

    Sink& add_sink(Sink::Kind kind) {
        const uint32_t index = next_sink();
        if (free_sinks_.empty())
            sinks_.emplace_back();
        else
            free_sinks_.pop_back();
        sinks_[index].kind = kind;
        return sinks_[index];
    }

    // The sink of a link: it holds up those who publish here, and loses what passes through when it is full.
    uint32_t add_link(uint32_t number, size_t backlog_bytes_max, size_t output_bytes_max) {
        Connection& connection = at(number);
        const uint32_t index = next_sink();
        Sink& sink = add_sink(Sink::Kind::Link);
        sink.connection = number;
        sink.number = Sink::link_number;
        sink.backlog_bytes_max = backlog_bytes_max;
        connection.output_bytes_max = std::min(output_bytes_max, connection.output_bytes_max);
        connection.direct.emplace(sink.number, index);
        return index;
    }

    void remove_sink(uint32_t index) {
        Sink& sink = sink_at(index);
        if (sink.kind != Sink::Kind::Mailbox) {
            Connection& connection = at(sink.connection);
            connection.direct.erase(sink.number);
            std::erase(connection.backlogged, index);
            held_bytes_ -= sink.backlog_bytes;
            release_waiters(sink);
        }
        sink = Sink{};
        free_sinks_.push_back(index);
        relieve_memory();
    }

    void credit(uint32_t index, uint32_t more, int64_t now_ms) {
        Sink& sink = sink_at(index);
        if (sink.credit != Sink::unlimited) sink.credit += more;
        pump(sink, at(sink.connection), now_ms);
    }

    // ---- deliveries

    void deliver_direct(Sink& sink, uint32_t publisher, uint32_t attempt, std::string_view message, int64_t now_ms) {
        if (sink.no_local && sink.connection == publisher) return;
        Connection& connection = *connections_[sink.connection];
        if (sink.backlog.empty() && sink.credit > 0 && connection.output.size() < connection.output_bytes_max) [[likely]] {
            sink.credit -= sink.credit != Sink::unlimited;
            const size_t bytes = delivery_bytes(message);
            write_delivery(connection.output.grow(bytes), sink.number, attempt, 0, message);
            held_bytes_ += bytes;
            ++sink.delivered;
            ++stats.delivered;
            mark_dirty(sink.connection, connection);
        } else {
            std::string frame(delivery_bytes(message), '\0');
            write_delivery(frame.data(), sink.number, attempt, 0, message);
            wait_in_backlog(sink, connection, publisher, std::move(frame), now_ms);
        }
    }

    // A frame of two parts for the link's peer.
    void deliver_link(Sink& sink, uint32_t publisher, uint8_t type, std::string_view head, std::string_view message, int64_t now_ms) {
        Connection& connection = *connections_[sink.connection];
        const size_t bytes = frame_header_bytes + head.size() + message.size();
        const auto write = [&](char* place) {
            place = write_frame_header(place, static_cast<uint32_t>(head.size() + message.size()), type);
            std::memcpy(place, head.data(), head.size());
            std::memcpy(place + head.size(), message.data(), message.size());
        };
        if (sink.backlog.empty() && connection.output.size() < connection.output_bytes_max) {
            write(connection.output.grow(bytes));
            held_bytes_ += bytes;
            ++sink.delivered;
            mark_dirty(sink.connection, connection);
        } else {
            std::string frame(bytes, '\0');
            write(frame.data());
            wait_in_backlog(sink, connection, publisher, std::move(frame), now_ms);
        }
    }

    void deliver(uint32_t number, uint32_t subscription, uint32_t attempt, uint64_t tag, std::string_view message) {
        Connection& connection = at(number);
        write_delivery(connection.output.grow(delivery_bytes(message)), subscription, attempt, tag, message);
        held_bytes_ += delivery_bytes(message);
        ++stats.delivered;
        mark_dirty(number, connection);
    }

    void answer_receipts(uint32_t number, Connection& connection) {
        if (connection.receipts.empty()) return;
        const auto count = static_cast<uint32_t>(connection.receipts.size());
        const size_t payload = 4 + 4 * size_t{count};
        char* place = connection.output.grow(frame_header_bytes + payload);
        place = write_frame_header(place, static_cast<uint32_t>(payload), FrameReceipts);
        std::memcpy(place, &count, 4);
        std::memcpy(place + 4, connection.receipts.data(), 4 * size_t{count});
        held_bytes_ += frame_header_bytes + payload;
        connection.receipts.clear();
        mark_dirty(number, connection);
    }

    // ---- output

    void send(uint32_t number, std::string_view bytes) {
        Connection& connection = at(number);
        connection.output.append(bytes);
        held_bytes_ += bytes.size();
        mark_dirty(number, connection);
    }

    // How much more a mailbox may put into this output; if nothing, an event Room follows when there is some again.
    size_t room(uint32_t number) {
        Connection& connection = at(number);
        const size_t used = connection.output.size();
        if (used < options.output_bytes_max) return options.output_bytes_max - used;
        connection.wants_room = true;
        return 0;
    }

    std::vector<uint32_t> take_dirty() {
        std::vector<uint32_t> ready;
        for (const uint32_t number : std::exchange(dirty_, {})) {
            Connection& connection = at(number);
            connection.dirty = false;
            if (connection.writable) ready.push_back(number);
        }
        return ready;
    }

    std::string_view front(uint32_t number, size_t bytes_max) { return at(number).output.front(bytes_max); }

    // These bytes of `front` are with the socket now.
    void drop(uint32_t number, size_t bytes, int64_t now_ms) {
        Connection& connection = at(number);
        connection.output.drop(bytes);
        held_bytes_ -= bytes;
        stats.sent_bytes += bytes;
        for (size_t i = 0; i < connection.backlogged.size();) {
            Sink& sink = sinks_[connection.backlogged[i]];
            pump(sink, connection, now_ms);
            i += sink.queued;  // an emptied sink has left the list
        }
        if (connection.wants_room && connection.output.size() <= options.output_bytes_max / 2) {
            connection.wants_room = false;
            events.add(Event{.kind = Event::Kind::Room, .connection = number});
        }
        relieve_memory();
    }

    void set_writable(uint32_t number, bool writable) {
        Connection& connection = at(number);
        connection.writable = writable;
        if (writable && !connection.output.empty()) mark_dirty(number, connection);
    }

    std::vector<uint32_t> take_resumable() { return std::exchange(resumable_, {}); }

    // To be called every now and then: sinks that have taken nothing for too long stop holding up others.
    void check_stalls(int64_t now_ms) {
        for (Sink& sink : sinks_) {
            if (sink.kind == Sink::Kind::Free || sink.kind == Sink::Kind::Mailbox || sink.stalled || !sink.full()) continue;
            if (now_ms - sink.moved_ms < options.stall_ms) continue;
            sink.stalled = true;
            release_waiters(sink);
        }
    }

    // ---- memory

    void hold_bytes(size_t bytes) { held_bytes_ += bytes; }
    void free_bytes(size_t bytes) { held_bytes_ -= bytes; }
    size_t held_bytes() const { return held_bytes_ + events.bytes(); }

    void maybe_push_back(uint32_t number, Connection& connection) {
        if (held_bytes() <= options.memory_bytes_max) return;
        if (std::ranges::find(memory_waiters_, number) != memory_waiters_.end()) return;
        memory_waiters_.push_back(number);
        ++connection.pushed_back;
        ++stats.pushed_back;
    }

    void relieve_memory() {
        if (memory_waiters_.empty() || held_bytes() > options.memory_bytes_max / 4 * 3) return;
        for (const uint32_t number : std::exchange(memory_waiters_, {})) unblock(number);
    }

    void maybe_resumable(uint32_t number, const Connection& connection) {
        if (connection.pushed_back == 0 && !connection.held) resumable_.push_back(number);
    }

    bool has_output() const { return !dirty_.empty(); }

    const ForwarderOptions options;
    ForwarderStats stats;
    Events events;

private:
    static constexpr size_t delivery_header_bytes = frame_header_bytes + 16;
    static size_t delivery_bytes(std::string_view message) { return delivery_header_bytes + message.size(); }

    static char* write_frame_header(char* place, uint32_t payload, uint8_t type) {
        std::memcpy(place, &payload, 4);
        place[4] = static_cast<char>(type);
        place[5] = place[6] = place[7] = 0;
        return place + frame_header_bytes;
    }

    static void write_delivery(char* place, uint32_t subscription, uint32_t attempt, uint64_t tag, std::string_view message) {
        place = write_frame_header(place, static_cast<uint32_t>(16 + message.size()), FrameDeliver);
        std::memcpy(place, &subscription, 4);
        std::memcpy(place + 4, &attempt, 4);
        std::memcpy(place + 8, &tag, 8);
        std::memcpy(place + 16, message.data(), message.size());
    }

    void wait_in_backlog(Sink& sink, Connection& connection, uint32_t publisher, std::string frame, int64_t now_ms) {
        if (sink.full() && !make_way(sink, publisher)) return;
        if (sink.backlog.empty()) sink.moved_ms = now_ms;
        if (!sink.queued) {
            sink.queued = true;
            connection.backlogged.push_back(connection.direct.at(sink.number));
        }
        sink.backlog_bytes += frame.size();
        held_bytes_ += frame.size();
        sink.backlog.push_back(std::move(frame));
        if (sink.full() && sink.policy == Policy::PushBack && publisher != nobody) push_back(sink, publisher);
    }

    // The sink's backlog is full: what its policy says. False: the new message is not taken.
    bool make_way(Sink& sink, uint32_t publisher) {
        switch (sink.policy) {
            case Policy::PushBack:
                if (!sink.stalled && publisher != nobody) return true;  // its publisher is being pushed back
                ++sink.dropped;
                ++(sink.kind == Sink::Kind::Link ? stats.dropped_link : stats.dropped_stalled);
                return false;
            case Policy::DropOldest:
                while (sink.full() && !sink.backlog.empty()) {
                    forget_oldest(sink);
                    ++sink.dropped;
                    ++stats.dropped_oldest;
                }
                return true;
            case Policy::Disconnect:
                if (!sink.leaving)
                    events.add(Event{.kind = Event::Kind::Slow, .connection = sink.connection, .receipt = sink.number});
                sink.leaving = true;
                [[fallthrough]];
            default:
                ++sink.dropped;
                ++stats.dropped_newest;
                return false;
        }
    }

    void forget_oldest(Sink& sink) {
        sink.backlog_bytes -= sink.backlog.front().size();
        held_bytes_ -= sink.backlog.front().size();
        sink.backlog.pop_front();
    }

    // Move what waits into the output, as far as credit and room go.
    void pump(Sink& sink, Connection& connection, int64_t now_ms) {
        while (!sink.backlog.empty() && sink.credit > 0 && connection.output.size() < connection.output_bytes_max) {
            sink.credit -= sink.credit != Sink::unlimited;
            connection.output.append(sink.backlog.front());
            held_bytes_ += sink.backlog.front().size();
            forget_oldest(sink);
            sink.moved_ms = now_ms;
            ++sink.delivered;
            stats.delivered += sink.kind == Sink::Kind::Direct;
            mark_dirty(sink.connection, connection);
        }
        if (sink.backlog.empty() && sink.queued) {
            sink.queued = false;
            std::erase(connection.backlogged, connection.direct.at(sink.number));
        }
        if (sink.relaxed()) {
            sink.stalled = false;
            release_waiters(sink);
        }
    }

    void mark_dirty(uint32_t number, Connection& connection) {
        if (connection.dirty) return;
        connection.dirty = true;
        dirty_.push_back(number);
    }

    // ---- back-pressure

    void push_back(Sink& sink, uint32_t publisher) {
        if (sink.stalled || std::ranges::find(sink.waiters, publisher) != sink.waiters.end()) return;
        sink.waiters.push_back(publisher);
        ++at(publisher).pushed_back;
        ++stats.pushed_back;
    }

    void release_waiters(Sink& sink) {
        for (const uint32_t number : std::exchange(sink.waiters, {})) unblock(number);
    }

    void unblock(uint32_t number) {
        Connection& connection = at(number);
        --connection.pushed_back;
        maybe_resumable(number, connection);
    }

    std::vector<std::unique_ptr<Connection>> connections_;
    std::deque<Sink> sinks_;
    std::vector<uint32_t> free_connections_, free_sinks_, dirty_, resumable_, memory_waiters_;
    size_t held_bytes_ = 0;  // of output, backlogs and input
};

}  // namespace tidings
