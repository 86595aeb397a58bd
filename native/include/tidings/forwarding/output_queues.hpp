// Output: connections with their output, direct sinks with their backlogs, and the pressure that both put on publishers.
#pragma once
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tidings/codec/batch.hpp"
#include "tidings/codec/frames.hpp"
#include "tidings/forwarding/congestion.hpp"
#include "tidings/forwarding/connection_table.hpp"
#include "tidings/forwarding/drop_notices.hpp"
#include "tidings/forwarding/events.hpp"
#include "tidings/forwarding/options.hpp"
#include "tidings/forwarding/partial_frames.hpp"
#include "tidings/forwarding/prelogin_memory.hpp"
#include "tidings/forwarding/sink_table.hpp"
#include "tidings/forwarding/waiting_frames.hpp"
#include "tidings/stomp/message_writer.hpp"
#include "tidings/support/error.hpp"
#include "tidings/tracking/delivery_recorder.hpp"

namespace tidings {

class OutputQueues {
public:
    static constexpr uint32_t nobody = UINT32_MAX;
    explicit OutputQueues(const ForwarderOptions& options) : options(options) {}

    // ---- connections

    uint32_t open(size_t protocol = 0) {
        if (protocol >= ForwarderStats::protocols_max)
            throw UsageError{"E_PROTOCOL", "more protocols than are counted"};
        Connection& connection = connections_.open();
        connection.protocol = static_cast<uint8_t>(protocol);
        connection.frame_bytes_max = options.login_frame_bytes_max;
        connection.output_bytes_max = options.output_bytes_max;
        return connection.number;
    }

    // Its sinks must be gone before.
    void close(uint32_t number) {
        Connection& connection = at(number);
        if (!connection.direct.empty()) throw UsageError{"E_CONNECTION_SINKS", "the connection still has sinks"};
        held_bytes_ -= connection.output.size() + connection.tail.size() + connection.parked_bytes;
        std::erase(dirty_, number), std::erase(resumable_, number);
        std::erase(memory_waiters_, number);
        if (connection.pushed_back)
            for (Sink& sink : sinks_) std::erase(sink.waiters, number);
        congestion.forget(number);
        prelogin_memory.free(connection, connection.tail.size());
        partial_frames.end(connection);
        connections_.close(number);
        relieve_memory();
    }

    Connection* find(uint32_t number) { return connections_.find(number); }
    Connection& at(uint32_t number) {
        Connection* const connection = find(number);
        if (connection == nullptr) throw UsageError{"E_NO_CONNECTION", "no such connection"};
        return *connection;
    }

    Sink& sink_at(uint32_t index) { return sinks_.at(index); }

    // ---- what is recorded

    void use_tracker(Tracker& tracker) { recorder_.use(tracker); }
    Tracker* tracker() const { return recorder_.tracker(); }

    void set_subscriber(uint32_t number, uint32_t subscriber) {
        if (subscriber && !tracker()) throw UsageError{"E_TRACKING_OFF", "nothing is recorded here"};
        at(number).subscriber = subscriber;
        recorder_.forget();
    }

    // ---- sinks

    // The number the next sink will have.
    uint32_t next_sink() const { return sinks_.next(); }

    Sink& add_sink(Sink::Kind kind) {
        recorder_.forget();
        return sinks_.add(kind);
    }

