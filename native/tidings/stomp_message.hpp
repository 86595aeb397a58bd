// MESSAGE frames, made from a message's bytes (docs/wire.md), which have been checked before. What is the same for all who
// receive it is made once; each delivery then adds the lines that name its subscription and its acknowledgement.
#pragma once
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "tidings/codec.hpp"
#include "tidings/stomp_send.hpp"

namespace tidings {

class StompText {
public:
    StompText(std::string& out, StompVersion version) : out_(out), version_(version) {}

    void header(std::string_view name, std::string_view value) {
        out_.append(name) += ':';
        escaped(value, false);
        out_ += '\n';
    }

    template <class Number>
    void number(std::string_view name, Number value) {
        char text[24];
        const auto [end, error] = std::to_chars(text, text + sizeof text, value);
        out_.append(name) += ':';
        out_.append(text, end) += '\n';
    }

    // As repr() of Python has it: the shortest digits that read as this number.
    void real(double value) {
        if (std::isinf(value)) {
            out_ += value < 0 ? "-inf" : "inf";
            return;
        }
        char text[40];
        const char* const end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
        std::string_view digits(text, static_cast<size_t>(end - text));
        if (digits.starts_with('-')) out_ += '-', digits.remove_prefix(1);
        const size_t e = digits.find('e');
        int exponent = 0;
        std::from_chars(digits.data() + e + 1 + (digits[e + 1] == '+'), end, exponent);
        std::string mantissa(1, digits[0]);
        if (e > 1) mantissa.append(digits.substr(2, e - 2));
        if (exponent < -4 || exponent >= 16) {
            out_.append(mantissa, 0, 1);
            if (mantissa.size() > 1) out_.append(".").append(mantissa, 1);
            out_.append(digits.substr(e));
        } else if (exponent < 0) {
            out_.append("0.").append(static_cast<size_t>(-exponent - 1), '0').append(mantissa);
        } else {
            const size_t whole = static_cast<size_t>(exponent) + 1;
            if (mantissa.size() < whole) mantissa.append(whole - mantissa.size(), '0');
            out_.append(mantissa, 0, whole) += '.';
            if (mantissa.size() > whole) out_.append(mantissa, whole);
            else out_ += '0';
        }
    }

    void base64(std::string_view bytes) {
        static constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for (size_t i = 0; i < bytes.size(); i += 3) {
            uint32_t group = 0;
            const size_t count = std::min<size_t>(3, bytes.size() - i);
            for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? static_cast<uint8_t>(bytes[i + j]) : 0);
            for (size_t j = 0; j < 4; ++j) out_ += j <= count ? letters[group >> (18 - 6 * j) & 63] : '=';
        }
    }

    // STOMP 1.0 knows no escapes; there only what would break the frame is written as later versions do.
    void escaped(std::string_view text, bool name) {
        size_t start = 0;
        for (size_t i = 0; i < text.size(); ++i) {
            if (!special[static_cast<uint8_t>(text[i])]) [[likely]] continue;
            const std::string_view instead = escape(text[i], name);
            if (instead.empty()) continue;
            out_.append(text.substr(start, i - start)).append(instead);
            start = i + 1;
        }
        out_.append(text.substr(start));
    }

private:
    static constexpr std::array<bool, 256> special = [] {
        std::array<bool, 256> found{};
        for (const char c : {'\n', '\r', ':', '\\', '\0'}) found[static_cast<uint8_t>(c)] = true;
        return found;
    }();

    std::string_view escape(char c, bool name) const {
        const bool old = version_ == StompVersion::V10;
        switch (c) {
            case '\n': return "\\n";
            case '\r': return version_ == StompVersion::V11 ? "" : "\\r";
            case ':': return old && !name ? "" : "\\c";
            case '\\': return old ? "" : "\\\\";
            default: return "\xEF\xBF\xBD";  // NUL ends frames: no header can hold it
        }
    }

    std::string& out_;
    StompVersion version_;
};

