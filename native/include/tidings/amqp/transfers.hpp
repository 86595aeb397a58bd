// The hot path of one AMQP connection: plain messages in and out, and what is said of them, between the bytes of the
// client and frames of the native protocol, in batches.
//
//   client ── take ──► PUBLISH, ACK            client ◄── give ── DELIVER, RECEIPTS
//
// Both stop at the first frame that is not plain: Python handles that one, and calls again for the rest. What a frame
// changes is in counters that Python shares, so it does not matter which of the two has seen it.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tidings/amqp/counters.hpp"
#include "tidings/amqp/message_reader.hpp"
#include "tidings/amqp/message_writer.hpp"
#include "tidings/codec/batch.hpp"
#include "tidings/codec/frames.hpp"

namespace tidings {

class AmqpTransfers {
public:
    static constexpr uint32_t first_receipt = 0x8000'0000;  // Python's are below
    static constexpr size_t frame_header = 8;

    // A message that was published here, until the broker has accepted it.
    struct Published {
        std::shared_ptr<AmqpLinkCounters> link;  // nullptr: it is answered
        uint16_t channel = 0;
        uint32_t handle = 0, delivery_id = 0;  // the handle is the client's
        bool settled = false;
    };

    AmqpTransfers(uint32_t publisher, uint32_t broker, size_t message_bytes_max)
        : publisher_(publisher),
          broker_(broker),
          message_bytes_max_(message_bytes_max) {}

    int64_t credit_max = 500;  // of a link by which the client sends
    // Largest frames: of the client's and ours.
    size_t frame_bytes_max = 512, remote_frame_bytes_max = 512;

    // ---- sessions and links

    void add_session(uint16_t channel, std::shared_ptr<AmqpSessionCounters> counters) {
        sessions_[channel] = {std::move(counters), {}};
    }
    void remove_session(uint16_t channel) {
        const auto found = sessions_.find(channel);
        if (found == sessions_.end()) return;
        for (const auto& [_, link] : found->second.links) senders_.erase(link.counters->subscription);
        sessions_.erase(found);
    }

    // `handle`: the client's, `own_handle`: ours.
    void add_link(uint16_t channel, uint32_t handle, uint32_t own_handle, std::shared_ptr<AmqpLinkCounters> counters) {
        Session& session = sessions_.at(channel);
        if (counters->subscription)
            senders_[counters->subscription] = {session.counters, counters, channel, own_handle};
        session.links[handle] = {std::move(counters), own_handle};
    }
    void remove_link(uint16_t channel, uint32_t handle) {
        const auto session = sessions_.find(channel);
        if (session == sessions_.end()) return;
        const auto found = session->second.links.find(handle);
        if (found == session->second.links.end()) return;
        senders_.erase(found->second.counters->subscription);
        session->second.links.erase(found);
    }

    // The id of the next message: milliseconds and counter.
    std::pair<int64_t, uint16_t> next_id(int64_t now_ms) {
        if (now_ms > last_ms_) last_ms_ = now_ms, counter_ = 0;
        else if (++counter_ == 0) ++last_ms_;
        return {last_ms_, counter_};
    }

    // ---- from the client

    // Whole frames from the start of `data` that need no Python. Returns their bytes.
    size_t take(std::string_view data, int64_t now_ms) {
        size_t used = 0;
        while (data.size() - used >= frame_header) {
            const size_t size = load_big<uint32_t>(data.data() + used);
            if (size < frame_header || size > frame_bytes_max || size > data.size() - used) break;
            if (!take_frame(data.substr(used, size), now_ms)) break;
            used += size;
        }
        flush_acks();
        return used;
    }

    // Native frames for the broker, since the last call.
    std::string take_frames() { return std::exchange(frames_, {}); }

    // ---- from the broker

    // The same for native frames: `data` are whole ones.
    size_t give(std::string_view data, int64_t now_ms) {
        size_t used = 0;
        while (const size_t size = first_frame_bytes(data.substr(used))) {
            const std::string_view frame = data.substr(used, size);
            const auto type = static_cast<uint8_t>(frame[4]);
            if (type == FrameReceipts) {
                if (!give_receipts(frame.substr(frame_header_bytes))) break;
            } else if (type != FrameDeliver || !give_delivery(frame.substr(frame_header_bytes), now_ms)) {
                break;
            }
            used += size;
        }
        flush_dispositions();
        return used;
    }

