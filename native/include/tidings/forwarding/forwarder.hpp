// The path of a plain message, from the bytes of one socket read to the output of every sink it matches, without
// Python:
//
//   bytes ── frames ── decode ── match ─┬─ direct sink: one DELIVER frame in its connection's output
//                                       ├─ mailbox:     an event for Python, with the message and the mailboxes
//                                       └─ other brokers, if there is a network (network.hpp)
//
// The forwarder uses no socket and no clock: a driver gives it bytes and the time, takes output and events. Parsing of
// a connection stops at a control frame until Python has handled it, or a subscription would miss, or see too early,
// what follows on the same connection. Acknowledgements and credit change nothing of that: they are plain events.
//
// Back-pressure. A direct sink without credit, or with enough output waiting, collects a backlog. When that is full its
// policy acts. Under `push back` the publisher is not parsed (and read) until the backlog has halved. A sink that takes
// nothing for a while no longer holds up others: it loses messages, counted. All memory is bounded the same way.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "tidings/forwarding/network.hpp"
#include "tidings/forwarding/output_queues.hpp"
#include "tidings/forwarding/turn_share.hpp"
#include "tidings/matching/matcher.hpp"
#include "tidings/stomp/input.hpp"

namespace tidings {

class Forwarder {
public:
    static constexpr uint8_t perhaps_sent_flag = 1;  // flag of a PUBLISH frame: sent again after a broken connection

    // Flags that `feed` and `resume` return to the driver.
    static constexpr unsigned output_flag = 1, events_flag = 2, blocked_flag = 4;

    explicit Forwarder(const ForwarderOptions& options) : out_(options) {}

    OutputQueues& output_queues() { return out_; }
    Matcher& matcher() { return matcher_; }

    void join(const NetworkOptions& options, Interests interests) {
        network_ = std::make_unique<Network>(options, std::move(interests), out_);
    }
    Network& network() {
        if (!network_) throw UsageError{"E_NO_NETWORK", "this broker has joined no network"};
        return *network_;
    }

    // ---- connections

    // From its first byte on this connection speaks STOMP.
    void speak_stomp(uint32_t number) { out_.at(number).stomp = std::make_unique<StompState>(); }
    StompState& stomp(uint32_t number) {
        Connection& connection = out_.at(number);
        if (!connection.stomp) throw UsageError{"E_NO_STOMP", "this connection does not speak STOMP"};
        return *connection.stomp;
    }
    StompTypes& stomp_types() { return stomp_.types(); }

    void log_in(uint32_t number, size_t frame_bytes_max, bool checks_destinations) {
        Connection& connection = out_.at(number);
        out_.prelogin_memory.admit(connection);
        connection.logged_in = true;
        connection.frame_bytes_max = frame_bytes_max;
        connection.checks_destinations = checks_destinations;
    }

    void allow(uint32_t number, std::string_view destination) {
        Connection& connection = out_.at(number);
        if (connection.stomp) connection.stomp->receipts.take(std::exchange(connection.stomp->asked, 0));
        connection.allow(destination);
    }

    // Nothing more of it is parsed or kept: it has been notified that it ends.
    void ignore(uint32_t number) {
        Connection& connection = out_.at(number);
        connection.broken = true;
        cut_tail(connection, connection.tail.size());
    }

    void hold(uint32_t number) { out_.at(number).held = true; }

    void release(uint32_t number) {
        Connection& connection = out_.at(number);
        if (std::exchange(connection.held, false)) out_.maybe_resumable(connection);
    }

    // ---- input

    unsigned feed(uint32_t number, std::string_view data, int64_t now_ms) {
        Connection& connection = out_.at(number);
        ++out_.stats.feeds;
        out_.stats.received_bytes += data.size();
        if (connection.broken) return flags(connection);
        if (connection.tail.empty() && connection.reading()) {
            const size_t used = parse(number, connection, data, now_ms);
            if (!connection.broken) keep(number, connection, data.substr(used));
        } else {
            keep(number, connection, data);
            if (connection.reading()) parse_tail(number, connection, now_ms);
        }
        look_ahead(connection, now_ms);
        if (!out_.partial_frames.hold(connection))
            refuse_input(number, connection, {"E_FRAME_MEMORY", "too many large frames at a time", 0});
        return flags(connection);
    }

    // Python has dealt with the control frame or question that parsing stopped at: go on.
    unsigned handled(uint32_t number, int64_t now_ms) {
        out_.at(number).waiting = false;
        return resume(number, now_ms);
    }

