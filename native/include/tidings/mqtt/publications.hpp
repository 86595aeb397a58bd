// The hot path of one MQTT connection: plain PUBLISH packets of QoS 0 and 1 in and out, and their PUBACKs, between the
// bytes of the client and frames of the native protocol, in batches.
//
//   client ── take ──► PUBLISH, ACK, CREDIT            client ◄── give ── DELIVER, RECEIPTS
//
// Both stop at the first packet or frame that is not plain: Python handles that one, and calls again for the rest. What a
// packet changes is in tables that Python uses as its own, so it does not matter which of the two has seen it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tidings/codec/batch.hpp"
#include "tidings/codec/frames.hpp"
#include "tidings/mqtt/in_flight.hpp"
#include "tidings/mqtt/message_reader.hpp"
#include "tidings/mqtt/message_writer.hpp"
#include "tidings/mqtt/unanswered.hpp"

namespace tidings {

struct MqttLimits {
    size_t packet_bytes_max = 1 << 20;     // of the client's packets, and of frames for the broker
    size_t unanswered_max = 1000;          // publications of the client
    size_t in_flight_max = 1000;           // messages that the client has not acknowledged
    size_t outgoing_packet_bytes_max = 0;  // 0: any
    size_t aliases_max = 0;                // for topics of messages to the client
    uint32_t credit_step = 64;             // messages whose credit is returned together
};

// How messages of a subscription leave.
struct MqttDelivery {
    uint8_t qos = 0;
    uint32_t identifier = 0;  // 0: none
    bool retain_as_published = false;
    bool limited = false;  // messages come by credit
    bool plain = false;    // they do not need Python
    uint32_t used = 0;     // credit to return
};

class MqttPublications {
public:
    static constexpr size_t message_overhead = 64;  // bytes of a native frame beside its message

    MqttPublications(uint32_t publisher, uint32_t broker, bool v5, const MqttLimits& limits)
        : publisher_(publisher),
          broker_(broker),
          v5_(v5),
          limits_(limits),
          in_flight_(limits.in_flight_max) {}

    MqttInFlight& in_flight() { return in_flight_; }
    MqttUnanswered& unanswered() { return unanswered_; }
    MqttMessageReader& reader() { return reader_; }

    // Python's, as far as plain packets depend on them.
    size_t received = 0;  // packet ids of QoS 2 that wait for PUBREL
    size_t waiting = 0;   // messages that wait for a packet id
    size_t held = 0;      // message ids between PUBREC and PUBCOMP

    // ---- subscriptions

    void set_subscription(uint32_t number, MqttDelivery delivery) {
        const auto found = subscriptions_.find(number);
        if (found != subscriptions_.end()) delivery.used = found->second.used;
        subscriptions_[number] = delivery;
    }
    void remove_subscription(uint32_t number) { subscriptions_.erase(number); }

    // A message of this subscription is the client's. Returns the credit that is due to the broker.
    uint32_t use(uint32_t number) {
        const auto found = subscriptions_.find(number);
        if (found == subscriptions_.end() || !found->second.limited) return 0;
        if (++found->second.used < limits_.credit_step) return 0;
        return std::exchange(found->second.used, 0);
    }

    // ---- ids and aliases

    // The id of the next message: milliseconds and counter.
    std::pair<int64_t, uint16_t> next_id(int64_t now_ms) {
        const int64_t ms = next_ms(now_ms);
        counter_ = ms > last_ms_ ? uint16_t{0} : static_cast<uint16_t>(counter_ + 1);
        last_ms_ = ms;
        return {last_ms_, counter_};
    }

    // Of a topic of messages to the client; 0: there is none.
    uint16_t alias(const std::string& topic) const {
        const auto found = aliases_.find(topic);
        return found == aliases_.end() ? uint16_t{0} : found->second;
    }
    // Of the next topic that gets one; 0: there are as many as the client allows.
    uint16_t next_alias() const {
        return aliases_.size() < limits_.aliases_max ? static_cast<uint16_t>(aliases_.size() + 1) : uint16_t{0};
    }
    void add_alias(const std::string& topic) {
        if (const uint16_t alias = next_alias()) aliases_.emplace(topic, alias);
    }

    // ---- from the client

    // Whole packets from the start of `data` that need no Python. Returns their bytes.
    size_t take(std::string_view data, int64_t now_ms) {
        size_t used = 0;
        while (const auto packet = first_mqtt_packet(data.substr(used))) {
            if (packet->bytes > limits_.packet_bytes_max || !take_packet(*packet, now_ms)) break;
            used += packet->bytes;
        }
        flush_acks();
        return used;
    }

    // PUBACK. False: the message is not one that the kernel has sent.
    bool acknowledge(uint16_t packet_id) {
        const auto message = in_flight_.take(packet_id);
        if (!message) return false;
        if (subscriptions_.contains(message->subscription)) {
            if (message->tag) {
                if (message->subscription != acked_subscription_) flush_acks();
                acked_subscription_ = message->subscription;
                acked_.push_back(message->tag);
            }
            return_credit(message->subscription);
        }
        return true;
    }