    // For the client, since the last call.
    std::string take_output() {
        std::string output(output_.data(), output_.size());
        output_.clear();
        return output;
    }

    // Subscriptions whose credit has changed, since the last call.
    std::vector<uint32_t> take_touched() { return std::exchange(touched_, {}); }

    // What this receipt was for, which the broker refuses; nothing: it is answered.
    std::optional<Published> refused(uint32_t receipt) {
        const uint32_t place = receipt - base_receipt_;
        if (receipt < first_receipt || place >= published_.size() || !published_[place].link) return {};
        Published found = std::move(published_[place]);
        published_[place].link.reset();
        found.link->under_way -= 1;
        forget_answered();
        return found;
    }

private:
    struct Link {
        std::shared_ptr<AmqpLinkCounters> counters;
        uint32_t own_handle = 0;
    };
    struct Session {
        std::shared_ptr<AmqpSessionCounters> counters;
        std::unordered_map<uint32_t, Link> links;  // by the client's handle
    };
    struct Sender {
        std::shared_ptr<AmqpSessionCounters> session;
        std::shared_ptr<AmqpLinkCounters> link;
        uint16_t channel = 0;
        uint32_t handle = 0;
    };
    struct Range {
        uint16_t channel = 0;
        uint32_t first = 0, last = 0;
        bool any = false;
    };

    bool take_frame(std::string_view frame, int64_t now_ms) {
        const size_t offset = 4 * size_t{static_cast<uint8_t>(frame[4])};
        if (offset < frame_header || offset > frame.size() || frame[5] != 0) return false;
        const auto session = sessions_.find(load_big<uint16_t>(frame.data() + 6));
        if (session == sessions_.end()) return false;
        const std::string_view body = frame.substr(offset);
        AmqpCursor cursor(body);
        const uint8_t performative = cursor.descriptor();
        const AmqpItem list = cursor.next();
        if (list.kind != AmqpKind::List) return false;
        switch (performative) {
            case 0x13: return cursor.done() && take_flow(session->second, list);
            case 0x14: return take_transfer(*session, list, body.substr(cursor.position()), now_ms);
            case 0x15: return cursor.done() && take_disposition(*session->second.counters, list);
            default: return false;
        }
    }

    static bool is_off(const AmqpItem& item) {
        return item.kind == AmqpKind::Null || (item.kind == AmqpKind::Bool && !item.number);
    }

    // The fields of a list, the absent ones null; false: too many, or one that is none of the usual types.
    template <size_t most>
    static bool fields(const AmqpItem& list, std::array<AmqpItem, most>& found) {
        if (list.count > most) return false;
        AmqpCursor cursor(list.text);
        for (uint32_t i = 0; i < list.count; ++i)
            if ((found[i] = cursor.next()).kind == AmqpKind::Other) return false;
        for (size_t i = list.count; i < most; ++i) found[i] = {AmqpKind::Null};
        return cursor.done();
    }

    bool take_transfer(std::pair<const uint16_t, Session>& session, const AmqpItem& list, std::string_view payload,
                       int64_t now_ms) {
        std::array<AmqpItem, 11> found;
        if (!fields(list, found)) return false;
        const auto& [handle, id, tag, format, settled, more, mode, state, resume, aborted, batchable] = found;
        if (handle.kind != AmqpKind::Uint || id.kind != AmqpKind::Uint || tag.kind != AmqpKind::Binary) return false;
        if (format.kind != AmqpKind::Null && format.kind != AmqpKind::Uint) return false;
        if (settled.kind != AmqpKind::Null && settled.kind != AmqpKind::Bool) return false;
        if (mode.kind != AmqpKind::Null && mode.kind != AmqpKind::Ubyte) return false;
        if (batchable.kind != AmqpKind::Null && batchable.kind != AmqpKind::Bool) return false;
        if (!is_off(more) || state.kind != AmqpKind::Null || !is_off(resume) || !is_off(aborted)) return false;
        const auto link = session.second.links.find(static_cast<uint32_t>(handle.number));
        if (link == session.second.links.end()) return false;
        AmqpLinkCounters& counters = *link->second.counters;
        if (!counters.hot || counters.subscription || counters.credit <= 0) return false;
        if (payload.size() > message_bytes_max_) return false;
        if (!publish(counters, payload, now_ms)) return false;
        AmqpSessionCounters& windows = *session.second.counters;
        ++windows.next_incoming_id;
        --windows.incoming_window;
        ++counters.delivery_count;
        --counters.credit;
        ++counters.under_way;
        published_.push_back(
            {link->second.counters, session.first, link->first, static_cast<uint32_t>(id.number), settled.number != 0});
        return true;
    }

