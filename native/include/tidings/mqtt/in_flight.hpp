// Packet ids of messages on their way to an MQTT client. In a session that outlives its connection the id of a message
// follows from the message's; otherwise the next one that is free is taken.
#pragma once
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tidings {

namespace detail {

inline constexpr auto crc32_table = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < 256; ++byte) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? 0xEDB88320u ^ rest >> 1 : rest >> 1;
        table[byte] = rest;
    }
    return table;
}();

}  // namespace detail

// As of zlib.
inline uint32_t crc32(std::string_view data) {
    uint32_t rest = ~0u;
    for (const char c : data) rest = detail::crc32_table[(rest ^ static_cast<uint8_t>(c)) & 0xFF] ^ rest >> 8;
    return ~rest;
}

class MqttInFlight {
public:
    static constexpr size_t message_id_bytes = 16;
    struct Message {
        uint32_t subscription = 0;  // 0: Python's
        uint64_t tag = 0;
        std::array<char, message_id_bytes> id{};
    };

    explicit MqttInFlight(size_t most) : most_(most) {}

    bool persistent = false;  // the session outlives its connection

    size_t size() const { return messages_.size(); }
    bool full() const { return messages_.size() >= most_; }
    bool has(uint16_t packet_id) const { return messages_.contains(packet_id); }
    const std::unordered_map<uint16_t, Message>& messages() const { return messages_; }

    // The packet id for a message: a free one, or in a session that persists the one it always has.
    uint16_t id_for(std::string_view message_id) {
        if (persistent) return static_cast<uint16_t>(crc32(message_id) % 0xFFFF + 1);
        do last_ = static_cast<uint16_t>(last_ % 0xFFFF + 1);
        while (has(last_));
        return last_;
    }

    void put(uint16_t packet_id, uint32_t subscription, uint64_t tag, std::string_view message_id) {
        Message& one = messages_[packet_id];
        one.subscription = subscription;
        one.tag = tag;
        if (persistent && message_id.size() == message_id_bytes)
            std::memcpy(one.id.data(), message_id.data(), message_id_bytes);
    }

    // Nothing: it is Python's, or there is none.
    std::optional<Message> take(uint16_t packet_id) {
        const auto found = messages_.find(packet_id);
        if (found == messages_.end() || !found->second.subscription) return {};
        const Message one = found->second;
        messages_.erase(found);
        return one;
    }
    void free(uint16_t packet_id) { messages_.erase(packet_id); }

    // ---- what an earlier connection of the session was sent

    void add_earlier(uint16_t packet_id, std::string_view message_id) { earlier_[packet_id] = message_id; }

    // Asked once for each.
    bool was_sent(uint16_t packet_id, std::string_view message_id) {
        const auto found = earlier_.find(packet_id);
        if (found == earlier_.end()) return false;
        const bool same = found->second == message_id;
        earlier_.erase(found);
        return same;
    }

private:
    size_t most_;
    uint16_t last_ = 0;
    std::unordered_map<uint16_t, Message> messages_;
    std::unordered_map<uint16_t, std::string> earlier_;
};

}  // namespace tidings
