// A message as AMQP's sections, if none of them must be restored from what was kept of it: those are Python's
// (src/tidings/protocols/amqp/message.py), which writes the same bytes for the others.
#pragma once
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "tidings/amqp/message_reader.hpp"
#include "tidings/amqp/wire.hpp"
#include "tidings/codec/message_reader.hpp"

namespace tidings {

class AmqpMessageWriter {
public:
    // Appends the sections to `out`; false: it is Python's, and `out` is as it was. `message` has been checked before.
    // `says_destination`: in the delivery annotations.
    bool write(std::string_view message, uint32_t attempt, int64_t now_ms, bool says_destination, Scratch& out) {
        const size_t start = out.size();
        if (!write_same(message, attempt, says_destination, out)) {
            kept_.clear();
            if (!read(message) || !write_head(attempt, now_ms, says_destination, out)) return out.cut(start), false;
            keep(message, attempt, says_destination, std::string_view(out).substr(start));
        }
        write_body(out);
        return true;
    }

private:
    struct Held {
        bool is = false;
        Value value;
    };

    // Many messages are the same as the one before but for id and body: what is before the body is written again.
    bool write_same(std::string_view message, uint32_t attempt, bool says_destination, Scratch& out) {
        if (kept_.empty() || attempt != attempt_ || says_destination != says_destination_) return false;
        if (message.size() < kept_.size() || message.substr(0, 4) != std::string_view(kept_).substr(0, 4)) return false;
        if ((message[4] ^ kept_[4]) & 0xE0) return false;  // the form
        if (message.substr(id_end, kept_.size() - id_end) != std::string_view(kept_).substr(id_end)) return false;
        body_ = message.substr(kept_.size());
        if (form_ == AmqpForm::Text && utf8_error(body_) != utf8_valid) return false;
        out.put(sections_);
        return true;
    }

    // What depends on time or id is not kept.
    void keep(std::string_view message, uint32_t attempt, bool says_destination, std::string_view sections) {
        if (form_ == AmqpForm::OtherProtocol || headers_[Expiration].is) return;
        kept_ = message.substr(0, message.size() - body_.size());
        if (kept_.size() > kept_bytes_max) return kept_.clear();
        sections_ = sections;
        attempt_ = attempt;
        says_destination_ = says_destination;
    }

    bool write_head(uint32_t attempt, int64_t now_ms, bool says_destination, Scratch& out) {
        AmqpWriter writer(out);
        write_header(writer, attempt, now_ms);
        if (says_destination) write_annotations(writer);
        const size_t bare = out.size();
        out.put(kept_annotations_);
        if (!kept_fields_.empty()) out.put(kept_fields_);
        else if (!write_fields(writer)) return false;
        if (!kept_application_.empty()) {
            out.put(kept_application_);
        } else if (application_count_) {
            writer.described(AmqpApplicationProperties);
            writer.compound(0xC1, application_, 2 * application_count_);
        }
        return kept_sections_.empty() || says_the_same(out, bare);
    }

    // What was kept counts only if it says what the message itself says.
    bool says_the_same(Scratch& out, size_t bare) {
        const size_t end = out.size();
        write_body(out);
        again_.clear();
        const bool queue = flags_ & MessageView::Queue;
        const auto form = reader_.read(std::string_view(out).substr(bare), destination_, queue, 0, again_);
        out.cut(end);
        return form == form_ && std::string_view(again_).substr(said_at) == message_.substr(said_at);
    }

    // The kept sections, each once and in order; false: others.
    bool read_kept(std::string_view raw) {
        kept_sections_ = raw;
        AmqpCursor cursor(raw);
        uint8_t before = 0;
        while (!cursor.done()) {
            const size_t start = cursor.position();
            const uint8_t section = cursor.descriptor();
            const AmqpItem item = cursor.next();
            if (section <= before || item.kind == AmqpKind::Other || !item.count) return false;
            before = section;
            const std::string_view one = raw.substr(start, cursor.position() - start);
            if (section == AmqpMessageAnnotations) kept_annotations_ = one;
            else if (section == AmqpProperties) kept_fields_ = one;
            else if (section == AmqpApplicationProperties) kept_application_ = one;
            else return false;
        }
        return !raw.empty();
    }

    void write_body(Scratch& out) {
        AmqpWriter writer(out);
        if (form_ == AmqpForm::Text || form_ == AmqpForm::Binary) {
            writer.described(AmqpValueSection);
            if (form_ == AmqpForm::Text) writer.string(body_);
            else writer.binary(body_);
        } else {
            writer.described(AmqpData);
            writer.binary(body_);
        }
    }