    // Appends a PUBLISH frame.
    bool publish(const AmqpLinkCounters& link, std::string_view content, int64_t now_ms) {
        const size_t start = frames_.size(), message = start + frame_header_bytes + 4;
        flush_acks();
        frames_.resize(message);
        const std::optional<AmqpForm> form = reader_.read(content, link.destination, link.queue, now_ms, frames_);
        if (!form || frames_.size() - start > message_bytes_max_) return frames_.resize(start), false;
        const auto [ms, counter] = next_id(now_ms);
        char* const id = frames_.data() + message + 4;
        store_big(id, publisher_ | static_cast<uint32_t>(*form) << amqp_form_shift);
        store_big(id + 4, broker_);
        store_big(id + 8, static_cast<uint64_t>(ms) << 16 | counter);
        const uint32_t receipt = next_receipt();
        char* const payload = write_frame_header(
            frames_.data() + start, static_cast<uint32_t>(frames_.size() - start - frame_header_bytes), FramePublish);
        std::memcpy(payload, &receipt, 4);
        return true;
    }

    uint32_t next_receipt() {
        if (published_.empty()) {
            if (base_receipt_ > UINT32_MAX - (1u << 24)) base_receipt_ = first_receipt;  // none is under way
        }
        return base_receipt_ + static_cast<uint32_t>(published_.size());
    }

    bool take_flow(Session& session, const AmqpItem& list) {
        std::array<AmqpItem, 11> found;
        if (!fields(list, found) || session.counters->waiting) return false;
        const auto& [incoming, window, outgoing, outgoing_window, handle, count, credit, available, drain, echo,
                     properties] = found;
        for (const AmqpItem* one : {&window, &outgoing, &outgoing_window})
            if (one->kind != AmqpKind::Uint) return false;
        for (const AmqpItem* one : {&incoming, &handle, &count, &credit, &available})
            if (one->kind != AmqpKind::Uint && one->kind != AmqpKind::Null) return false;
        if (!is_off(drain) || !is_off(echo) || properties.kind != AmqpKind::Null) return false;
        AmqpSessionCounters& windows = *session.counters;
        AmqpLinkCounters* link = nullptr;
        if (handle.kind == AmqpKind::Uint) {
            const auto place = session.links.find(static_cast<uint32_t>(handle.number));
            if (place == session.links.end()) return false;
            link = place->second.counters.get();
            if (!link->hot || !link->subscription || link->draining) return false;
            if (credit.kind == AmqpKind::Uint) {
                const int64_t under_way = serial_distance(link->delivery_count, static_cast<uint32_t>(count.number));
                link->credit = std::max<int64_t>(static_cast<int64_t>(credit.number) - std::max<int64_t>(under_way, 0),
                                                 0);
            }
            touch(*link);
        }
        const int64_t under_way = serial_distance(windows.next_outgoing_id, static_cast<uint32_t>(incoming.number));
        windows.remote_incoming_window = std::max<int64_t>(
            static_cast<int64_t>(window.number) - std::max<int64_t>(under_way, 0), 0);
        return true;
    }