    // The sink of a link: it holds up publishers here, and loses what passes through when it is full.
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
            connection.backlogged.remove(sink);
            while (!sink.backlog.empty()) forget_oldest(sink);
            release_waiters(sink);
            if (sink.noted) notices_.forget(index);
        }
        sinks_.retire(index);
        recorder_.forget();
        relieve_memory();
    }

    // All events handed out before have been handled: none of them names a sink that is gone.
    std::vector<Event> take_events() {
        sinks_.reuse_retired();
        std::vector<Event> taken = events.take();
        relieve_memory();
        return taken;
    }

    void credit(uint32_t index, uint32_t more, int64_t now_ms) {
        Sink& sink = sink_at(index);
        if (sink.credit != Sink::unlimited) sink.credit += more;
        pump(sink, at(sink.connection), now_ms);
    }

    // ---- deliveries

    void deliver_direct(Sink& sink, const Publication& one, int64_t now_ms) {
        if (sink.no_local && sink.connection == one.publisher) return recorder_.miss(sink);
        Connection& connection = connections_[sink.connection];
        if (!sink.queued && sink.credit > 0 && connection.has_room()) [[likely]] {
            sink.credit -= sink.credit != Sink::unlimited;
            const size_t bytes = prepare(sink.label, sink.version, sink.number, one);
            write(connection.output.grow(bytes), sink.label, sink.number, one);
            connection.output.expect(bytes);
            ++sink.delivered;
            ++stats.by_protocol[connection.protocol].delivered;
            added(connection, bytes);
        } else {
            recorder_.miss(sink);
            if (sink.full() && !make_way(sink, one.publisher, now_ms))
                return recorder_.lose(sink, connection.subscriber, id_of(one.message), now_ms);
            const size_t bytes = prepare(sink.label, sink.version, sink.number, one);
            wait_in_backlog(sink, connection, one.publisher, waiting_frames_.make(sink, one, bytes, stomp_), now_ms);
        }
    }

    // After all direct deliveries of a message that has matched these sinks.
    void record_deliveries(const Publication& one, std::span<const uint32_t> matched, int64_t now_ms) {
        recorder_.record(
            id_of(one.message), matched, now_ms, [&](uint32_t index) -> const Sink& { return sinks_[index]; },
            [&](const Sink& sink) { return connections_[sink.connection].subscriber; });
        if (one.shared) [[unlikely]]
            waiting_frames_.forget();
    }

    // A frame of two parts for the link's peer.
    void deliver_link(Sink& sink, uint32_t publisher, uint8_t type, std::string_view head, std::string_view message,
                      int64_t now_ms) {
        Connection& connection = connections_[sink.connection];
        const size_t bytes = frame_header_bytes + head.size() + message.size();
        if (!sink.queued && connection.has_room()) {
            write_pair(connection.output.grow(bytes), type, head, message);
            ++sink.delivered;
            added(connection, bytes);
        } else {
            if (sink.full() && !make_way(sink, publisher, now_ms)) return;
            std::string frame(bytes, '\0');
            write_pair(frame.data(), type, head, message);
            wait_in_backlog(sink, connection, publisher, {std::move(frame), nullptr, 0}, now_ms);
        }
    }

    void deliver(uint32_t number, uint32_t subscription, uint32_t attempt, uint64_t tag, std::string_view message) {
        Connection& connection = at(number);
        const Publication one{nobody, attempt, 0, message, tag};
        const StompState* const stomp = connection.stomp.get();
        const std::string_view label = stomp ? stomp->label(subscription) : std::string_view();
        const size_t bytes = prepare(label, stomp ? stomp->version : StompVersion::V12, subscription, one);
        write(connection.output.grow(bytes), label, subscription, one);
        ++stats.by_protocol[connection.protocol].delivered;
        added(connection, bytes);
    }

    void answer_receipts(Connection& connection) {
        if (connection.receipts.empty()) return;
        const size_t before = connection.output.size();
        if (connection.stomp) stomp_.write_receipts(*connection.stomp, connection.receipts, connection.output);
        else write_receipts(connection.receipts, connection.output);
        connection.receipts.clear();
        added(connection, connection.output.size() - before);
        maybe_choke(connection);
    }

    // ---- output

    void send(uint32_t number, std::string_view bytes) {
        Connection& connection = at(number);
        connection.output.append(bytes);
        added(connection, bytes.size());
        maybe_choke(connection);
    }

    // The bytes that a mailbox may still put into this output; if none, an event OutputRoom follows when there is room
    // again.
    size_t room(uint32_t number) {
        Connection& connection = at(number);
        const size_t used = connection.output.size();
        if (used < options.output_bytes_max) return options.output_bytes_max - used;
        connection.wants_room = true;
        return 0;
    }

    std::vector<uint32_t> take_dirty() {
        std::vector<uint32_t> ready;
        fresh_bytes_ = 0;
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
        connection.taken_bytes = bytes;
        connection.moved_ms = now_ms;
        if (bytes) connection.written_ms = now_ms, connection.unread_notices = 0;
        held_bytes_ -= bytes;
        stats.sent_bytes += bytes, stats.writes += bytes > 0;
        connection.backlogged.each(sinks_, [&](Sink& sink) {  // as long as there is room
            if (!connection.has_room()) return false;
            pump(sink, connection, now_ms);
            return true;
        });
        maybe_wake(connection);
        if (connection.wants_room && connection.output.size() <= options.output_bytes_max / 2) {
            connection.wants_room = false;
            events.add(OutputRoom{number});
        }
        if (connection.choked && connection.output.size() <= options.output_bytes_max) {
            connection.choked = false;
            maybe_resumable(connection);
            maybe_wake(connection);
        }
        relieve_memory();
    }

    // The bytes taken last may be stuck in the driver until its socket is writable again: they count as held.
    void set_writable(uint32_t number, bool writable) {
        Connection& connection = at(number);
        if (connection.writable && !writable) {
            connection.parked_bytes = connection.taken_bytes;
            held_bytes_ += connection.parked_bytes;
        } else if (writable) {
            held_bytes_ -= std::exchange(connection.parked_bytes, 0);
            relieve_memory();
        }
        connection.writable = writable;
        if (writable && !connection.output.empty()) mark_dirty(connection);
    }

    // True if a connection that is not parsed is read all the same, for the credit of its own subscriptions
    // (read_ahead.hpp).
    bool reads_ahead(const Connection& connection) const {
        if (connection.broken || connection.waiting || connection.choked || connection.tired || connection.stomp ||
            connection.ahead.ended())
            return false;
        if (connection.tail.size() >= options.memory_bytes_max / 16 || held_bytes() > options.memory_bytes_max)
            return false;
        return connection.backlogged.any(sinks_, [](const Sink& sink) { return sink.starving(); });
    }

    // A subscriber does not get `count` messages. Its connection is notified, if it does not end for that.
    void dropped(Sink& sink, DropReason reason, size_t count = 1) {
        sink.dropped += count;
        (sink.kind == Sink::Kind::Link ? stats.dropped_link : stats.dropped[static_cast<size_t>(reason)]) += count;
        if (sink.kind == Sink::Kind::Direct && !sink.leaving) notices_.note(sink, at(sink.connection), reason, count);
    }

    bool has_output() const { return !dirty_.empty(); }
    bool has_resumable() const { return !resumable_.empty(); }
    std::vector<uint32_t> take_resumable() { return std::exchange(resumable_, {}); }

    // To be called regularly: a sink that has taken nothing for too long stops holding up others; a dead link ends by
    // its heartbeats.
    void check_stalls(int64_t now_ms) {
        for (Sink& sink : sinks_) {
            if (sink.kind != Sink::Kind::Direct || sink.stalled || !sink.full()) continue;
            if (now_ms - sink.moved_ms < options.stall_ms) continue;
            sink.stalled = true;
            release_waiters(sink);
        }
        connections_.each([&](Connection& connection) {
            connection.output.rest();
            if (connection.output.empty() && connection.writable) connection.moved_ms = now_ms;
        });
        if (!memory_waiters_.empty()) make_room(now_ms);
        notices_.send([&](uint32_t index) -> Sink& { return sinks_[index]; },
                      [&](uint32_t number) -> Connection& { return connections_[number]; }, events);
    }

    // ---- memory

    void hold_bytes(size_t bytes) { held_bytes_ += bytes; }
    void free_bytes(size_t bytes) { held_bytes_ -= bytes; }
    size_t held_bytes() const { return held_bytes_ + events.bytes(); }
    size_t fresh_bytes() const { return fresh_bytes_; }  // output since the last `take_dirty`

    void maybe_push_back(uint32_t number, Connection& connection) {
        if (held_bytes() <= options.memory_bytes_max) return;
        if (std::ranges::find(memory_waiters_, number) != memory_waiters_.end()) return;
        memory_waiters_.push_back(number);
        hold_up(connection);
    }

    void relieve_memory() {
        if (memory_waiters_.empty() || held_bytes() > options.memory_bytes_max / 4 * 3) return;
        for (const uint32_t number : std::exchange(memory_waiters_, {})) unblock(number);
    }

    void hold_up(Connection& connection) { ++connection.pushed_back, ++stats.pushed_back; }

    void unblock(uint32_t number) {
        Connection& connection = at(number);
        --connection.pushed_back;
        maybe_resumable(connection);
    }

    void maybe_resumable(const Connection& connection) {
        if (connection.pushed_back == 0 && !connection.held && !connection.choked && !connection.spent)
            resumable_.push_back(connection.number);
    }

    const ForwarderOptions options;
    Congestion congestion;
    PreloginMemory prelogin_memory{options.memory_bytes_max};
    PartialFrames partial_frames{options.memory_bytes_max};
    ForwarderStats stats;
    Events events;