    // False: of a kind that is Python's.
    bool read(std::string_view message) {
        Reader reader(message);
        reader.u8();
        flags_ = reader.u8();
        priority_ = reader.u8();
        reader.u8();
        id_ = reader.bytes(16);
        const auto number = static_cast<uint8_t>(static_cast<uint8_t>(id_[0]) >> 5);
        if (number >= static_cast<uint8_t>(AmqpForm::Kept)) return false;
        form_ = static_cast<AmqpForm>(number);
        const uint16_t count = reader.u16(), destination_bytes = reader.u16();
        reader.u32();
        destination_ = reader.bytes(destination_bytes);
        headers_.fill({});
        own_.fill({});
        application_.clear();
        application_count_ = 0;
        message_ = message;
        kept_sections_ = kept_annotations_ = kept_fields_ = kept_application_ = {};
        for (uint16_t i = 0; i < count; ++i)
            if (!read_attribute(reader)) return false;
        body_ = reader.rest();
        return form_ != AmqpForm::Text || utf8_error(body_) == utf8_valid;
    }

    bool read_attribute(Reader& reader) {
        const std::string_view name = reader.bytes(reader.u8());
        Value value;
        read_checked(reader, value);
        const HeaderField field = name[0] == 'J' ? header_field(name) : NoHeaderField;
        if (field != NoHeaderField) {
            headers_[field] = {true, value};
            return true;
        }
        const int own = own_field(name);
        if (own == kept) return form_ != AmqpForm::OtherProtocol && value.type == Type::Bytes && read_kept(value.s);
        if (own >= 0 && take_own(own, value)) return true;
        if (own >= 0 && form_ != AmqpForm::OtherProtocol) return false;
        AmqpWriter writer(application_);
        writer.string(name);
        writer.value(value);
        ++application_count_;
        return true;
    }

    static constexpr int kept = AmqpFields;
    static int own_field(std::string_view name) {
        if (name[0] == 'c') return name == amqp_content_type ? static_cast<int>(AmqpContentType) : -1;
        if (!name.starts_with("JMSX")) return -1;
        if (name == amqp_message_id) return AmqpMessageId;
        if (name == amqp_user_id) return AmqpUserId;
        if (name == amqp_group_id) return AmqpGroupId;
        if (name == amqp_group_sequence) return AmqpGroupSequence;
        return name == amqp_kept ? kept : -1;
    }

    // True if the field can hold the value.
    bool take_own(int field, const Value& value) {
        const bool text = value.type == Type::String || value.type == Type::Text;
        switch (field) {
            case AmqpMessageId:  // one from elsewhere is a property
                if (!text || form_ == AmqpForm::OtherProtocol) return false;
                break;
            case AmqpUserId:
                if (!text && value.type != Type::Bytes) return false;
                break;
            case AmqpContentType:
                if (!text || !is_ascii(value.s.data(), value.s.size())) return false;
                break;
            case AmqpGroupId:
                if (!text) return false;
                break;
            default: return take_sequence(value);
        }
        own_[static_cast<size_t>(field)] = {true, value};
        return true;
    }

    bool take_sequence(const Value& value) {
        int64_t number = value.i;
        if (value.type == Type::Text) {
            const char* const end = value.s.data() + value.s.size();
            const auto [stop, error] = std::from_chars(value.s.data(), end, number);
            if (value.s.empty() || error != std::errc{} || stop != end) return false;
            if (value.s[0] == '-' || (value.s[0] == '0' && value.s.size() > 1)) return false;
        } else if (value.type != Type::Int) {
            return false;
        }
        if (number < 0 || number > UINT32_MAX) return false;
        own_[AmqpGroupSequence] = {true, Value::integer(number)};
        return true;
    }

    void write_header(AmqpWriter& writer, uint32_t attempt, int64_t now_ms) {
        fields_.clear();
        AmqpWriter fields(fields_);
        fields.boolean(flags_ & MessageView::Persistent);
        fields.ubyte(priority_);
        if (const Held& one = headers_[Expiration]; one.is) {
            const int64_t left_ms = one.value.i - now_ms;
            fields.uint(static_cast<uint32_t>(std::clamp<int64_t>(left_ms, 1, UINT32_MAX)));
        } else {
            fields.null();
        }
        fields.boolean(attempt == 1);
        fields.uint(attempt - 1);
        writer.described(AmqpHeader);
        writer.compound(0xC0, fields_, 5);
    }

    void write_annotations(AmqpWriter& writer) {
        fields_.clear();
        AmqpWriter fields(fields_);
        fields.symbol("x-opt-destination");
        address_.assign(flags_ & MessageView::Queue ? "queue://" : "topic://").append(destination_);
        fields.string(address_);
        writer.described(AmqpDeliveryAnnotations);
        writer.compound(0xC1, fields_, 2);
    }

