// A message that comes by AMQP, as the bytes of docs/wire.md, if it is a plain one: sections that follow from our
// fields, or are kept beside them as they came (annotations, an address, integers of other widths). All others are Python's, and so is what is wrong with them:
// src/tidings/protocols/amqp/message.py is the reference, and says the same of the plain ones.
#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "tidings/amqp/wire.hpp"
#include "tidings/codec/message_reader.hpp"
#include "tidings/codec/writer.hpp"

namespace tidings {

// In which form a body came, as the first bits of the id's publisher say it.
enum class AmqpForm : uint8_t { OtherProtocol, Data, Text, Binary, Kept };
inline constexpr unsigned amqp_form_shift = 29;

// Sections and, in the properties section, fields.
enum AmqpSection : uint8_t {
    AmqpHeader = 0x70,
    AmqpDeliveryAnnotations = 0x71,
    AmqpMessageAnnotations = 0x72,
    AmqpProperties = 0x73,
    AmqpApplicationProperties = 0x74,
    AmqpData = 0x75,
    AmqpValueSection = 0x77
};
enum AmqpField : uint8_t {
    AmqpMessageId,
    AmqpUserId,
    AmqpTo,
    AmqpSubject,
    AmqpReplyTo,
    AmqpCorrelationId,
    AmqpContentType,
    AmqpContentEncoding,
    AmqpExpiry,
    AmqpCreation,
    AmqpGroupId,
    AmqpGroupSequence,
    AmqpReplyToGroup,
    AmqpFields
};

inline constexpr std::string_view amqp_kept = "JMSXAmqp", amqp_message_id = "JMSXMessageID",
                                  amqp_user_id = "JMSXUserID", amqp_content_type = "content-type",
                                  amqp_group_id = "JMSXGroupID", amqp_group_sequence = "JMSXGroupSeq";
inline constexpr std::string_view amqp_delay = "x-opt-delivery-delay", amqp_delivery_time = "x-opt-delivery-time";
inline constexpr std::string_view amqp_id_prefix = "ID:AMQP_", amqp_ulong_prefix = "ID:AMQP_ULONG:";

// A property that is a field with AMQP, or kept for it.
inline bool is_amqp_own(std::string_view name) {
    return name == amqp_kept || name == amqp_message_id || name == amqp_user_id || name == amqp_content_type ||
           name == amqp_group_id || name == amqp_group_sequence;
}

class AmqpMessageReader {
public:
    // Appends the message without an id. Nothing: it is not a plain one, and `out` is as it was.
    std::optional<AmqpForm> read(std::string_view content, std::string_view destination, bool queue, int64_t now_ms,
                                 std::string& out) {
        if (read_same(content, destination, queue, out)) return form_;
        begin();
        if (!read_sections(content)) return {};
        const size_t start = out.size();
        write(destination, queue, now_ms, out);
        keep(content, {out.data() + start, out.size() - start}, destination, queue);
        return form_;
    }

private:
    static constexpr size_t properties_max = 64, text_bytes_max = 4096, head_bytes_max = 4096;
    struct Property {
        std::string_view name;
        Value value;
    };

    // Many messages are the same as the one before but for the body: what is before it becomes the same again.
    bool read_same(std::string_view content, std::string_view destination, bool queue, std::string& out) {
        if (head_.empty() || queue != queue_ || destination != destination_ || !content.starts_with(head_))
            return false;
        AmqpCursor cursor(content.substr(head_.size()));
        const uint8_t section = cursor.descriptor();
        const AmqpItem item = cursor.next();
        if (!cursor.done() || (section != AmqpData && section != AmqpValueSection)) return false;
        form_ = AmqpForm::OtherProtocol;
        if (!read_section(section, item)) return false;
        out.append(message_head_).append(body_);
        return true;
    }