    // Native frames for the broker, since the last call.
    std::string take_frames() {
        flush_acks();
        return std::exchange(frames_, {});
    }

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
        return used;
    }

    void settle(uint32_t number, std::string_view packet) { unanswered_.settle(number, packet, output_); }

    // For the client, since the last call.
    std::string take_output() {
        std::string output(output_.data(), output_.size());
        output_.clear();
        return output;
    }

private:
    // Of the PUBLISH packet of the message in `writer_`.
    struct Form {
        uint16_t alias;
        bool new_alias;
        size_t topic, properties, content;  // bytes
    };

    int64_t next_ms(int64_t now_ms) const { return now_ms > last_ms_ ? now_ms : last_ms_ + (counter_ == UINT16_MAX); }

    bool take_packet(const MqttPacket& packet, int64_t now_ms) {
        const uint8_t type = packet.first >> 4, flags = packet.first & 15;
        if (type == MqttPublish) return take_publish(packet.content, flags, now_ms);
        if (type != MqttPuback || flags || packet.content.size() < 2) return false;
        if (packet.content.size() > 2) {  // a reason code, which changes nothing
            const bool plain = packet.content.size() == 3 || (packet.content.size() == 4 && packet.content[3] == 0);
            if (!v5_ || !plain || packet.content[2] & ~0x10) return false;
        }
        const auto packet_id = load_big<uint16_t>(packet.content.data());
        if (!packet_id) return false;
        return acknowledge(packet_id) || !in_flight_.has(packet_id);
    }

    // Appends a PUBLISH frame.
    bool take_publish(std::string_view content, uint8_t flags, int64_t now_ms) {
        const bool answered = flags >> mqtt_qos_shift & 1;
        uint32_t receipt = 0;
        if (answered) {
            const auto next = unanswered_.next();
            if (!next || received || unanswered_.size() >= limits_.unanswered_max) return false;
            receipt = *next;
        }
        flush_acks();
        const size_t start = frames_.size(), message = start + frame_header_bytes + 4;
        frames_.resize(message);
        if (!reader_.read(content, flags, v5_, next_ms(now_ms), frames_) ||
            frames_.size() - message + message_overhead > limits_.packet_bytes_max)
            return frames_.resize(start), false;
        const auto [ms, counter] = next_id(now_ms);
        char* const id = frames_.data() + message + 4;
        store_big(id, publisher_);
        store_big(id + 4, broker_);
        store_big(id + 8, static_cast<uint64_t>(ms) << 16 | counter);
        char* const payload = write_frame_header(
            frames_.data() + start, static_cast<uint32_t>(frames_.size() - start - frame_header_bytes), FramePublish);
        std::memcpy(payload, &receipt, 4);
        if (answered) unanswered_.add(reader_.packet_id, MqttPuback);
        return true;
    }

    void flush_acks() {
        if (acked_.empty()) return;
        const auto count = static_cast<uint32_t>(acked_.size());
        const size_t payload = ack_fixed_bytes + 8 * acked_.size();
        char* const place = put_frame(payload, FrameAck);
        std::memcpy(place, &acked_subscription_, 4);
        place[4] = 0;
        std::memcpy(place + 5, &count, 4);
        std::memcpy(place + ack_fixed_bytes, acked_.data(), 8 * acked_.size());
        acked_.clear();
    }

    void return_credit(uint32_t subscription) {
        const uint32_t more = use(subscription);
        if (!more) return;
        flush_acks();
        char* const place = put_frame(8, FrameCredit);
        std::memcpy(place, &subscription, 4);
        std::memcpy(place + 4, &more, 4);
    }

    char* put_frame(size_t payload, uint8_t type) {
        const size_t start = frames_.size();
        frames_.resize(start + frame_header_bytes + payload);
        return write_frame_header(frames_.data() + start, static_cast<uint32_t>(payload), type);
    }

    // True if all of them are of messages that were published here.
    bool give_receipts(std::string_view payload) {
        if (payload.size() < 4) return false;
        bool all = true;
        for (size_t at = 4; at + 4 <= payload.size(); at += 4) {
            uint32_t receipt;
            std::memcpy(&receipt, payload.data() + at, 4);
            if (receipt < MqttUnanswered::first_number) all = false;
            else unanswered_.settle(receipt, {}, output_);
        }
        return all;
    }