    // Nothing pushes the connection back any more: go on with what was kept.
    unsigned resume(uint32_t number, int64_t now_ms) {
        Connection& connection = out_.at(number);
        if (connection.reading() && !connection.tail.empty()) parse_tail(number, connection, now_ms);
        look_ahead(connection, now_ms);
        return flags(connection);
    }

    // The message that PublishCheck was about is refused.
    void skip(uint32_t number) {
        Connection& connection = out_.at(number);
        const std::string_view tail = connection.tail.front();
        const size_t bytes = connection.stomp ? stomp_.first(tail, *connection.stomp, connection.frame_bytes_max)
                                              : first_frame_bytes(tail);
        if (bytes == 0) throw UsageError{"E_NO_FRAME", "there is no frame to skip"};
        cut_tail(connection, bytes);
    }

    // ---- sinks

    uint32_t subscribe(uint32_t number, uint32_t subscription, std::string_view predicate, int64_t credit,
                       Policy policy, size_t backlog_bytes_max, bool no_local) {
        Connection& connection = out_.at(number);
        if (connection.direct.contains(subscription))
            throw UsageError{"E_SUBSCRIPTION_EXISTS", "the subscription exists"};
        const uint32_t index = out_.next_sink();
        matcher_.add(index, predicate);  // throws if the predicate is malformed: nothing has changed then
        Sink& sink = out_.add_sink(Sink::Kind::Direct);
        sink.connection = number;
        sink.number = subscription;
        sink.credit = credit > 0 ? credit : credit < 0 ? 0 : Sink::unlimited;
        sink.policy = policy;
        sink.backlog_bytes_max = backlog_bytes_max;
        sink.no_local = no_local;
        if (connection.stomp)
            sink.label = connection.stomp->label(subscription), sink.version = connection.stomp->version;
        connection.direct.emplace(subscription, index);
        return index;
    }

    uint32_t mailbox(std::string_view predicate) {
        const uint32_t index = out_.next_sink();
        matcher_.add(index, predicate);
        out_.add_sink(Sink::Kind::Mailbox);
        return index;
    }

    void unsubscribe(uint32_t index) {
        out_.sink_at(index);  // throws if there is none
        matcher_.remove(index);
        out_.remove_sink(index);
    }

    // ---- messages that come from Python

    std::vector<uint32_t> match(std::string_view message) {
        decode_one(message);
        std::vector<uint32_t> mailboxes;
        matcher_.match(single_[0].message, matched_);
        for (const uint32_t index : matched_)
            if (out_.sink_at(index).kind == Sink::Kind::Mailbox) mailboxes.push_back(index);
        return mailboxes;
    }

    void publish(std::string_view message, int64_t now_ms, uint32_t publisher) {
        decode_one(message);
        const MessageView& view = single_[0].message;
        if (expired(view, now_ms)) {
            ++out_.stats.expired;
            return;
        }
        if (publisher != OutputQueues::nobody) DeliveryRecorder::published(out_.tracker(), view, now_ms);
        if (out_.find(publisher) == nullptr) publisher = OutputQueues::nobody;  // it has left meanwhile
        const Publication publication{publisher, 1, expiration(view), message};
        matcher_.match(view, matched_);
        out_.stats.by_destination.count(view, matched_.size(), now_ms);
        for (const uint32_t index : matched_)
            if (Sink& sink = out_.sink_at(index); sink.kind == Sink::Kind::Direct)
                out_.deliver_direct(sink, publication, now_ms);
        out_.record_deliveries(publication, {matched_.data(), matched_.size()}, now_ms);
    }

    // The other routers of the network that want it, as far as that is known here.
    std::vector<uint32_t> destinations(std::string_view message) {
        decode_one(message);
        return network().partitions() ? network().destinations(single_[0].message) : std::vector<uint32_t>{};
    }

    // The same, and send it there. Not for persistent messages: these are relayed one by one.
    void enter(std::string_view message, int64_t now_ms, uint32_t publisher) {
        decode_one(message);
        if (expired(single_[0].message, now_ms)) return;
        if (single_[0].message.typed()) return network().enter_event(single_[0].message, publisher, now_ms);
        network().enter(single_[0].message, network().destinations(single_[0].message), publisher, now_ms);
    }

    TurnShare share;

private:
    // output_flag also if there are others to resume.
    unsigned flags(Connection& connection) const {
        connection.blocked = !connection.reading() && !out_.reads_ahead(connection);
        return (out_.has_output() || out_.has_resumable() ? output_flag : 0u) |
               (out_.events.empty() ? 0u : events_flag) | (connection.blocked ? blocked_flag : 0u);
    }

