// MESSAGE frames, made from a message's bytes (docs/wire.md), which have been checked before. What is the same for all
// that receive it is made once; each delivery then adds the lines that name its subscription and its acknowledgement.
#pragma once
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/codec/message_reader.hpp"
#include "tidings/stomp/send.hpp"

namespace tidings {

class StompText {
public:
    StompText(Scratch& out, StompVersion version) : out_(out), version_(version) {}

    void header(std::string_view name, std::string_view value) {
        out_.put(name);
        out_.put(':');
        escaped(value, false);
        out_.put('\n');
    }

    template <class Number>
    void digits(Number value) {
        char text[24];
        const auto [end, error] = std::to_chars(text, text + sizeof text, value);
        out_.put({text, end});
    }

    template <class Number>
    void number(std::string_view name, Number value) {
        out_.put(name);
        out_.put(':');
        digits(value);
        out_.put('\n');
    }

    // As repr() of Python has it: the shortest digits that read as this number.
    void real(double value) {
        if (std::isinf(value)) return out_.put(value < 0 ? "-inf" : "inf");
        char text[40];
        const char* const end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
        std::string_view shown(text, static_cast<size_t>(end - text));
        if (shown.starts_with('-')) out_.put('-'), shown.remove_prefix(1);
        const size_t e = shown.find('e');
        int exponent = 0;
        std::from_chars(shown.data() + e + 1 + (shown[e + 1] == '+'), end, exponent);
        std::string mantissa(1, shown[0]);
        if (e > 1) mantissa.append(shown.substr(2, e - 2));
        const std::string_view all = mantissa;
        if (exponent < -4 || exponent >= 16) {
            out_.put(all.substr(0, 1));
            if (all.size() > 1) out_.put('.'), out_.put(all.substr(1));
            out_.put(shown.substr(e));
        } else if (exponent < 0) {
            out_.put(std::string_view("0.0000").substr(0, static_cast<size_t>(1 - exponent)));
            out_.put(all);
        } else {
            const size_t whole = static_cast<size_t>(exponent) + 1;
            out_.put(all.substr(0, whole));
            for (size_t i = all.size(); i < whole; ++i) out_.put('0');
            out_.put('.');
            out_.put(all.size() > whole ? all.substr(whole) : std::string_view("0"));
        }
    }

    void base64(std::string_view bytes) {
        static constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for (size_t i = 0; i < bytes.size(); i += 3) {
            uint32_t group = 0;
            const size_t count = std::min<size_t>(3, bytes.size() - i);
            for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? static_cast<uint8_t>(bytes[i + j]) : 0);
            for (size_t j = 0; j < 4; ++j) out_.put(j <= count ? letters[group >> (18 - 6 * j) & 63] : '=');
        }
    }