    // Of messages that the client has accepted and settled.
    bool take_disposition(AmqpSessionCounters& session, const AmqpItem& list) {
        if (list.count < 5 || list.count > 6) return false;
        AmqpCursor cursor(list.text);
        const AmqpItem role = cursor.next(), first = cursor.next(), last = cursor.next(), settled = cursor.next();
        if (role.kind != AmqpKind::Bool || !role.number || first.kind != AmqpKind::Uint) return false;
        if (last.kind != AmqpKind::Null && last.kind != AmqpKind::Uint) return false;
        if (settled.kind != AmqpKind::Bool || !settled.number || cursor.descriptor() != 0x24) return false;
        const AmqpItem state = cursor.next();
        if (state.kind != AmqpKind::List || state.count) return false;
        if (list.count == 6 && cursor.next().kind != AmqpKind::Bool) return false;
        if (!cursor.done()) return false;
        const auto from = static_cast<uint32_t>(first.number);
        const uint32_t to = last.kind == AmqpKind::Uint ? static_cast<uint32_t>(last.number) : from;
        if (to - from >= session.unsettled.size()) return false;
        for (uint32_t id = from; id != to + 1; ++id)
            if (!session.find(id)) return false;
        for (uint32_t id = from; id != to + 1; ++id) {
            const AmqpSessionCounters::Unsettled one = *session.find(id);
            session.remove(id);
            if (one.subscription != acked_subscription_) flush_acks();
            acked_subscription_ = one.subscription;
            acked_.push_back(one.tag);
        }
        return true;
    }

    void flush_acks() {
        if (acked_.empty()) return;
        const auto count = static_cast<uint32_t>(acked_.size());
        const size_t start = frames_.size(), payload = ack_fixed_bytes + 8 * acked_.size();
        frames_.resize(start + frame_header_bytes + payload);
        char* const place = write_frame_header(frames_.data() + start, static_cast<uint32_t>(payload), FrameAck);
        std::memcpy(place, &acked_subscription_, 4);
        place[4] = 0;
        std::memcpy(place + 5, &count, 4);
        std::memcpy(place + ack_fixed_bytes, acked_.data(), 8 * acked_.size());
        acked_.clear();
    }

    void touch(AmqpLinkCounters& link) {
        if (!std::exchange(link.touched, true)) touched_.push_back(link.subscription);
    }

    // ---- from the broker

    bool give_delivery(std::string_view payload, int64_t now_ms) {
        if (payload.size() < 16 + message_header_bytes) return false;
        uint32_t subscription, attempt;
        uint64_t tag;
        std::memcpy(&subscription, payload.data(), 4);
        std::memcpy(&attempt, payload.data() + 4, 4);
        std::memcpy(&tag, payload.data() + 8, 8);
        const auto found = senders_.find(subscription);
        if (found == senders_.end()) return false;
        Sender& sender = found->second;
        AmqpLinkCounters& link = *sender.link;
        AmqpSessionCounters& session = *sender.session;
        if (!link.hot || link.draining || link.credit <= 0 || session.waiting || session.remote_incoming_window <= 0)
            return false;
        if (tag && link.presettled) return false;
        const size_t start = output_.size();
        begin_transfer(sender, tag == 0);
        const size_t content = output_.size();
        const bool fits = writer_.write(payload.substr(16), attempt, now_ms, link.says_destination, output_) &&
                          output_.size() - start <= remote_frame_bytes_max &&
                          (!link.message_bytes_max || output_.size() - content <= link.message_bytes_max);
        if (!fits) return output_.cut(start), false;
        store_big(output_.data() + start, static_cast<uint32_t>(output_.size() - start));
        ++link.sent;
        --link.credit;
        ++link.delivery_count;
        if (link.granted > 0) --link.granted;
        if (tag) session.add(session.next_delivery_id, {subscription, tag});
        ++session.next_delivery_id;
        ++session.next_outgoing_id;
        --session.remote_incoming_window;
        touch(link);
        return true;
    }

    // Frame header and performative, as Python writes them.
    void begin_transfer(const Sender& sender, bool settled) {
        char tag[20];
        const auto [end, error] = std::to_chars(tag, tag + sizeof tag, sender.link->sent + 1);
        const auto tag_bytes = static_cast<size_t>(end - tag);
        char* place = output_.grow(frame_header + 6 + 5 + 5 + 2 + tag_bytes + 3);
        place[4] = 2, place[5] = 0;
        store_big(place + 6, sender.channel);
        place += frame_header;
        place[0] = 0, place[1] = 0x53, place[2] = 0x14, place[3] = static_cast<char>(0xC0);
        place[4] = static_cast<char>(16 + tag_bytes), place[5] = 6;
        place[6] = 0x70;
        store_big(place + 7, sender.handle);
        place[11] = 0x70;
        store_big(place + 12, sender.session->next_delivery_id);
        place[16] = static_cast<char>(0xA0), place[17] = static_cast<char>(tag_bytes);
        std::memcpy(place + 18, tag, tag_bytes);
        place += 18 + tag_bytes;
        place[0] = 0x43, place[1] = settled ? 0x41 : 0x42, place[2] = 0x42;
    }