    void keep(std::string_view content, std::string_view message, std::string_view destination, bool queue) {
        head_.clear();
        if (ttl_ms_ || body_at_ == 0 || body_at_ > head_bytes_max) return;
        head_ = content.substr(0, body_at_);
        message_head_ = message.substr(0, message.size() - body_.size());
        destination_ = destination;
        queue_ = queue;
    }

    void begin() {
        form_ = AmqpForm::OtherProtocol;
        persistent_ = false;
        priority_ = 4;
        ttl_ms_ = 0;
        fields_.fill({AmqpKind::Null});
        count_ = 0;
        body_ = {};
        same_fields_ = exact_ = true;
        kept_.clear();
    }

    // In their order, each once at most, and one body.
    bool read_sections(std::string_view content) {
        AmqpCursor cursor(content);
        uint8_t before = 0;
        while (!cursor.done()) {
            const uint8_t section = cursor.descriptor();
            if (section <= before || form_ != AmqpForm::OtherProtocol) return false;
            before = section;
            body_at_ = cursor.position() - 3;
            const AmqpItem item = cursor.next();
            if (!read_section(section, item)) return false;
            keep_section(section, content.substr(body_at_, cursor.position() - body_at_));
        }
        return form_ != AmqpForm::OtherProtocol;
    }

    // In the order in which Python keeps them.
    void keep_section(uint8_t section, std::string_view raw) {
        const bool kept = section == AmqpMessageAnnotations || (section == AmqpProperties && !same_fields_) ||
                          (section == AmqpApplicationProperties && !exact_);
        if (kept) kept_.append(raw);
    }

    bool read_section(uint8_t section, const AmqpItem& item) {
        switch (section) {
            case AmqpMessageAnnotations: return item.kind == AmqpKind::Map && item.count && is_simple(item);
            case AmqpHeader: return item.kind == AmqpKind::List && read_header(item);
            case AmqpProperties: return item.kind == AmqpKind::List && read_fields(item);
            case AmqpApplicationProperties: return item.kind == AmqpKind::Map && read_properties(item);
            case AmqpData: form_ = AmqpForm::Data; break;
            case AmqpValueSection: form_ = item.kind == AmqpKind::String ? AmqpForm::Text : AmqpForm::Binary; break;
            default: return false;
        }
        body_ = item.text;
        return form_ == AmqpForm::Text ? is_text(body_) : item.kind == AmqpKind::Binary;
    }

    bool read_header(const AmqpItem& list) {
        if (list.count > 5) return false;
        AmqpCursor cursor(list.text);
        for (uint32_t i = 0; i < list.count; ++i) {
            const AmqpItem item = cursor.next();
            if (item.kind == AmqpKind::Null) continue;
            if (item.kind == AmqpKind::Other) return false;
            if (i == 0) persistent_ = item.kind == AmqpKind::Bool && item.number;
            if (i == 1 && (item.kind != AmqpKind::Ubyte || item.number > 9)) return false;
            if (i == 1) priority_ = static_cast<uint8_t>(item.number);
            if (i == 2 && item.kind != AmqpKind::Uint) return false;
            if (i == 2) ttl_ms_ = static_cast<uint32_t>(item.number);
            if (i > 2 && item.kind != AmqpKind::Bool && item.kind != AmqpKind::Uint) return false;
            if (i == 3 && !item.number) return false;  // not the first acquirer: Python keeps the section
        }
        return cursor.done();
    }

    bool read_fields(const AmqpItem& list) {
        if (list.count > AmqpFields) return false;
        AmqpCursor cursor(list.text);
        for (uint32_t i = 0; i < list.count; ++i) {
            fields_[i] = cursor.next();
            if (is_kept(static_cast<AmqpField>(i), fields_[i])) same_fields_ = false;
            else if (!is_plain(static_cast<AmqpField>(i), fields_[i])) return false;
        }
        return cursor.done();
    }

