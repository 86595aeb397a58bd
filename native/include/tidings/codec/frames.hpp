// Frames that the kernel writes.
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "tidings/codec/batch.hpp"
#include "tidings/forwarding/events.hpp"
#include "tidings/forwarding/output.hpp"

namespace tidings {

// The size of the frame that `data` begins with; 0: it is not complete.
inline size_t first_frame_bytes(std::string_view data) {
    uint32_t size = 0;
    if (data.size() < frame_header_bytes) return 0;
    std::memcpy(&size, data.data(), sizeof size);
    return data.size() - frame_header_bytes < size ? 0 : frame_header_bytes + size;
}

inline constexpr size_t ack_fixed_bytes = 9;  // subscription, flags, number of tags

struct Credit {
    uint32_t subscription, more;
};

inline Credit read_credit(const char* payload) {
    Credit credit;
    std::memcpy(&credit, payload, 8);
    return credit;
}

// Nothing: malformed, or something else.
inline std::optional<Acknowledged> decode_ack(uint32_t connection, const Entry& entry) {
    if (entry.type != FrameAck || entry.payload.size() < ack_fixed_bytes) return {};
    uint32_t subscription, count;
    std::memcpy(&subscription, entry.payload.data(), 4);
    std::memcpy(&count, entry.payload.data() + 5, 4);
    if (entry.payload.size() != ack_fixed_bytes + 8 * size_t{count}) return {};
    std::vector<uint64_t> tags(count);
    if (count) std::memcpy(tags.data(), entry.payload.data() + ack_fixed_bytes, 8 * size_t{count});
    return Acknowledged{connection, entry.session, subscription, static_cast<uint8_t>(entry.payload[4]),
                        std::move(tags)};
}

inline constexpr size_t delivery_header_bytes = frame_header_bytes + 16;
inline size_t delivery_bytes(std::string_view message) { return delivery_header_bytes + message.size(); }

inline const uint8_t* id_of(std::string_view message) { return reinterpret_cast<const uint8_t*>(message.data()) + 4; }

inline char* write_frame_header(char* place, uint32_t payload, uint8_t type) {
    std::memcpy(place, &payload, 4);
    place[4] = static_cast<char>(type);
    place[5] = place[6] = place[7] = 0;
    return place + frame_header_bytes;
}

// All of it but the message.
inline void write_delivery_header(char* place, uint32_t subscription, uint32_t attempt, uint64_t tag,
                                  size_t message_bytes) {
    place = write_frame_header(place, static_cast<uint32_t>(16 + message_bytes), FrameDeliver);
    std::memcpy(place, &subscription, 4);
    std::memcpy(place + 4, &attempt, 4);
    std::memcpy(place + 8, &tag, 8);
}

inline void write_delivery(char* place, uint32_t subscription, uint32_t attempt, uint64_t tag,
                           std::string_view message) {
    write_delivery_header(place, subscription, attempt, tag, message.size());
    std::memcpy(place + delivery_header_bytes, message.data(), message.size());
}

inline void write_receipts(const std::vector<uint32_t>& receipts, Output& output) {
    const auto count = static_cast<uint32_t>(receipts.size());
    const size_t payload = 4 + 4 * size_t{count};
    char* const place = write_frame_header(output.grow(frame_header_bytes + payload), static_cast<uint32_t>(payload),
                                           FrameReceipts);
    std::memcpy(place, &count, 4);
    std::memcpy(place + 4, receipts.data(), 4 * size_t{count});
}

// A frame whose payload is in two parts.
inline void write_pair(char* place, uint8_t type, std::string_view head, std::string_view tail) {
    place = write_frame_header(place, static_cast<uint32_t>(head.size() + tail.size()), type);
    std::memcpy(place, head.data(), head.size());
    std::memcpy(place + head.size(), tail.data(), tail.size());
}

// A message on its way out.
struct Publication {
    uint32_t publisher;  // its connection, or nobody
    uint32_t attempt;
    int64_t expires_ms;
    std::string_view message;
    uint64_t tag = 0;
    mutable uint8_t rendered = 0;  // for which versions of STOMP its text is at hand, as bits
    mutable uint8_t shared = 0;    // in which forms it is at hand for those that it waits for, as bits
};

}  // namespace tidings