    // True if all of them are of messages that were published here.
    bool give_receipts(std::string_view payload) {
        if (payload.size() < 4) return false;
        bool all = true;
        for (size_t at = 4; at + 4 <= payload.size(); at += 4) {
            uint32_t receipt;
            std::memcpy(&receipt, payload.data() + at, 4);
            if (receipt < first_receipt) all = false;
            else accepted(receipt);
        }
        forget_answered();
        return all;
    }

    void accepted(uint32_t receipt) {
        const uint32_t place = receipt - base_receipt_;
        if (place >= published_.size() || !published_[place].link) return;
        const Published one = std::move(published_[place]);
        published_[place].link.reset();
        AmqpLinkCounters& link = *one.link;
        --link.under_way;
        const auto session = sessions_.find(one.channel);
        if (session == sessions_.end()) return;
        const auto found = session->second.links.find(one.handle);
        if (found == session->second.links.end() || found->second.counters != one.link) return;  // it has ended
        if (!one.settled) settle(one.channel, one.delivery_id);
        const int64_t more = credit_max - link.credit - link.under_way;
        if (link.hot && 2 * more >= credit_max)
            grant(link, more, one.channel, *session->second.counters, found->second);
    }

    void forget_answered() {
        while (!published_.empty() && !published_.front().link) published_.pop_front(), ++base_receipt_;
    }

    void settle(uint16_t channel, uint32_t id) {
        if (range_.any && range_.channel == channel && range_.last + 1 == id) {
            range_.last = id;
            return;
        }
        flush_dispositions();
        range_ = {channel, id, id, true};
    }

    void flush_dispositions() {
        if (!std::exchange(range_.any, false)) return;
        fields_.clear();
        AmqpWriter fields(fields_);
        fields.boolean(true);
        fields.uint(range_.first);
        if (range_.last != range_.first) fields.uint(range_.last);
        else fields.null();
        fields.boolean(true);
        fields.described(0x24), fields.byte(0x45);
        put_frame(range_.channel, 0x15, 5);
    }

    void grant(AmqpLinkCounters& link, int64_t more, uint16_t channel, AmqpSessionCounters& windows,
               const Link& place) {
        flush_dispositions();
        link.credit += more;
        windows.incoming_window = INT32_MAX;
        fields_.clear();
        AmqpWriter fields(fields_);
        fields.uint(windows.next_incoming_id);
        fields.uint(INT32_MAX);
        fields.uint(windows.next_outgoing_id);
        fields.uint(INT32_MAX);
        fields.uint(place.own_handle);
        fields.uint(link.delivery_count);
        fields.uint(static_cast<uint32_t>(link.credit));
        put_frame(channel, 0x13, 7);
    }

    // A performative with the fields in `fields_`.
    void put_frame(uint16_t channel, uint8_t performative, uint32_t count) {
        const size_t start = output_.size();
        char* const place = output_.grow(frame_header);
        place[4] = 2, place[5] = 0;
        store_big(place + 6, channel);
        AmqpWriter writer(output_);
        writer.described(performative);
        writer.compound(0xC0, fields_, count);
        store_big(output_.data() + start, static_cast<uint32_t>(output_.size() - start));
    }

    uint32_t publisher_, broker_;
    size_t message_bytes_max_;
    int64_t last_ms_ = 0;
    uint16_t counter_ = 0;
    std::unordered_map<uint16_t, Session> sessions_;
    std::unordered_map<uint32_t, Sender> senders_;  // by subscription
    std::deque<Published> published_;               // from that receipt on
    uint32_t base_receipt_ = first_receipt;
    AmqpMessageReader reader_;
    AmqpMessageWriter writer_;
    std::string frames_;
    Scratch output_, fields_;
    std::vector<uint32_t> touched_;
    std::vector<uint64_t> acked_;
    uint32_t acked_subscription_ = 0;
    Range range_;
};

}  // namespace tidings
