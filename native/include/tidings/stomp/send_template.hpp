// A template of SEND frames. Most publishers send the same frame again and again, but for the body, the receipt they
// ask for, or the values of some headers. What the last frame that was taken to pieces became is remembered with its
// lines; a frame with the same headers in the same order then becomes a copy of that, with other values where they
// differ.
#pragma once
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/codec/writer.hpp"
#include "tidings/stomp/frame.hpp"
#include "tidings/support/scratch.hpp"

namespace tidings {

class StompSendTemplate {
public:
    // The role of a line. Same: a frame with another value must be parsed. Value: the attribute of that number.
    enum class Role : uint8_t { Same, Value, Destination, Receipt, Length, Nothing };
    struct Use {
        Role role = Role::Same;
        uint32_t attribute = 0;
    };

    static constexpr size_t head_bytes_max = 4096;

    // `uses`: one for each line. `publish`: what became of the frame, with the body; `rules`: a number of what else it
    // depends on. `open`: frames with other values may be filled in; otherwise only the very same headers count.
    void learn(const StompFrame& frame, const std::vector<Use>& uses, std::string_view publish, StompVersion version,
               uint32_t rules, bool open) {
        head_ = frame.bytes.substr(0, frame.bytes.size() - frame.body.size());
        publish_ = publish.substr(0, publish.size() - frame.body.size());
        version_ = version;
        rules_ = rules;
        length_ = SIZE_MAX;
        asks_ = false;
        lines_.clear();
        const auto place = [&](const char* at) { return static_cast<uint32_t>(at - frame.bytes.data()); };
        for (size_t i = 0; i < uses.size(); ++i) {
            const StompLine& line = frame.lines[i];
            const uint32_t start = place(line.name.data()), value = place(line.value.data());
            lines_.push_back({start, value, value + static_cast<uint32_t>(line.value.size()), uses[i]});
            if (uses[i].role == Role::Length) length_ = frame.body.size();
            if (uses[i].role == Role::Receipt) asks_ = true, open &= plain(line.value);
        }
        open_ = open && head_.find('\r') == head_.npos;
        find_attributes();
    }

    // True if the frame that `data` begins with has been filled in: a PUBLISH frame without id and receipt, at the end
    // of `out`. False: it does not fit, or is not all there.
    bool fill(std::string_view data, size_t bytes_max, uint32_t rules, Scratch& out) {
        if (head_.empty() || rules != rules_) return false;
        size_t at = 0;
        while (at < data.size() && data[at] == '\n') ++at;  // heartbeats
        size_t length = length_;
        changed_ = false;
        receipt_ = destination_ = {};
        if (!asks_ && same(data, at, 0, head_.size())) at += head_.size();
        else if (!open_ || !read_lines(data, at, length)) return false;
        if (!find_end(data, at, bytes_max, length)) return false;
        size_ = at + length + 1;
        write(data.substr(at, length), out);
        return true;
    }

    // Of the frame that has been filled in: what it takes of the input; the receipt that it asks for, nullptr: none.
    size_t size() const { return size_; }
    std::string_view receipt() const { return receipt_; }

private:
    // In a PUBLISH frame: where it says how many bytes destination and attributes have, and where they begin.
    static constexpr size_t sizes_at = frame_header_bytes + 4 + 22,
                            destination_at = frame_header_bytes + 4 + message_header_bytes;
    struct Line {
        uint32_t start, value, end;  // in `head_`; the line end follows
        Use use;
    };
    struct Attribute {
        uint32_t start, value, end;  // in `publish_`; `value`: behind the byte of its type
        std::string_view other;      // another value; nullptr: the same
    };

    // The attributes of `publish_`.
    void find_attributes() {
        attributes_.clear();
        const std::string_view bytes = std::string_view(publish_).substr(frame_header_bytes + 4);
        Reader reader(bytes);
        reader.bytes(20);
        const uint16_t count = reader.u16(), destination = reader.u16();
        reader.u32();
        reader.bytes(destination);
        const auto place = [&] { return static_cast<uint32_t>(reader.position() + frame_header_bytes + 4); };
        for (uint16_t i = 0; i < count; ++i) {
            Attribute& one = attributes_.emplace_back();
            one.start = place();
            reader.bytes(reader.u8());
            one.value = place() + 1;
            Value value;
            read_checked(reader, value);
            one.end = place();
        }
    }

    bool same(std::string_view data, size_t at, size_t from, size_t to) const {
        return data.size() - at > to - from && std::memcmp(data.data() + at, head_.data() + from, to - from) == 0;
    }

    // From the command to the empty line; `at` is where the body begins then.
    bool read_lines(std::string_view data, size_t& at, size_t& length) {
        const size_t start = at;
        if (!same(data, at, 0, lines_[0].start)) return false;
        at += lines_[0].start;
        for (const Line& line : lines_) {
            const size_t value = at + line.value - line.start;
            if (same(data, at, line.start, line.end + 1)) {
                at += line.end + 1 - line.start;
                if (line.use.role == Role::Receipt) receipt_ = data.substr(value, line.end - line.value);
                if (line.use.role == Role::Value) attributes_[line.use.attribute].other = {};
                continue;
            }
            if (line.use.role == Role::Same || !same(data, at, line.start, line.value)) return false;
            const void* const end = std::memchr(data.data() + value, '\n', data.size() - value);
            if (!end) return false;
            at = static_cast<size_t>(static_cast<const char*>(end) - data.data()) + 1;
            if (!use(line.use, data.substr(value, at - 1 - value), length)) return false;
        }
        if (at == data.size() || data[at] != '\n' || at - start > head_bytes_max) return false;
        ++at;
        return true;
    }