    bool give_delivery(std::string_view payload, int64_t now_ms) {
        if (payload.size() < 16 + message_header_bytes) return false;
        uint32_t number, attempt;
        uint64_t tag;
        std::memcpy(&number, payload.data(), 4);
        std::memcpy(&attempt, payload.data() + 4, 4);
        std::memcpy(&tag, payload.data() + 8, 8);
        const auto found = subscriptions_.find(number);
        if (found == subscriptions_.end() || !found->second.plain) return false;
        const std::string_view message = payload.substr(16);
        if (!writer_.read(message, v5_, now_ms)) return false;
        const uint8_t qos = std::min(found->second.qos, writer_.qos());
        if (qos > 1) return false;
        const Form form = form_of(found->second, qos);
        if (is_too_large(form)) return false;
        if (qos) return put_acknowledged(*found, form, attempt, tag, message);
        put(found->second, form, 0, 0);
        after_unacknowledged(number, tag);
        return true;
    }

    // Of QoS 0: the client has it.
    void after_unacknowledged(uint32_t number, uint64_t tag) {
        if (tag) {
            if (number != acked_subscription_) flush_acks();
            acked_subscription_ = number;
            acked_.push_back(tag);
        }
        return_credit(number);
    }

    bool put_acknowledged(const std::pair<const uint32_t, MqttDelivery>& subscription, const Form& form,
                          uint32_t attempt, uint64_t tag, std::string_view message) {
        if (waiting || in_flight_.full()) return false;
        if (in_flight_.persistent && (held || !tag)) return false;
        const std::string_view id = message.substr(4, MqttInFlight::message_id_bytes);
        const uint16_t packet_id = in_flight_.id_for(id);
        if (in_flight_.has(packet_id)) return false;
        const bool again = attempt > 1 || in_flight_.was_sent(packet_id, id);
        put(subscription.second, form, static_cast<uint8_t>(1 << mqtt_qos_shift | (again ? mqtt_dup : 0)), packet_id);
        in_flight_.put(packet_id, subscription.first, tag, id);
        return true;
    }

    // ---- PUBLISH packets of the message in `writer_`

    Form form_of(const MqttDelivery& delivery, uint8_t qos) {
        Form found{};
        topic_.assign(writer_.topic());
        found.alias = limits_.aliases_max ? alias(topic_) : uint16_t{0};
        found.new_alias = !found.alias && next_alias();
        found.topic = found.alias ? 0 : topic_.size();
        found.content = 2 + found.topic + (qos ? 2 : 0) + writer_.body().size();
        if (v5_) {
            found.properties = writer_.properties().size() + (found.alias || found.new_alias ? 3 : 0);
            if (delivery.identifier) found.properties += 1 + mqtt_variable_bytes(delivery.identifier);
            found.content += mqtt_variable_bytes(found.properties) + found.properties;
        }
        return found;
    }

    bool is_too_large(const Form& form) const {
        const size_t bytes = 1 + mqtt_variable_bytes(form.content) + form.content;
        const size_t most = limits_.outgoing_packet_bytes_max;
        return form.content >= 1u << 28 || (most && bytes > most);
    }

    // `flags`: QoS and DUP; `packet_id`: 0 with QoS 0.
    void put(const MqttDelivery& delivery, Form form, uint8_t flags, uint16_t packet_id) {
        if (form.new_alias) form.alias = next_alias(), add_alias(topic_);
        const bool retain = delivery.retain_as_published && writer_.retained();
        char* place = output_.grow(1 + mqtt_variable_bytes(form.content) + form.content);
        *place++ = static_cast<char>(MqttPublish << 4 | flags | (retain ? mqtt_retain : 0));
        place = write_mqtt_variable(place, form.content);
        store_big(place, static_cast<uint16_t>(form.topic));
        std::memcpy(place + 2, topic_.data(), form.topic);
        place += 2 + form.topic;
        if (packet_id) store_big(place, packet_id), place += 2;
        if (v5_) place = put_properties(place, delivery, form);
        const std::string_view body = writer_.body();
        if (!body.empty()) std::memcpy(place, body.data(), body.size());
    }

    char* put_properties(char* place, const MqttDelivery& delivery, const Form& form) {
        place = write_mqtt_variable(place, form.properties);
        const std::string_view properties = writer_.properties();
        if (!properties.empty()) std::memcpy(place, properties.data(), properties.size());
        place += properties.size();
        if (delivery.identifier) {
            *place++ = MqttSubscriptionId;
            place = write_mqtt_variable(place, delivery.identifier);
        }
        if (form.alias) {
            *place++ = MqttTopicAlias;
            store_big(place, form.alias);
            place += 2;
        }
        return place;
    }

    uint32_t publisher_, broker_;
    bool v5_;
    MqttLimits limits_;
    int64_t last_ms_ = 0;
    uint16_t counter_ = 0;
    MqttInFlight in_flight_;
    MqttUnanswered unanswered_;
    std::unordered_map<uint32_t, MqttDelivery> subscriptions_;
    std::unordered_map<std::string, uint16_t> aliases_;
    MqttMessageReader reader_;
    MqttMessageWriter writer_;
    std::string frames_, topic_;
    Scratch output_;
    std::vector<uint64_t> acked_;
    uint32_t acked_subscription_ = 0;
};

}  // namespace tidings