private:
    // The size of a delivery in the connection's protocol.
    size_t prepare(std::string_view label, StompVersion version, uint32_t subscription, const Publication& one) {
        if (label.empty()) return delivery_bytes(one.message);
        return stomp_.prepare(version, label, subscription, one.attempt, one.tag, one.message, one.rendered);
    }

    void write(char* place, std::string_view label, uint32_t subscription, const Publication& one) {
        if (label.empty()) return write_delivery(place, subscription, one.attempt, one.tag, one.message);
        stomp_.write(place);
    }

    void wait_in_backlog(Sink& sink, Connection& connection, uint32_t publisher, Sink::Waiting waiting,
                         int64_t now_ms) {
        if (sink.backlog.empty()) sink.moved_ms = now_ms;
        if (!sink.queued) connection.backlogged.add(connection.direct.at(sink.number), sinks_);
        held_bytes_ += sink.keep(std::move(waiting));
        if (sink.full() && sink.policy == Policy::PushBack) push_back(sink, publisher);
        maybe_wake(connection);
    }

    // The sink's backlog is full: what its policy says. False: the new message is not taken.
    bool make_way(Sink& sink, uint32_t publisher, int64_t now_ms) {
        switch (sink.policy) {
            case Policy::PushBack:
                if (!sink.stalled && (publisher != nobody || congestion.admits(sink))) return true;  // it waits
                dropped(sink, sink.stalled ? DropReason::Stalled : DropReason::Far);
                return false;
            case Policy::DropOldest:
                while (sink.full() && !sink.backlog.empty()) {
                    forget_oldest(sink, now_ms);
                    dropped(sink, DropReason::Oldest);
                }
                return true;
            case Policy::Disconnect:
                if (!std::exchange(sink.leaving, true)) events.add(SlowConsumer{sink.connection, sink.number});
                [[fallthrough]];
            default: dropped(sink, DropReason::Newest); return false;
        }
    }

    void forget_oldest(Sink& sink, int64_t lost_ms = 0) {
        if (lost_ms) recorder_.lose(sink, at(sink.connection).subscriber, sink.backlog.front().id.data(), lost_ms);
        held_bytes_ -= sink.forget_oldest();
    }

    // Move what waits into the output, as far as credit and room go.
    void pump(Sink& sink, Connection& connection, int64_t now_ms) {
        while (!sink.backlog.empty() && sink.credit > 0 && connection.has_room()) {
            sink.moved_ms = now_ms;
            const Sink::Waiting& first = sink.backlog.front();
            if (first.expires_ms != 0 && first.expires_ms <= now_ms) {
                ++stats.expired;
                recorder_.lose(sink, connection.subscriber, first.id.data(), now_ms, Tracker::Loss::Expired);
            } else {
                sink.credit -= sink.credit != Sink::unlimited;
                connection.output.append(first.frame);
                if (first.end) connection.output.append(first.end->bytes);
                ++sink.delivered;
                stats.by_protocol[connection.protocol].delivered += sink.kind == Sink::Kind::Direct;
                if (connection.subscriber && sink.kind == Sink::Kind::Direct)
                    tracker()->delivered(first.id.data(), connection.subscriber, now_ms);
                added(connection, first.bytes() - Sink::waiting_bytes);
            }
            forget_oldest(sink);
        }
        leave_if_empty(sink, connection);
        if (sink.relaxed()) {
            sink.stalled = false;
            release_waiters(sink);
        }
        maybe_wake(connection);
    }

    void leave_if_empty(Sink& sink, Connection& connection) {
        if (sink.backlog.empty()) connection.backlogged.remove(sink);
    }

    void added(Connection& connection, size_t bytes) {
        held_bytes_ += bytes, fresh_bytes_ += bytes;
        mark_dirty(connection);
    }

    void mark_dirty(Connection& connection) {
        if (connection.dirty) return;
        connection.dirty = true;
        dirty_.push_back(connection.number);
    }

    // A client that asks and does not read the answers must read first.
    void maybe_choke(Connection& connection) {
        if (connection.output.size() > options.output_bytes_max + options.answers_bytes_max) connection.choked = true;
    }

    // ---- back-pressure

    void push_back(Sink& sink, uint32_t publisher) {
        if (publisher == nobody) return congestion.begin(sink, events);
        if (sink.stalled || std::ranges::find(sink.waiters, publisher) != sink.waiters.end()) return;
        sink.waiters.push_back(publisher);
        hold_up(at(publisher));
    }

    // The driver does not read a connection that must be read ahead.
    void maybe_wake(Connection& connection) {
        if (!connection.blocked || !reads_ahead(connection)) return;
        connection.blocked = false;
        resumable_.push_back(connection.number);
    }

    void release_waiters(Sink& sink) {
        congestion.end(sink, events);
        for (const uint32_t number : std::exchange(sink.waiters, {})) unblock(number);
    }

    // Publishers wait for memory that is held for sinks that take nothing: these lose their backlog, or their
    // connection.
    void make_room(int64_t now_ms) {
        for (Sink& sink : sinks_) {
            if (sink.backlog.empty() || now_ms - sink.moved_ms < options.stall_ms) continue;
            sink.stalled = true;
            dropped(sink, DropReason::Stalled, sink.backlog.size());
            while (!sink.backlog.empty()) forget_oldest(sink, now_ms);
            leave_if_empty(sink, at(sink.connection));
            release_waiters(sink);
        }
        relieve_memory();
        if (memory_waiters_.empty()) return;
        connections_.each([&](Connection& connection) {
            if (connection.leaving || now_ms - connection.moved_ms < options.stall_ms) return;
            if (connection.output.empty() && connection.writable) return;
            connection.leaving = true;
            events.add(MemoryShort{connection.number});
        });
    }

    ConnectionTable connections_;
    SinkTable sinks_;
    std::vector<uint32_t> dirty_, resumable_, memory_waiters_;
    size_t held_bytes_ = 0;  // of output, backlogs and input
    size_t fresh_bytes_ = 0;
    StompRenderer stomp_;
    WaitingFrames waiting_frames_;
    DeliveryRecorder recorder_;
    DropNotices notices_;
};

}  // namespace tidings