    bool write_fields(AmqpWriter& writer) {
        fields_.clear();
        AmqpWriter fields(fields_);
        uint32_t count = 0, last = 0;  // `last`: with the last that is not null
        size_t end = 0;
        for (uint8_t field = 0; field < AmqpFields; ++field) {
            const size_t start = fields_.size();
            if (!write_field(fields, static_cast<AmqpField>(field))) return false;
            ++count;
            if (fields_.size() - start != 1 || static_cast<uint8_t>(fields_.data()[start]) != 0x40)
                last = count, end = fields_.size();
        }
        if (!last) return true;
        writer.described(AmqpProperties);
        writer.compound(0xC0, std::string_view(fields_).substr(0, end), last);
        return true;
    }

    bool write_field(AmqpWriter& fields, AmqpField field) {
        const bool other = form_ == AmqpForm::OtherProtocol;
        switch (field) {
            case AmqpMessageId:
                if (other) return fields.string(own_id()), true;
                return write_id(fields, own_[AmqpMessageId]);
            case AmqpTo:
                if (!other) break;
                address_.assign(flags_ & MessageView::Queue ? "queue://" : "topic://").append(destination_);
                return fields.string(address_), true;
            case AmqpUserId:
                if (own_[field].is) return fields.binary(own_[field].value.s), true;
                break;
            case AmqpSubject:
                if (headers_[JmsType].is) return fields.string(headers_[JmsType].value.s), true;
                break;
            case AmqpReplyTo:
                if (const Held& one = headers_[ReplyTo]; one.is) {
                    address_.assign(one.value.s.substr(0, 6)).append("//").append(one.value.s.substr(6));
                    return fields.string(address_), true;
                }
                break;
            case AmqpCorrelationId: return write_id(fields, headers_[CorrelationId]);
            case AmqpContentType:
                if (own_[field].is) return fields.symbol(own_[field].value.s), true;
                break;
            case AmqpExpiry:
                if (other && headers_[Expiration].is) return fields.timestamp(headers_[Expiration].value.i), true;
                break;
            case AmqpCreation:
                if (headers_[Timestamp].is) return fields.timestamp(headers_[Timestamp].value.i), true;
                if (other) return fields.timestamp(id_time_ms(reinterpret_cast<const uint8_t*>(id_.data()))), true;
                break;
            case AmqpGroupId:
                if (own_[field].is) return fields.string(own_[field].value.s), true;
                break;
            case AmqpGroupSequence:
                if (own_[field].is) return fields.uint(static_cast<uint32_t>(own_[field].value.i)), true;
                break;
            default: break;
        }
        fields.null();
        return true;
    }

    // False: an id of a rare kind.
    static bool write_id(AmqpWriter& fields, const Held& held) {
        if (!held.is) return fields.null(), true;
        std::string_view text = held.value.s;
        if (!text.starts_with(amqp_id_prefix)) return fields.string(text), true;
        if (!text.starts_with(amqp_ulong_prefix)) return false;
        text.remove_prefix(amqp_ulong_prefix.size());
        uint64_t number = 0;
        const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (text.empty() || error != std::errc{} || stop != text.data() + text.size()) return false;
        if (text[0] == '0' && text.size() > 1) return false;
        fields.ulong(number);
        return true;
    }

    std::string_view own_id() {
        static constexpr char digits[] = "0123456789abcdef";
        std::memcpy(id_text_.data(), "ID:", 3);
        for (size_t i = 0; i < 16; ++i) {
            const auto one = static_cast<uint8_t>(id_[i]);
            id_text_[3 + 2 * i] = digits[one >> 4];
            id_text_[4 + 2 * i] = digits[one & 15];
        }
        return {id_text_.data(), id_text_.size()};
    }

    uint8_t flags_ = 0, priority_ = 0;
    AmqpForm form_ = AmqpForm::OtherProtocol;
    std::string_view id_, destination_, body_;
    std::array<Held, NoHeaderField + 1> headers_;
    std::array<Held, AmqpFields> own_;
    Scratch application_, fields_;
    uint32_t application_count_ = 0;
    std::string address_;
    std::array<char, 3 + 32> id_text_;
    std::string_view message_, kept_sections_, kept_annotations_, kept_fields_, kept_application_;
    AmqpMessageReader reader_;
    std::string again_;
    static constexpr size_t said_at = 20;  // behind what header and id of a message say

    // Of the message before: all but its body, and the sections that this became. Empty: nothing is kept.
    static constexpr size_t id_end = 20, kept_bytes_max = 4096;
    std::string kept_, sections_;
    uint32_t attempt_ = 0;
    bool says_destination_ = false;
};

}  // namespace tidings