    void look_ahead(Connection& connection, int64_t now_ms) {
        if (connection.reading() || !out_.reads_ahead(connection)) return;
        connection.ahead.look(connection.tail, connection.frame_bytes_max, [&](uint32_t subscription, uint32_t more) {
            const auto found = connection.direct.find(subscription);
            if (found != connection.direct.end()) out_.credit(found->second, more, now_ms);
            return found != connection.direct.end();
        });
    }

    // ---- parsing

    MessageBatch::Options decoding(size_t bytes_max, bool stops) const {
        const uint8_t derived = matcher_.derived() | (network_ ? network_->derived() : uint8_t{0});
        return {derived, bytes_max, stops, network_ || matcher_.reads_texts()};
    }

    void keep(uint32_t number, Connection& connection, std::string_view rest) {
        connection.tail.append(rest);
        out_.hold_bytes(rest.size());
        if (!out_.prelogin_memory.hold(connection, rest.size()))
            refuse_input(number, connection, {"E_LOGIN_MEMORY", "too many logins at a time", 0});
    }

    void refuse_input(uint32_t number, Connection& connection, const CodecError& error) {
        fail(number, connection, error);
        cut_tail(connection, connection.tail.size());
    }

    void cut_tail(Connection& connection, size_t bytes) {
        connection.tail.drop(bytes);
        connection.ahead.cut(bytes);
        out_.free_bytes(bytes);
        out_.prelogin_memory.free(connection, bytes);
        out_.partial_frames.shrink(connection);
        if (connection.tail.empty()) connection.tail.release();
    }

    void parse_tail(uint32_t number, Connection& connection, int64_t now_ms) {
        const size_t used = parse(number, connection, connection.tail.front(), now_ms);
        cut_tail(connection, connection.broken ? connection.tail.size() : used);
    }

    // Returns how much was consumed; stops early where Python or a slow sink must be waited for.
    size_t parse(uint32_t number, Connection& connection, std::string_view data, int64_t now_ms) {
        share.begin(out_);
        if (connection.stomp) return parse_stomp(number, connection, data, now_ms);
        size_t used = 0;
        while (connection.reading()) {
            batch_.decode_frames(data.substr(used), decoding(connection.frame_bytes_max, true));
            size_t done = 0;
            for (const Entry& entry : batch_) {
                if (!handle(number, connection, entry, now_ms)) break;  // to be looked at again
                done = static_cast<size_t>(entry.payload.data() + entry.payload.size() - data.data()) - used;
                if (!connection.reading() || (used + done < data.size() && share.ends(connection, out_))) break;
            }
            const bool all = done == batch_.consumed();
            if (all && batch_.fatal()) fail(number, connection, *batch_.fatal());
            used += done;
            if (done == 0 || (all && batch_.size() == 0)) break;
        }
        out_.answer_receipts(connection);
        return used;
    }

    // The same for STOMP: SEND frames, as many as follow each other, become PUBLISH frames; most others are Python's.
    size_t parse_stomp(uint32_t number, Connection& connection, std::string_view data, int64_t now_ms) {
        size_t used = 0;
        StompState& state = *connection.stomp;
        state.receipts.begin();
        while (connection.reading()) {
            const StompInput::Next next = stomp_.gather(data.substr(used), state, connection.frame_bytes_max,
                                                        connection.logged_in, now_ms);
            batch_.decode_frames(stomp_.publishes(), decoding(SIZE_MAX, false));
            size_t done = 0;
            for (; done < batch_.size() && connection.reading() && !(done && share.ends(connection, out_)); ++done) {
                if (handle(number, connection, batch_[done], now_ms)) continue;
                state.asked = batch_[done].receipt();
                break;
            }
            const size_t start = std::exchange(used, used + stomp_.used(done));
            if (done < batch_.size()) {  // they will be read again
                state.searched = 0;
                for (; done < batch_.size(); ++done)
                    if (const uint32_t receipt = batch_[done].receipt(); receipt != state.asked)
                        state.receipts.take(receipt);
                break;
            }
            if (next == StompInput::Next::Nothing) {
                used += stomp_.skip_line_ends(state);
                break;
            }
            if (!connection.reading() || next == StompInput::Next::More) continue;
            if (next == StompInput::Next::Acks) {
                used = start + stomp_.acks().end;
                out_.events.add(stomp_.acks().event(number));
                share.ends(connection, out_);
            } else if (next == StompInput::Next::Broken) {
                fail(number, connection, stomp_.error(), stomp_.receipt());
            } else {
                connection.waiting = true;
                out_.events.add(ControlFrame{number, 0, 0, 0, std::string(stomp_.frame().bytes)});
                used += stomp_.frame().size;
            }
        }
        out_.answer_receipts(connection);
        state.receipts.keep();
        return used;
    }

