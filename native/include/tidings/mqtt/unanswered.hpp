// Publications of an MQTT client that wait for their answer. PUBACK and PUBREC leave in the order of the PUBLISH packets
// [MQTT-4.6.0-2, -3], each when the broker has confirmed its message. The number of one is the receipt that the broker is
// asked for, unless Python asks in its own name.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "tidings/mqtt/wire.hpp"

namespace tidings {

class MqttUnanswered {
public:
    static constexpr uint32_t first_number = 0x8000'0000, last_number = UINT32_MAX - (1u << 20);

    size_t size() const { return waiting_.size(); }

    // The number that the next one gets; nothing: none may be given as a receipt until all are answered.
    std::optional<uint32_t> next() {
        if (waiting_.empty() && base_ > last_number) base_ = first_number;
        const uint32_t number = base_ + static_cast<uint32_t>(waiting_.size());
        if (number < first_number || number > last_number) return {};
        return number;
    }

    uint32_t add(uint16_t packet_id, MqttType answer) {
        next();
        waiting_.push_back({packet_id, answer, false, {}});
        return base_ + static_cast<uint32_t>(waiting_.size() - 1);
    }

    // True if PUBREC is still to be sent for this packet id.
    bool waits_for_pubrec(uint16_t packet_id) const {
        for (const Publication& one : waiting_)
            if (one.packet_id == packet_id && one.answer == MqttPubrec) return true;
        return false;
    }

    std::optional<uint16_t> packet_id(uint32_t number) const {
        const uint32_t place = number - base_;
        if (place >= waiting_.size() || waiting_[place].done) return {};
        return waiting_[place].packet_id;
    }

    // `packet`: what to answer; empty: success.
    void settle(uint32_t number, std::string_view packet, Scratch& out) {
        const uint32_t place = number - base_;
        if (place >= waiting_.size() || waiting_[place].done) return;
        waiting_[place].done = true;
        waiting_[place].packet = packet;
        for (; !waiting_.empty() && waiting_.front().done; waiting_.pop_front(), ++base_) put(waiting_.front(), out);
    }

private:
    struct Publication {
        uint16_t packet_id;
        MqttType answer;
        bool done;
        std::string packet;
    };

    static void put(const Publication& one, Scratch& out) {
        if (!one.packet.empty()) return out.put(one.packet);
        char* const place = out.grow(4);
        place[0] = static_cast<char>(one.answer << 4);
        place[1] = 2;
        store_big(place + 2, one.packet_id);
    }

    std::deque<Publication> waiting_;
    uint32_t base_ = first_number;
};

}  // namespace tidings
