// The content of a PUBLISH packet as the bytes of docs/wire.md, if it is a plain one. All others are Python's, and so is
// what is wrong with them: src/tidings/protocols/mqtt/{decode,mapping}.py are the reference, and say the same of the plain ones.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/codec/writer.hpp"
#include "tidings/mqtt/wire.hpp"

namespace tidings {

inline constexpr std::string_view mqtt_qos = "JMSXMqttQoS", mqtt_format = "JMSXMqttFormat", mqtt_user = "JMSXMqttUser",
                                  mqtt_content_type = "content-type", mqtt_retained = "JMSXRetain",
                                  mqtt_amqp = "JMSXAmqp", mqtt_binary_id = "ID:AMQP_BINARY:";

// A property that is a field with MQTT, or kept for it or another protocol.
inline bool is_mqtt_own(std::string_view name) {
    return name == mqtt_qos || name == mqtt_format || name == mqtt_user || name == mqtt_content_type ||
           name == mqtt_retained || name == mqtt_amqp;
}

class MqttMessageReader {
public:
    static constexpr size_t aliases_max = 64;

    uint16_t packet_id = 0;  // of the packet read last

    // Topics by alias, from 1 on; empty: there is none.
    std::string_view alias(size_t number) const {
        return number && number <= aliases_.size() ? std::string_view(aliases_[number - 1]) : std::string_view{};
    }
    void set_alias(size_t number, std::string_view topic) {
        if (aliases_.size() < number) aliases_.resize(number);
        aliases_[number - 1] = topic;
    }

    // Appends the message without an id, whose time will be `ms`. False: it is not a plain one, and nothing has changed.
    bool read(std::string_view content, uint8_t flags, bool v5, int64_t ms, std::string& out) {
        const uint8_t qos = flags >> mqtt_qos_shift & 3;
        if (qos > 1 || (flags & mqtt_dup && !qos)) return false;
        flags &= static_cast<uint8_t>(~mqtt_dup);
        MqttCursor cursor(content);
        const std::string_view name = cursor.binary();
        packet_id = qos ? cursor.fixed<uint16_t>() : uint16_t{0};
        const std::string_view properties = v5 ? cursor.take(cursor.variable()) : std::string_view{};
        if (cursor.bad() || (qos && !packet_id)) return false;
        const std::string_view body = cursor.rest();
        if (!is_same(name, properties, flags)) {
            forget();
            if (!read_properties(properties, v5) || !find_topic(name)) return false;
            if (text_body_ && utf8_error(body) != utf8_valid) return forget(), false;
            keep(name, properties, flags, ms);
        } else if (text_body_ && utf8_error(body) != utf8_valid) {
            return false;
        }
        if (alias_ && !name.empty()) set_alias(alias_, name);
        out.append(head_).append(body);
        if (expires_) forget();
        return true;
    }

private:
    static constexpr size_t attributes_max = 64;
    struct Pair {
        std::string_view name, value;
    };

    // Many messages are the same as the one before but for packet id and body: what is before it becomes the same again.
    bool is_same(std::string_view name, std::string_view properties, uint8_t flags) const {
        if (head_.empty() || flags != flags_ || name != name_ || properties != properties_) return false;
        return !alias_ || !name.empty() || alias(alias_) == topic_;
    }

    void forget() { head_.clear(); }

    void keep(std::string_view name, std::string_view properties, uint8_t flags, int64_t ms) {
        write(flags, ms);
        name_ = name;
        properties_ = properties;
        flags_ = flags;
    }

    // From name or alias.
    bool find_topic(std::string_view name) {
        const std::string_view topic = name.empty() ? alias(alias_) : name;
        if (!is_plain_topic(topic)) return false;
        topic_ = topic;
        destination_.clear();
        append_swapped(topic, destination_);
        return true;
    }