    bool use(const Use& use, std::string_view value, size_t& length) {
        if (!plain(value)) return false;
        if (use.role == Role::Receipt) {
            receipt_ = value;
        } else if (use.role == Role::Value) {
            attributes_[use.attribute].other = value;
            changed_ = true;
        } else if (use.role == Role::Destination) {
            changed_ = true;
            return use_destination(value);
        } else if (use.role == Role::Length) {
            const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
            return !value.empty() && error == std::errc{} && end == value.data() + value.size();
        }
        return true;
    }

    bool use_destination(std::string_view value) {
        static constexpr std::string_view topic = "/topic/", queue = "/queue/";
        const bool to_queue = publish_[frame_header_bytes + 4 + 1] & MessageView::Queue;
        if (!value.starts_with(to_queue ? queue : topic)) return false;
        destination_ = value.substr(topic.size());
        return is_destination(destination_);
    }

    // True if a value means the same as the one in the template.
    bool plain(std::string_view value) const {
        bool special = false;
        uint8_t all = 0;
        for (const char c : value) special |= c == '\\' || c == '\r', all |= static_cast<uint8_t>(c);
        if (special || (all >= 0x80 && utf8_error(value) != utf8_valid)) return false;
        const auto blank = [](char c) { return c == ' ' || c == '\t'; };
        return version_ != StompVersion::V10 || value.empty() || !(blank(value.front()) || blank(value.back()));
    }

    // `length`: of the body, SIZE_MAX if it ends at its NUL.
    static bool find_end(std::string_view data, size_t at, size_t bytes_max, size_t& length) {
        if (length == SIZE_MAX) {
            const void* const end = std::memchr(data.data() + at, 0, data.size() - at);
            if (!end) return false;
            length = static_cast<size_t>(static_cast<const char*>(end) - data.data()) - at;
        }
        return length <= bytes_max && data.size() - at > length && data[at + length] == 0;
    }

    void write(std::string_view body, Scratch& out) const {
        const size_t start = out.size();
        if (!changed_) out.put(publish_);
        else write_attributes(out);
        out.put(body);
        const auto payload = static_cast<uint32_t>(out.size() - start - frame_header_bytes);
        std::memcpy(out.data() + start, &payload, 4);
    }

    void write_attributes(Scratch& out) const {
        const size_t start = out.size();
        uint16_t before;
        std::memcpy(&before, publish_.data() + sizes_at, 2);
        const std::string_view destination =
            destination_.data() ? destination_ : std::string_view(publish_).substr(destination_at, before);
        out.put(std::string_view(publish_).substr(0, destination_at));
        out.put(destination);
        for (const Attribute& one : attributes_) {
            if (!one.other.data()) {
                out.put(std::string_view(publish_).substr(one.start, one.end - one.start));
                continue;
            }
            out.put(std::string_view(publish_).substr(one.start, one.value - one.start));
            size_t size = one.other.size();
            for (; size >= 0x80; size >>= 7) out.put(static_cast<char>(size | 0x80));
            out.put(static_cast<char>(size));
            out.put(one.other);
        }
        const auto bytes = static_cast<uint16_t>(destination.size());
        const auto attribute_bytes = static_cast<uint32_t>(out.size() - start - destination_at - destination.size());
        std::memcpy(out.data() + start + sizes_at, &bytes, 2);
        std::memcpy(out.data() + start + sizes_at + 2, &attribute_bytes, 4);
    }

    std::string head_, publish_;  // the frame up to its body, and what it became
    std::vector<Line> lines_;
    std::vector<Attribute> attributes_;
    size_t length_ = 0;  // of its body, if it said so; otherwise SIZE_MAX
    uint32_t rules_ = 0;
    StompVersion version_ = StompVersion::V12;
    bool asks_ = false;  // for a receipt
    bool open_ = false;
    bool changed_ = false;  // since then: of the frame at hand
    size_t size_ = 0;
    std::string_view receipt_, destination_;
};

// Several templates, for publishers that send different frames in turn.
class StompSendTemplates {
public:
    // As StompSendTemplate::fill: the template that fits, or nullptr.
    const StompSendTemplate* fill(std::string_view data, size_t bytes_max, uint32_t rules, Scratch& out) {
        for (size_t i = 0; i < count; ++i) {
            StompSendTemplate& filled = templates_[(last_ + i) % count];
            if (!filled.fill(data, bytes_max, rules, out)) continue;
            last_ = (last_ + i) % count;
            return &filled;
        }
        return nullptr;
    }

    // The one to learn, in place of that which was learnt longest ago.
    StompSendTemplate& next() {
        last_ = oldest_;
        oldest_ = (oldest_ + 1) % count;
        return templates_[last_];
    }

private:
    static constexpr size_t count = 4;
    std::array<StompSendTemplate, count> templates_;
    size_t last_ = 0, oldest_ = 0;
};

}  // namespace tidings