// What all deliveries of a message have in common: from `destination` to the NUL.
inline void write_stomp_tail(std::string_view message, StompVersion version, std::string& out) {
    static constexpr std::string_view names[] = {"correlation-id", "type", "reply-to", "timestamp", "expires"};
    out.clear();
    StompText text(out, version);
    Reader reader(message);
    reader.u8();
    const uint8_t flags = reader.u8(), priority = reader.u8();
    reader.u8();
    const uint8_t* const id = reinterpret_cast<const uint8_t*>(reader.bytes(16).data());
    const uint16_t count = reader.u16();
    const size_t destination_bytes = reader.u16(), attribute_bytes = reader.u32();
    out.append("destination:").append(flags & MessageView::Queue ? "/queue/" : "/topic/");
    text.escaped(reader.bytes(destination_bytes), false);
    out += '\n';
    Reader inner = reader.part(attribute_bytes);
    text.number("content-length", reader.left());
    text.number("priority", unsigned{priority});
    if (flags & MessageView::Persistent) out.append("persistent:true\n");
    bool timestamp = false;
    for (size_t i = 0; i < count; ++i) {
        const std::string_view name = inner.bytes(inner.u8());
        const Value value = read_value(inner, AttributeValue);
        if (const HeaderField field = name[0] == 'J' ? header_field(name) : NoHeaderField; field != NoHeaderField) {
            timestamp |= field == Timestamp;
            if (field >= Timestamp) text.number(names[field], value.i);
            else if (field != ReplyTo) text.header(names[field], value.s);
            else {
                out.append("reply-to:").append(value.s.starts_with("queue:") ? "/queue/" : "/topic/");
                text.escaped(value.s.substr(6), false);
                out += '\n';
            }
            continue;
        }
        if (stomp_header(name) != StompHeader::Property || name.starts_with(stomp_attribute_prefix)) out.append(stomp_attribute_prefix);
        text.escaped(name, true);
        out += ':';
        switch (value.type) {
            case Type::Bool: out.append(value.i ? "true" : "false"); break;
            case Type::Int: {
                char digits[24];
                out.append(digits, std::to_chars(digits, digits + sizeof digits, value.i).ptr);
                break;
            }
            case Type::Float: text.real(value.d); break;
            case Type::Bytes: text.base64(value.s); break;
            default: text.escaped(value.s, false);
        }
        out += '\n';
    }
    if (!timestamp) {
        int64_t milliseconds = 0;
        for (int i = 8; i < 14; ++i) milliseconds = milliseconds << 8 | id[i];
        text.number("timestamp", milliseconds);
    }
    out += '\n';
    out.append(reader.rest()) += '\0';
}

// What is one delivery's own. An acknowledgement names subscription and tag, so that nothing has to be remembered: in 1.2 by
// the header `ack`, before that by the end of `message-id`.
inline void write_stomp_head(const StompState& state, uint32_t subscription, uint32_t attempt, uint64_t tag, std::string_view message,
                             std::string& out) {
    out.assign("MESSAGE\n");
    if (const auto label = state.labels.find(subscription); label != state.labels.end()) out.append(label->second);
    out.append("message-id:");
    out.append(state.version == StompVersion::V10 ? "ID:" : "ID\\c");
    for (size_t i = 4; i < 20; ++i) {
        const uint8_t byte = static_cast<uint8_t>(message[i]);
        out += "0123456789abcdef"[byte >> 4];
        out += "0123456789abcdef"[byte & 15];
    }
    if (tag) {
        char digits[24];
        out.append(state.version == StompVersion::V12 ? "\nack:" : "-");
        out.append(digits, std::to_chars(digits, digits + sizeof digits, subscription).ptr) += '-';
        out.append(digits, std::to_chars(digits, digits + sizeof digits, tag).ptr);
    }
    out += '\n';
    if (attempt > 1) out.append("redelivered:true\n");
}

// The MESSAGE frame at hand, and what of it others need as well.
class StompRenderer {
public:
    // Its length. `rendered`: the versions, as bits, for which this message's tail has been made already.
    size_t prepare(const StompState& state, uint32_t subscription, uint32_t attempt, uint64_t tag, std::string_view message, uint8_t& rendered) {
        const auto version = static_cast<size_t>(state.version);
        tail_ = &tails_[version];
        if (!(rendered >> version & 1)) write_stomp_tail(message, state.version, *tail_);
        rendered |= static_cast<uint8_t>(1 << version);
        write_stomp_head(state, subscription, attempt, tag, message, head_);
        return head_.size() + tail_->size();
    }

    void write(char* place) const {
        std::memcpy(place, head_.data(), head_.size());
        std::memcpy(place + head_.size(), tail_->data(), tail_->size());
    }

    // RECEIPT frames for these, which are then forgotten. Holds until the next call.
    std::string_view receipts(StompState& state, const std::vector<uint32_t>& numbers) {
        head_.clear();
        for (const uint32_t number : numbers) {
            const auto name = state.receipts.extract(number);
            if (name.empty()) continue;
            head_.append("RECEIPT\nreceipt-id:");
            StompText(head_, state.version).escaped(name.mapped(), false);
            head_.append("\n\n").push_back('\0');
        }
        return head_;
    }

private:
    std::string head_;
    std::array<std::string, 3> tails_;  // by version
    std::string* tail_ = nullptr;
};

}  // namespace tidings