    // False: the entry must be handled again after Python has answered.
    bool handle(uint32_t number, Connection& connection, const Entry& entry, int64_t now_ms) {
        if (entry.status == Entry::Status::Broken) {
            fail(number, connection, entry.error, connection.stomp && entry.prefix.size() == 4 ? entry.receipt() : 0);
        } else if (entry.status == Entry::Status::Control) {
            handle_control(number, connection, entry, now_ms);
        } else if (entry.type == FrameForward && connection.neighbour) {
            handle_forward(number, connection, entry, now_ms);
        } else if (entry.type != FramePublish || !connection.logged_in) {
            fail(number, connection, {"E_FRAME_UNEXPECTED", "unexpected frame type in this state", 0});
        } else {
            return handle_publish(number, connection, entry, now_ms);
        }
        return true;
    }

    void handle_control(uint32_t number, Connection& connection, const Entry& entry, int64_t now_ms) {
        if (connection.logged_in && (handle_credit(number, connection, entry, now_ms) || handle_ack(number, entry)))
            return;
        connection.waiting = true;
        out_.events.add(ControlFrame{number, entry.type, entry.frame_flags, entry.session, std::string(entry.payload)});
    }

    // False: malformed, or something else.
    bool handle_credit(uint32_t number, Connection& connection, const Entry& entry, int64_t now_ms) {
        if (entry.type != FrameCredit || entry.payload.size() != 8) return false;
        const auto [subscription, more] = read_credit(entry.payload.data());
        if (const auto found = connection.direct.find(subscription); found != connection.direct.end())
            out_.credit(found->second, more, now_ms);
        else out_.events.add(CreditGiven{number, subscription, more});
        return true;
    }

    bool handle_ack(uint32_t number, const Entry& entry) {
        if (std::optional<Acknowledged> ack = decode_ack(number, entry)) return out_.events.add(std::move(*ack)), true;
        return false;
    }

    bool handle_publish(uint32_t number, Connection& connection, const Entry& entry, int64_t now_ms) {
        const MessageView& message = entry.message;
        if (connection.checks_destinations && !connection.allows(message, scratch_)) {
            connection.waiting = true;
            out_.events.add(PublishCheck{number, entry.session, entry.receipt(),
                                         bool(message.flags & MessageView::Queue), std::string(message.destination)});
            return false;
        }
        const bool again = entry.frame_flags & perhaps_sent_flag;
        if (!again && DeliveryRecorder::names_another_broker(out_.tracker(), message.id)) [[unlikely]] {
            fail(number, connection, DeliveryRecorder::another_broker());
            return true;
        }
        if (!again && connection.finds_drift(message, now_ms))
            out_.events.add(ClockDrift{number, id_time_ms(message.id)});
        out_.stats.arrived(connection.protocol), connection.published(entry.payload.size());
        // A session that is in no transaction, perhaps no longer after a reconnection, is refused by Python.
        if (entry.session != 0 || (!connection.transacted.empty() && connection.in_transaction(entry.session)) ||
            (message.flags & MessageView::Delayed) || (message.typed() && !passes_event(connection, entry))) {
            out_.events.add(Transacted{number, entry.session, entry.receipt(), std::string(message.bytes)});
        } else if (expired(message, now_ms)) {
            ++out_.stats.expired;
            connection.note_receipt(entry.receipt());
        } else {
            forward(number, connection, entry, now_ms);
        }
        out_.maybe_push_back(number, connection);
        return true;
    }

    // An event that fits its type and takes the path of plain messages. Others are Python's: refused, stored or known.
    bool passes_event(const Connection& connection, const Entry& entry) const {
        if (!connection.events || (entry.frame_flags & perhaps_sent_flag)) return false;
        if (network_ && ((entry.message.flags & MessageView::Persistent) || network_->hands_up())) return false;
        return connection.events->fits(entry.message);
    }