    bool read_properties(std::string_view properties, bool v5) {
        alias_ = 0;
        text_body_ = expires_ = has_correlation_ = has_content_type_ = false;
        response_ = {};
        pairs_.clear();
        uint64_t seen = 0;
        MqttCursor cursor(properties);
        while (v5 && !cursor.done()) {
            const auto name = cursor.fixed<uint8_t>();
            if (name > MqttUserProperty || (name != MqttUserProperty && seen >> name & 1)) return false;
            seen |= uint64_t{1} << name;
            if (!read_property(cursor, name) || cursor.bad()) return false;
        }
        return true;
    }

    bool read_property(MqttCursor& cursor, uint8_t name) {
        switch (name) {
            case MqttPayloadFormat: {
                const auto format = cursor.fixed<uint8_t>();
                text_body_ = format == 1;
                return format <= 1;
            }
            case MqttMessageExpiry: expires_ = true, expiry_s_ = cursor.fixed<uint32_t>(); return true;
            case MqttContentType: has_content_type_ = true, content_type_ = cursor.text(); return true;
            case MqttResponseTopic: response_ = cursor.binary(); return is_plain_topic(response_);
            case MqttCorrelationData:
                has_correlation_ = true;
                correlation_ = cursor.binary();
                return utf8_error(correlation_) == utf8_valid && !correlation_.starts_with(mqtt_binary_id);
            case MqttTopicAlias: alias_ = cursor.fixed<uint16_t>(); return alias_ && alias_ <= aliases_max;
            case MqttUserProperty: {
                const std::string_view key = cursor.text(), value = cursor.text();
                if (cursor.bad() || pairs_.size() == attributes_max || !is_name(key)) return false;
                pairs_.push_back({key, value});
                return true;
            }
            default: return false;
        }
    }

    bool is_name(std::string_view name) const {
        if (name.empty() || name.size() > 255 || name[0] == '@' || is_mqtt_own(name)) return false;
        if (name.starts_with("JMS") && !name.starts_with("JMSX")) return false;
        return std::none_of(pairs_.begin(), pairs_.end(), [&](const Pair& one) { return one.name == name; });
    }

    void write(uint8_t flags, int64_t ms) {
        const uint8_t qos = flags >> mqtt_qos_shift & 3;
        static constexpr char no_id[16] = {};
        MessageWriter writer(head_);
        writer.begin(static_cast<uint8_t>((qos ? MessageView::Persistent : 0) | (expires_ ? MessageView::Expires : 0)),
                     4, {no_id, sizeof no_id}, destination_);
        if (has_correlation_) writer.attribute("JMSCorrelationID", Value::string(correlation_));
        if (!response_.empty()) {
            text_ = "topic:";
            append_swapped(response_, text_);
            writer.attribute("JMSReplyTo", Value::string(text_));
        }
        if (expires_) writer.attribute("JMSExpiration", Value::integer(ms + int64_t{1000} * expiry_s_));
        for (const Pair& one : pairs_) writer.attribute(one.name, Value::text(one.value));
        if (qos == 1) writer.attribute(mqtt_qos, Value::integer(1));
        if (flags & mqtt_retain) writer.attribute(mqtt_retained, Value::boolean(true));
        if (text_body_) writer.attribute(mqtt_format, Value::integer(1));
        if (has_content_type_) writer.attribute(mqtt_content_type, Value::string(content_type_));
        writer.finish({});
    }

    std::vector<std::string> aliases_;

    // Of the packet before: what it was, and what that became but for id and body. Empty: nothing is kept.
    std::string head_, name_, properties_;
    uint8_t flags_ = 0;

    uint16_t alias_ = 0;
    bool text_body_ = false, expires_ = false, has_correlation_ = false, has_content_type_ = false;
    uint32_t expiry_s_ = 0;
    std::string_view content_type_, response_, correlation_;
    std::vector<Pair> pairs_;
    std::string topic_, destination_, text_;
};

}  // namespace tidings