    // True if our message has nothing of the field, which is of the right type.
    static bool is_kept(AmqpField field, const AmqpItem& item) {
        switch (field) {
            case AmqpTo:
            case AmqpReplyToGroup: return item.kind == AmqpKind::String && is_text(item.text);
            case AmqpContentEncoding: return item.kind == AmqpKind::Symbol && is_ascii_text(item.text);
            default: return false;
        }
    }

    // Symbols with scalar values; what asks for a later delivery is Python's.
    static bool is_simple(const AmqpItem& map) {
        if (map.count % 2) return false;
        AmqpCursor cursor(map.text);
        for (uint32_t i = 0; i < map.count; i += 2) {
            const AmqpItem name = cursor.next(), value = cursor.next();
            if (name.kind != AmqpKind::Symbol || !is_ascii_text(name.text)) return false;
            if (name.text == amqp_delay || name.text == amqp_delivery_time) return false;
            if (value.kind >= AmqpKind::List) return false;
            if (value.kind == AmqpKind::Symbol && !is_ascii_text(value.text)) return false;
            if (value.kind == AmqpKind::String && !is_text(value.text)) return false;
        }
        return cursor.done();
    }

    // True if the field comes back as it was from what our message has of it.
    static bool is_plain(AmqpField field, const AmqpItem& item) {
        if (item.kind == AmqpKind::Null) return true;
        const bool text = item.kind == AmqpKind::String && is_text(item.text);
        switch (field) {
            case AmqpMessageId:
            case AmqpCorrelationId:
                return item.kind == AmqpKind::Ulong || (text && !item.text.starts_with(amqp_id_prefix));
            case AmqpUserId: return item.kind == AmqpKind::Binary && item.text.size() <= text_bytes_max;
            case AmqpSubject:
            case AmqpGroupId: return text;
            case AmqpReplyTo:
                return text && (item.text.starts_with("queue://") || item.text.starts_with("topic://")) &&
                       is_destination(item.text.substr(8));
            case AmqpContentType: return item.kind == AmqpKind::Symbol && is_ascii_text(item.text);
            case AmqpCreation: return item.kind == AmqpKind::Timestamp && static_cast<int64_t>(item.number) >= 0;
            case AmqpGroupSequence: return item.kind == AmqpKind::Uint;
            default: return false;
        }
    }

    bool read_properties(const AmqpItem& map) {
        if (map.count % 2 || map.count > 2 * properties_max) return false;
        AmqpCursor cursor(map.text);
        for (uint32_t i = 0; i < map.count; i += 2) {
            const AmqpItem name = cursor.next(), value = cursor.next();
            if (name.kind != AmqpKind::String || !is_name(name.text)) return false;
            Property& property = properties_[count_++];
            property.name = name.text;
            if (!read_value(value, property.value)) return false;
        }
        return cursor.done();
    }

    bool is_name(std::string_view name) const {
        if (name.empty() || name.size() > 255 || name[0] == '@' || !is_text(name) || is_amqp_own(name)) return false;
        if (name.starts_with("JMS") && !name.starts_with("JMSX")) return false;
        return std::none_of(properties_.begin(), properties_.begin() + static_cast<ptrdiff_t>(count_),
                            [&](const Property& one) { return one.name == name; });
    }

    bool read_value(const AmqpItem& item, Value& value) {
        switch (item.kind) {
            case AmqpKind::Small:
            case AmqpKind::Ubyte:
            case AmqpKind::Uint:
                exact_ = false;
                value = Value::integer(static_cast<int64_t>(item.number));
                return true;
            case AmqpKind::Bool: value = Value::boolean(item.number != 0); return true;
            case AmqpKind::Long: value = Value::integer(static_cast<int64_t>(item.number)); return true;
            case AmqpKind::Double: {
                value = Value::real(std::bit_cast<double>(item.number));
                return value.d == value.d && (value.d != 0 || !std::signbit(value.d));
            }
            case AmqpKind::String: value = Value::string(item.text); return is_text(item.text);
            case AmqpKind::Binary: value = Value::bytes(item.text); return item.text.size() <= text_bytes_max;
            default: return false;
        }
    }

