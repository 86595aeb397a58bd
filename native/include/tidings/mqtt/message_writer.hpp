// A message as what its PUBLISH packet says: topic, QoS, properties, payload. Messages whose texts are not the same there
// are Python's (src/tidings/protocols/mqtt/mapping.py), which says the same of the others.
#pragma once
#include <charconv>
#include <string>
#include <string_view>

#include "tidings/codec/message_reader.hpp"
#include "tidings/mqtt/message_reader.hpp"

namespace tidings {

class MqttMessageWriter {
public:
    // Of the message read last.
    std::string_view topic() const { return topic_; }
    std::string_view properties() const { return properties_; }  // without those of the subscription and the connection
    std::string_view body() const { return body_; }
    uint8_t qos() const { return qos_; }  // that it was published with; 2 also of persistent ones of other protocols
    bool retained() const { return retained_; }

    // `message` has been checked before. False: it is Python's.
    bool read(std::string_view message, bool v5, int64_t now_ms) {
        if (is_same(message)) return body_ = message.substr(head_.size()), true;
        head_.clear();
        v5_ = v5;
        if (!read_all(message, now_ms)) return false;
        const size_t head = message.size() - body_.size();
        if (!(v5 && expires_) && head <= head_bytes_max) head_ = message.substr(0, head);
        return true;
    }

private:
    static constexpr size_t id_at = 4, id_end = 20, head_bytes_max = 4096;

    // Many messages are the same as the one before but for id and body.
    bool is_same(std::string_view message) const {
        if (head_.empty() || message.size() < head_.size()) return false;
        const std::string_view head = head_;
        return message.substr(0, id_at) == head.substr(0, id_at) &&
               message.substr(id_end, head.size() - id_end) == head.substr(id_end);
    }

    bool read_all(std::string_view message, int64_t now_ms) {
        Reader reader(message);
        reader.u8();
        const uint8_t flags = reader.u8(), priority = reader.u8();
        reader.u8();
        reader.bytes(16);
        const uint16_t count = reader.u16(), destination_bytes = reader.u16();
        reader.u32();
        const std::string_view destination = reader.bytes(destination_bytes);
        if (flags & MessageView::Queue || !is_plain_name(destination)) return false;
        topic_.clear();
        append_swapped(destination, topic_);
        begin(flags, priority);
        for (uint16_t i = 0; i < count; ++i)
            if (!read_attribute(reader)) return false;
        body_ = reader.rest();
        if (v5_) write(now_ms);
        return true;
    }

    void begin(uint8_t flags, uint8_t priority) {
        qos_ = flags & MessageView::Persistent ? 2 : 0;
        expires_ = (flags & MessageView::Expires) != 0;
        priority_ = priority;
        retained_ = has_type_ = has_correlation_ = has_content_type_ = has_format_ = false;
        response_ = {};
        pairs_.clear();
    }

    bool read_attribute(Reader& reader) {
        const std::string_view name = reader.bytes(reader.u8());
        Value value;
        read_checked(reader, value);
        const HeaderField field = name[0] == 'J' ? header_field(name) : NoHeaderField;
        if (field != NoHeaderField) return read_header(field, value);
        if (name == mqtt_qos) return read_qos(value);
        if (name == mqtt_retained) return read_retained(value);
        if (!v5_) return true;
        if (name == mqtt_amqp) return true;
        if (name == mqtt_user) return false;
        if (name == mqtt_format) {
            has_format_ = value.type == Type::Int && value.i == 1;
            return value.type == Type::Int || is_text(value);
        }
        if (name == mqtt_content_type) {
            has_content_type_ = is_text(value);
            content_type_ = value.s;
            return !has_content_type_ || is_short(value.s);
        }
        return read_pair(name, value);
    }

    static bool is_text(const Value& value) { return value.type == Type::String || value.type == Type::Text; }
    static bool is_short(std::string_view text) {
        return text.size() <= mqtt_text_bytes_max && text.find('\0') == text.npos;
    }

    bool read_qos(const Value& value) {
        if (value.type != Type::Int && !is_text(value)) return false;  // which Python compares as numbers
        if (value.type == Type::Int && value.i == 1 && qos_) qos_ = 1;
        return true;
    }

    bool read_retained(const Value& value) {
        if (value.type == Type::Bool) retained_ = value.i != 0;
        else if (is_text(value)) retained_ = value.s.size() == 4 && detail::read_boolean(value.s).has_value();
        return true;
    }

    bool read_header(HeaderField field, const Value& value) {
        if (!v5_) return true;
        switch (field) {
            case CorrelationId:
                has_correlation_ = true;
                correlation_ = value.s;
                return correlation_.size() <= mqtt_text_bytes_max && !correlation_.starts_with(mqtt_binary_id);
            case JmsType:
                has_type_ = true;
                type_ = value.s;
                return is_short(type_);
            case ReplyTo:
                if (value.s.starts_with("queue:")) return true;
                response_ = value.s.substr(6);
                return is_plain_name(response_);
            case Expiration: expires_ms_ = value.i; return true;
            default: return true;
        }
    }

    bool read_pair(std::string_view name, const Value& value) {
        if (value.type == Type::Float || value.type == Type::Bytes) return false;
        if (is_text(value) && !is_short(value.s)) return false;
        if (name.find('\0') != name.npos) return false;
        pairs_.emplace_back(name, value);
        return true;
    }

    // In the order of Python.
    void write(int64_t now_ms) {
        properties_.clear();
        MqttProperties out(properties_);
        if (has_format_) out.byte(MqttPayloadFormat, 1);
        if (expires_) {
            const int64_t left_s = (expires_ms_ - now_ms + 999) / 1000;
            out.fixed(MqttMessageExpiry, static_cast<uint32_t>(std::clamp<int64_t>(left_s, 0, UINT32_MAX)));
        }
        if (has_content_type_) out.text(MqttContentType, content_type_);
        if (!response_.empty()) {
            text_.clear();
            append_swapped(response_, text_);
            out.text(MqttResponseTopic, text_);
        }
        if (has_correlation_) out.text(MqttCorrelationData, correlation_);
        for (const auto& [name, value] : pairs_) write_pair(out, name, value);
        if (has_type_) out.pair("JMSType", type_);
        if (priority_ != 4) write_pair(out, "JMSPriority", Value::integer(priority_));
    }

    static void write_pair(MqttProperties& out, std::string_view name, const Value& value) {
        char digits[24];
        if (value.type == Type::Bool) return out.pair(name, value.i ? "true" : "false");
        if (value.type != Type::Int) return out.pair(name, value.s);
        const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value.i);
        out.pair(name, {digits, end});
    }

    // Of the message before: all but its body. Empty: nothing is kept.
    std::string head_;

    std::string topic_, properties_, text_;
    std::string_view body_, content_type_, response_, correlation_, type_;
    uint8_t qos_ = 0, priority_ = 4;
    bool v5_ = false, retained_ = false, expires_ = false, has_type_ = false, has_correlation_ = false,
         has_content_type_ = false, has_format_ = false;
    int64_t expires_ms_ = 0;
    std::vector<std::pair<std::string_view, Value>> pairs_;
};

}  // namespace tidings