    // STOMP 1.0 knows no escapes; there only what would break the frame is written as later versions do.
    void escaped(std::string_view text, bool name) {
        bool any = false;
        for (const char c : text) any |= special[static_cast<uint8_t>(c)];
        if (!any) [[likely]]
            return out_.put(text);
        for (const char c : text) {
            const std::string_view instead = special[static_cast<uint8_t>(c)] ? escape(c, name) : std::string_view();
            if (instead.empty()) out_.put(c);
            else out_.put(instead);
        }
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

    Scratch& out_;
    StompVersion version_;
};

// `message-id:` and the id; without the end of the line.
inline constexpr size_t stomp_id_bytes = 11 + 4 + 32;
inline size_t write_stomp_id(const char* id, StompVersion version, char* place) {
    static constexpr std::array<char, 512> pairs = [] {
        std::array<char, 512> made{};
        for (size_t i = 0; i < 256; ++i) {
            made[2 * i] = "0123456789abcdef"[i >> 4];
            made[2 * i + 1] = "0123456789abcdef"[i & 15];
        }
        return made;
    }();
    const std::string_view start = version == StompVersion::V10 ? "message-id:ID:" : "message-id:ID\\c";
    std::memcpy(place, start.data(), start.size());
    char* to = place + start.size();
    for (size_t i = 0; i < 16; ++i, to += 2) std::memcpy(to, &pairs[2 * static_cast<uint8_t>(id[i])], 2);
    return static_cast<size_t>(to - place);
}

// One attribute that is no header field.
inline void write_stomp_property(std::string_view name, const Value& value, Scratch& out, StompText& text) {
    if (stomp_header(name) != StompHeader::Property || name.starts_with(stomp_attribute_prefix))
        out.put(stomp_attribute_prefix);
    text.escaped(name, true);
    out.put(':');
    switch (value.type) {
        case Type::Bool: out.put(value.i ? "true" : "false"); break;
        case Type::Int: text.digits(value.i); break;
        case Type::Float: text.real(value.d); break;
        case Type::Bytes: text.base64(value.s); break;
        default: text.escaped(value.s, false);
    }
    out.put('\n');
}

// One attribute of a message.
inline void write_stomp_attribute(Reader& reader, Scratch& out, StompText& text) {
    static constexpr std::string_view names[] = {"correlation-id", "type",    "reply-to",
                                                 "timestamp",      "expires", "delivery-time"};
    const std::string_view name = reader.bytes(reader.u8());
    Value value;
    read_checked(reader, value);
    const HeaderField field = name[0] == 'J' ? header_field(name) : NoHeaderField;
    if (field == NoHeaderField) {
        write_stomp_property(name, value, out, text);
    } else if (field >= Timestamp) {
        text.number(names[field], value.i);
    } else if (field != ReplyTo) {
        text.header(names[field], value.s);
    } else {
        out.put(value.s.starts_with("queue:") ? "reply-to:/queue/" : "reply-to:/topic/");
        text.escaped(value.s.substr(6), false);
        out.put('\n');
    }
}

// The part that all deliveries of a message have in common, from `message-id` to the NUL, for one version. Many
// messages are the same as the one before, all of it or to begin with: what follows the first difference is written
// again, and the id.
class StompTail {
public:
    operator std::string_view() const { return text_; }

    void make(std::string_view message, StompVersion version) {
        uint16_t destination_bytes;
        uint32_t attribute_bytes;
        std::memcpy(&destination_bytes, message.data() + destination_bytes_at, 2);
        std::memcpy(&attribute_bytes, message.data() + destination_bytes_at + 2, 4);
        const size_t first = message_header_bytes + destination_bytes, head = first + attribute_bytes;
        const std::string_view body = message.substr(head);
        if (!begins_the_same(message, first)) begin(message, first, version);
        else write_stomp_id(message.data() + id_at, version, text_.data());
        if (keep_same(message, head) && body.size() == body_bytes_) {
            if (!body.empty()) std::memcpy(text_.data() + text_.size() - 1 - body.size(), body.data(), body.size());
            return;
        }
        text_.cut(marks_.back().text);
        StompText text(text_, version);
        write_attributes(message, head, text);
        if (!body.empty()) text.number("content-length", body.size());
        text_.put('\n');
        text_.put(body);
        text_.put('\0');
        body_bytes_ = body.size();
    }

private:
    static constexpr size_t id_at = 4, destination_bytes_at = 22, said_bytes_max = 4096;
    static constexpr size_t anything = SIZE_MAX;  // the length of no body
    struct Mark {
        size_t said, text;
    };

    // Version, flags, priority and destination.
    bool begins_the_same(std::string_view message, size_t first) const {
        return !marks_.empty() && marks_.front().said == first &&
               std::memcmp(said_.data(), message.data(), id_at) == 0 &&
               std::memcmp(said_.data() + message_header_bytes, message.data() + message_header_bytes,
                           first - message_header_bytes) == 0;
    }

    void begin(std::string_view message, size_t first, StompVersion version) {
        const auto flags = static_cast<uint8_t>(message[1]), priority = static_cast<uint8_t>(message[2]);
        text_.clear();
        StompText text(text_, version);
        char id[stomp_id_bytes];
        text_.put({id, write_stomp_id(message.data() + id_at, version, id)});
        text_.put(flags & MessageView::Queue ? "\ndestination:/queue/" : "\ndestination:/topic/");
        text.escaped(message.substr(message_header_bytes, first - message_header_bytes), false);
        text_.put('\n');
        if (priority != 4) text.number("priority", unsigned{priority});
        if (flags & MessageView::Persistent) text_.put("persistent:true\n");
        said_.assign(message.substr(0, first));
        marks_.assign(1, {first, text_.size()});
        body_bytes_ = anything;
    }