    static bool is_text(std::string_view text) { return utf8_error(text) == utf8_valid; }
    static bool is_ascii_text(std::string_view text) { return is_ascii(text.data(), text.size()); }

    void write(std::string_view destination, bool queue, int64_t now_ms, std::string& out) {
        const int flags = persistent_ * MessageView::Persistent | queue * MessageView::Queue |
                          (ttl_ms_ != 0) * MessageView::Expires;
        static constexpr char no_id[16] = {};
        MessageWriter writer(out);
        writer.begin(static_cast<uint8_t>(flags), priority_, {no_id, sizeof no_id}, destination);
        if (const AmqpItem& one = fields_[AmqpCorrelationId]; one.kind != AmqpKind::Null)
            writer.attribute("JMSCorrelationID", Value::string(id_text(one)));
        if (const AmqpItem& one = fields_[AmqpSubject]; one.kind != AmqpKind::Null)
            writer.attribute("JMSType", Value::string(one.text));
        if (const AmqpItem& one = fields_[AmqpReplyTo]; one.kind != AmqpKind::Null) {
            text_.assign(one.text.starts_with("queue") ? "queue:" : "topic:").append(one.text.substr(8));
            writer.attribute("JMSReplyTo", Value::string(text_));
        }
        if (const AmqpItem& one = fields_[AmqpCreation]; one.kind != AmqpKind::Null)
            writer.attribute("JMSTimestamp", Value::integer(static_cast<int64_t>(one.number)));
        if (ttl_ms_) writer.attribute("JMSExpiration", Value::integer(now_ms + ttl_ms_));
        for (size_t i = 0; i < count_; ++i) writer.attribute(properties_[i].name, properties_[i].value);
        write_own(writer);
        writer.finish(body_);
    }

    void write_own(MessageWriter& writer) {
        if (const AmqpItem& one = fields_[AmqpMessageId]; one.kind != AmqpKind::Null)
            writer.attribute(amqp_message_id, Value::string(id_text(one)));
        if (const AmqpItem& one = fields_[AmqpUserId]; one.kind != AmqpKind::Null)
            writer.attribute(amqp_user_id, is_text(one.text) ? Value::string(one.text) : Value::bytes(one.text));
        if (const AmqpItem& one = fields_[AmqpContentType]; one.kind != AmqpKind::Null)
            writer.attribute(amqp_content_type, Value::string(one.text));
        if (const AmqpItem& one = fields_[AmqpGroupId]; one.kind != AmqpKind::Null)
            writer.attribute(amqp_group_id, Value::string(one.text));
        if (const AmqpItem& one = fields_[AmqpGroupSequence]; one.kind != AmqpKind::Null)
            writer.attribute(amqp_group_sequence, Value::integer(static_cast<int64_t>(one.number)));
        if (!kept_.empty()) writer.attribute(amqp_kept, Value::bytes(kept_));
    }

    std::string_view id_text(const AmqpItem& item) {
        if (item.kind == AmqpKind::String) return item.text;
        char digits[24];
        const auto [end, error] = std::to_chars(digits, digits + sizeof digits, item.number);
        return text_.assign(amqp_ulong_prefix).append(digits, end);
    }

    AmqpForm form_ = AmqpForm::OtherProtocol;  // until there is a body
    bool persistent_ = false;
    uint8_t priority_ = 4;
    uint32_t ttl_ms_ = 0;
    std::array<AmqpItem, AmqpFields> fields_;
    std::array<Property, properties_max> properties_;
    size_t count_ = 0;
    std::string_view body_;
    std::string text_;
    bool same_fields_ = true, exact_ = true;  // properties and application properties come back as they were
    std::string kept_;                        // sections as they came
    size_t body_at_ = 0;                      // where the last section begins

    // Of the message before: what is before its body, and what that became. Empty: nothing is kept.
    std::string head_, message_head_, destination_;
    bool queue_ = false;
};

}  // namespace tidings