    void forward(uint32_t number, Connection& connection, const Entry& entry, int64_t now_ms) {
        const Publication publication{number, 1u + (entry.frame_flags & perhaps_sent_flag), expiration(entry.message),
                                      entry.payload};
        DeliveryRecorder::published(out_.tracker(), entry.message, now_ms);
        deliver(entry, publication, now_ms);
        bool elsewhere = false;  // whether another broker's subscribers want it
        if (network_ && entry.message.typed()) {
            network_->enter_event(entry.message, number, now_ms);
            elsewhere = true;
        } else if (network_ && !(entry.message.flags & MessageView::Queue)) {
            const bool persistent = entry.message.flags & MessageView::Persistent;
            if (network_->hands_up() && !persistent) return hand_up<PublishedToScheme>(number, entry);
            const std::vector<uint32_t>& routers = network_->destinations(entry.message);
            network_->hold_back(routers, number);
            if (persistent && !routers.empty() && network_->partitions())
                return hand_up<PublishedToRouters>(number, entry, routers);
            elsewhere = !routers.empty();
            network_->enter(entry.message, routers, number, now_ms);
        }
        if (!mailboxes_.empty() || entry.message.flags & MessageView::Queue) {
            hand_up<Published>(number, entry);
        } else {
            out_.stats.unmatched += matched_.empty() && !elsewhere;
            connection.note_receipt(entry.receipt());
        }
    }

    // To all direct sinks that want it; `mailboxes_` has the others.
    void deliver(const Entry& entry, const Publication& publication, int64_t now_ms) {
        matcher_.match(entry.message, matched_);
        out_.stats.by_destination.count(entry.message, matched_.size(), now_ms);
        mailboxes_.clear();
        for (const uint32_t index : matched_) {
            Sink& sink = out_.sink_at(index);
            if (sink.kind == Sink::Kind::Direct) out_.deliver_direct(sink, publication, now_ms);
            else mailboxes_.push_back(index);
        }
        out_.record_deliveries(publication, {matched_.data(), matched_.size()}, now_ms);
    }

    // For Python, which brings it to mailboxes here, and to other brokers as the kind says.
    template <typename Kind, typename... Routers>
    void hand_up(uint32_t number, const Entry& entry, const Routers&... routers) {
        out_.events.add(Kind{number, entry.receipt(), bool(entry.frame_flags & perhaps_sent_flag),
                             expiration(entry.message), std::string(entry.payload), mailboxes_, routers...});
    }

    // From another broker: pass it on, deliver it here, or both. Persistent ones are Python's, which stores them first.
    void handle_forward(uint32_t number, Connection& connection, const Entry& entry, int64_t now_ms) {
        try {
            header_.decode(entry.prefix.substr(4));
        } catch (const CodecError& error) {
            return fail(number, connection, error);
        }
        if (out_.tracker()) out_.tracker()->routed(entry.message.id, now_ms);
        if (header_.tagged) {
            ++network_->stats.arrived;
            out_.events.add(Relayed{number, header_.hops, header_.tag, header_.routers, header_.numbers, header_.origin,
                                    header_.epoch, header_.repeated, expiration(entry.message),
                                    std::string(entry.payload)});
        } else if (expired(entry.message, now_ms)) {
            ++network_->stats.expired;
        } else if (header_.event_type.empty()
                       ? network_->arrive(connection.neighbour, header_, entry.message, now_ms)
                       : network_->arrive_event(connection.neighbour, header_, entry.message, now_ms)) {
            arrive_here(number, entry, now_ms);
        }
    }

    void arrive_here(uint32_t number, const Entry& entry, int64_t now_ms) {
        deliver(entry, {OutputQueues::nobody, 1, expiration(entry.message), entry.payload}, now_ms);
        if (matched_.empty()) network_->arrive_in_vain(entry.payload);
        if (!mailboxes_.empty())
            out_.events.add(RemoteMessage{number, expiration(entry.message), std::string(entry.payload), mailboxes_});
    }

    void decode_one(std::string_view message) {
        single_.decode_message(message, decoding(SIZE_MAX, false));
        if (single_[0].status == Entry::Status::Broken) throw single_[0].error;
    }

    void fail(uint32_t number, Connection& connection, const CodecError& error, uint32_t receipt = 0) {
        connection.broken = true;
        out_.events.add(FrameError{number, error.code, error.reason, error.position, receipt});
    }

    OutputQueues out_;
    Matcher matcher_;
    std::unique_ptr<Network> network_;
    ForwardHeader header_;
    MessageBatch batch_, single_;
    Column<uint32_t> matched_;
    std::vector<uint32_t> mailboxes_;
    std::string scratch_;
    StompInput stomp_;
};

}  // namespace tidings