    // Leaves the marks of those attributes that are the same; says whether these are all, here and before.
    bool keep_same(std::string_view message, size_t head) {
        const auto same = [&](size_t from, size_t to) {
            return std::memcmp(said_.data() + from, message.data() + from, to - from) == 0;
        };
        if (said_.size() == head && same(marks_.front().said, head)) return true;
        size_t kept = 1;
        while (kept < marks_.size() && marks_[kept].said <= head && same(marks_[kept - 1].said, marks_[kept].said))
            ++kept;
        marks_.resize(kept);
        return false;
    }

    void write_attributes(std::string_view message, size_t head, StompText& text) {
        const size_t from = marks_.back().said;
        Reader reader(message.substr(0, head));
        reader.bytes(from);
        while (!reader.done()) {
            write_stomp_attribute(reader, text_, text);
            marks_.push_back({reader.position(), text_.size()});
        }
        said_.resize(from);
        said_.append(message.substr(from, head - from));
        if (head > said_bytes_max) said_.clear(), marks_.clear();
    }

    Scratch text_;
    std::string said_;         // what stood before the body
    std::vector<Mark> marks_;  // how far both are after the destination and after each attribute
    size_t body_bytes_ = anything;
};

// The MESSAGE frame at hand, and what of it others need as well. What is one delivery's own comes first: the line that
// names the subscription, and what acknowledges it, which names subscription and tag, so that nothing has to be
// remembered: in 1.2 the header `ack`, before that the end of `message-id`.
class StompRenderer {
public:
    // Its length. `rendered`: the versions, as bits, for which this message's tail has been made already.
    size_t prepare(StompVersion version, std::string_view label, uint32_t subscription, uint32_t attempt, uint64_t tag,
                   std::string_view message, uint8_t& rendered) {
        const auto which = static_cast<size_t>(version);
        if (!(rendered >> which & 1)) tails_[which].make(message, version);
        rendered |= static_cast<uint8_t>(1 << which);
        tail_ = tails_[which];
        head_ = label;
        if (tag || attempt > 1) [[unlikely]]
            own_head(version, subscription, attempt, tag);
        return head_.size() + tail_.size();
    }

    void write(char* place) const {
        copy_line(place, head_);
        std::memcpy(place + head_.size(), tail_.data(), tail_.size());
    }

    std::string_view head() const { return head_; }
    std::string_view tail() const { return tail_; }

    // RECEIPT frames for these, which are then forgotten.
    void write_receipts(StompState& state, const std::vector<uint32_t>& numbers, Output& output) {
        made_.clear();
        for (const uint32_t number : numbers) {
            const std::optional<std::string_view> name = state.receipts.take(number);
            if (!name) continue;
            made_.put("RECEIPT\nreceipt-id:");
            StompText(made_, state.version).escaped(*name, false);
            made_.put(std::string_view("\n\n\0", 3));
        }
        output.append(made_);
    }

private:
    // Most labels have 16 to 32 bytes: two moves that overlap, without a call.
    static void copy_line(char* place, std::string_view text) {
        static constexpr size_t half = 16;
        if (text.size() - half > half) return static_cast<void>(std::memcpy(place, text.data(), text.size()));
        char first[half], last[half];
        std::memcpy(first, text.data(), half);
        std::memcpy(last, text.data() + text.size() - half, half);
        std::memcpy(place, first, half);
        std::memcpy(place + text.size() - half, last, half);
    }

    void own_head(StompVersion version, uint32_t subscription, uint32_t attempt, uint64_t tag) {
        made_.clear();
        made_.put(head_);
        StompText text(made_, version);
        if (attempt > 1) made_.put("redelivered:true\n");
        if (tag) {
            if (version == StompVersion::V12) {
                made_.put("ack:");
            } else {  // instead of the tail's own message-id
                const size_t bytes = stomp_id_bytes - (version == StompVersion::V10);
                made_.put(tail_.substr(0, bytes));
                made_.put('-');
                tail_.remove_prefix(bytes + 1);
            }
            text.digits(subscription);
            made_.put('-');
            text.digits(tag);
            made_.put('\n');
        }
        head_ = made_;
    }

    Scratch made_;
    std::array<StompTail, 3> tails_;  // by version
    std::string_view head_, tail_;
};

}  // namespace tidings
