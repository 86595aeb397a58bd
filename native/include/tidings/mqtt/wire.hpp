// MQTT's types as far as plain PUBLISH and PUBACK packets need them (MQTT 5.0, section 1.5): a cursor that says what it
// cannot read, and the first packet of a run. The plain Python of both is src/tidings/protocols/mqtt/wire.py.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tidings/codec/utf8.hpp"
#include "tidings/support/big_endian.hpp"
#include "tidings/support/scratch.hpp"

namespace tidings {

enum MqttType : uint8_t { MqttPublish = 3, MqttPuback = 4, MqttPubrec = 5 };
enum MqttProperty : uint8_t {
    MqttPayloadFormat = 0x01,
    MqttMessageExpiry = 0x02,
    MqttContentType = 0x03,
    MqttResponseTopic = 0x08,
    MqttCorrelationData = 0x09,
    MqttSubscriptionId = 0x0B,
    MqttTopicAlias = 0x23,
    MqttUserProperty = 0x26
};
inline constexpr uint8_t mqtt_retain = 1, mqtt_qos_shift = 1, mqtt_dup = 8;  // flags of PUBLISH
inline constexpr size_t mqtt_text_bytes_max = 0xFFFF;

// Reads one packet's content. A field that is cut off or longer than it may be makes it bad, for good.
class MqttCursor {
public:
    explicit MqttCursor(std::string_view bytes) : bytes_(bytes) {}

    bool bad() const { return bad_; }
    bool done() const { return at_ == bytes_.size(); }

    template <class T>
    T fixed() {
        const std::string_view raw = take(sizeof(T));
        return bad_ ? T{0} : load_big<T>(raw.data());
    }

    // Of at most four bytes, in its shortest form.
    uint32_t variable() {
        uint32_t value = 0;
        for (unsigned shift = 0; shift < 28; shift += 7) {
            const auto byte = fixed<uint8_t>();
            value |= (byte & 0x7Fu) << shift;
            if (byte < 0x80) {
                bad_ |= byte == 0 && shift != 0;
                return value;
            }
        }
        bad_ = true;
        return 0;
    }

    std::string_view binary() { return take(fixed<uint16_t>()); }

    // UTF-8 without NUL.
    std::string_view text() {
        const std::string_view found = binary();
        bad_ |= utf8_error(found) != utf8_valid || found.find('\0') != found.npos;
        return found;
    }

    std::string_view take(size_t size) {
        if (bad_ || size > bytes_.size() - at_) return bad_ = true, std::string_view{};
        at_ += size;
        return bytes_.substr(at_ - size, size);
    }

    std::string_view rest() { return take(bytes_.size() - at_); }

private:
    std::string_view bytes_;
    size_t at_ = 0;
    bool bad_ = false;
};

struct MqttPacket {
    uint8_t first = 0;  // type and flags
    std::string_view content;
    size_t bytes = 0;  // of all of it
};

// The packet that `data` begins with; nothing: it is incomplete, or its length is malformed.
inline std::optional<MqttPacket> first_mqtt_packet(std::string_view data) {
    if (data.size() < 2) return {};
    MqttCursor cursor(data.substr(1, 4));
    const uint32_t length = cursor.variable();
    if (cursor.bad()) return {};
    const size_t begin = 1 + (length < 1u << 7 ? 1 : length < 1u << 14 ? 2 : length < 1u << 21 ? 3 : 4);
    if (data.size() - begin < length) return {};
    return MqttPacket{static_cast<uint8_t>(data[0]), data.substr(begin, length), begin + length};
}

inline size_t mqtt_variable_bytes(size_t value) {
    return value < 1u << 7 ? 1 : value < 1u << 14 ? 2 : value < 1u << 21 ? 3 : 4;
}

// Returns the place behind it.
inline char* write_mqtt_variable(char* place, size_t value) {
    for (; value >= 0x80; value >>= 7) *place++ = static_cast<char>(value | 0x80);
    *place++ = static_cast<char>(value);
    return place;
}

// Properties of a packet, appended to a string.
class MqttProperties {
public:
    explicit MqttProperties(std::string& out) : out_(out) {}

    void byte(MqttProperty name, uint8_t value) { out_.append({static_cast<char>(name), static_cast<char>(value)}); }

    template <class T>
    void fixed(MqttProperty name, T value) {
        out_.push_back(static_cast<char>(name));
        out_.resize(out_.size() + sizeof value);
        store_big(out_.data() + out_.size() - sizeof value, value);
    }

    void text(MqttProperty name, std::string_view value) {
        out_.push_back(static_cast<char>(name));
        put(value);
    }

    void pair(std::string_view name, std::string_view value) {
        text(MqttUserProperty, name);
        put(value);
    }

    void variable(MqttProperty name, uint32_t value) {
        char raw[5];
        raw[0] = static_cast<char>(name);
        out_.append(raw, write_mqtt_variable(raw + 1, value));
    }

private:
    void put(std::string_view value) {
        out_.push_back(static_cast<char>(value.size() >> 8));
        out_.push_back(static_cast<char>(value.size()));
        out_.append(value);
    }

    std::string& out_;
};

// ---- topic names and destinations (src/tidings/protocols/mqtt/topics.py): levels and dots change places

// False: a name that needs a closer look, for a tilde, a wildcard, an empty level or a character that may not be in it.
inline bool is_plain_topic(std::string_view topic) {
    if (topic.empty() || topic.size() > 1024) return false;
    if (topic[0] == '$' || topic[0] == '/' || topic[0] == '.' || topic.back() == '/') return false;
    char before = 0;
    for (const char c : topic) {
        const auto byte = static_cast<uint8_t>(c);
        if (byte < 0x20 || c == 0x7F || c == '~' || c == '*' || c == '>' || c == '+' || c == '#') return false;
        if (c == '/' && before == '/') return false;
        before = c;
    }
    return utf8_error(topic) == utf8_valid;
}

// The other form of a plain name: of a topic or of a destination.
inline void append_swapped(std::string_view name, std::string& out) {
    const size_t start = out.size();
    out.append(name);
    for (size_t i = start; i < out.size(); ++i)
        if (out[i] == '/') out[i] = '.';
        else if (out[i] == '.') out[i] = '/';
}

// Of a destination: it has a topic name that differs in nothing else.
inline bool is_plain_name(std::string_view name) {
    return name[0] != '$' &&
           std::none_of(name.begin(), name.end(), [](char c) { return c == '~' || c == '+' || c == '#'; });
}

}  // namespace tidings
