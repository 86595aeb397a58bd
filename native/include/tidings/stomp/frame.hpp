// STOMP 1.0 to 1.2: where a frame ends, its header lines, and the escapes in them. Nothing is copied unless it holds
// escapes.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/codec/reader.hpp"

namespace tidings {

enum class StompVersion : uint8_t { V10, V11, V12 };

struct StompLine {
    std::string_view name, value;
};

struct StompFrame {
    std::string_view command, body;
    std::string_view bytes;        // from the command to the end of the body
    std::vector<StompLine> lines;  // headers as they stand
    size_t size = 0;               // what it takes of the input, line ends before it and its NUL included
    size_t start = 0;              // where the command begins

    // The first header of this name, as it stands: repeated ones do not count.
    std::optional<std::string_view> find(std::string_view name) const {
        for (const StompLine& line : lines)
            if (line.name == name) return line.value;
        return std::nullopt;
    }
};

class StompFramer {
public:
    static constexpr size_t command_bytes_max = 32, headers_bytes_max = 64 << 10, headers_max = 1000;

    // False: the input ends before the frame does; `skipped` then says how many line ends (heartbeats) stand before
    // it. `searched` is kept by the caller from one try to the next: so much of the input is known to hold no end of a
    // body.
    bool next(std::string_view data, size_t bytes_max, size_t& searched, StompFrame& frame) {
        size_t at = 0;
        while (at < data.size() &&
               (data[at] == '\n' || (data[at] == '\r' && (at + 1 == data.size() || data[at + 1] == '\n'))))
            ++at;
        skipped = frame.start = at;
        frame.lines.clear();
        std::string_view line;
        if (!read_line(data, at, line, command_bytes_max, "E_STOMP_FRAME", "no STOMP command")) return false;
        const bool capitals = !line.empty() && std::ranges::all_of(line, [](char c) { return c >= 'A' && c <= 'Z'; });
        if (!capitals && !is_word(line)) refuse("E_STOMP_FRAME", "no STOMP command", frame.start);
        frame.command = line;
        Fault fault;
        if (!capitals) fault = {"E_STOMP_FRAME", "no STOMP command: they are written in capitals", frame.start};
        for (;;) {
            if (!read_line(data, at, line, headers_bytes_max, "E_STOMP_LIMIT", "a header is too long")) return false;
            if (at - frame.start > headers_bytes_max) refuse("E_STOMP_LIMIT", "the headers are too long", at);
            if (line.empty()) break;
            read_header(line, static_cast<size_t>(line.data() - data.data()), frame, fault);
            if (fault.code && line.find('\0') != line.npos) break;  // what follows is another frame's
        }
        if (fault.code) refuse(fault.code, fault.reason, fault.position);
        return read_body(data, at, bytes_max, searched, frame);
    }

    size_t skipped = 0;

private:
    // The first error of the headers. It is reported when all are read: the receipt that the frame asks for may stand
    // below.
    struct Fault {
        const char* code = nullptr;
        const char* reason = nullptr;
        size_t position = 0;
    };

    static void read_header(std::string_view line, size_t start, StompFrame& frame, Fault& fault) {
        const size_t colon = line.find(':');
        const auto wrong = [&](const char* code, const char* reason) {
            if (!fault.code) fault = {code, reason, start};
        };
        if (colon == line.npos) return wrong("E_STOMP_FRAME", "a header line without a colon");
        if (colon == 0) return wrong("E_STOMP_FRAME", "a header without a name");
        const std::string_view name = line.substr(0, colon);
        if (frame.lines.size() >= headers_max) {
            wrong("E_STOMP_LIMIT", "more than 1000 headers");
            if (name != "receipt") return;
        }
        frame.lines.push_back({name, line.substr(colon + 1)});
    }

    static bool is_word(std::string_view text) {
        return !text.empty() &&
               std::ranges::all_of(text, [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); });
    }

    static bool read_line(std::string_view data, size_t& at, std::string_view& line, size_t bytes_max, const char* code,
                          const char* reason) {
        const size_t window = std::min(data.size() - at, bytes_max + 2);
        const void* const found = std::memchr(data.data() + at, '\n', window);
        if (!found) {
            if (window == bytes_max + 2) refuse(code, reason, at);
            if (std::memchr(data.data() + at, 0, window))
                refuse("E_STOMP_FRAME", "the frame ends inside its headers", at);
            return false;
        }
        const size_t end = static_cast<size_t>(static_cast<const char*>(found) - data.data());
        line = data.substr(at, end - at);
        if (line.ends_with('\r')) line.remove_suffix(1);
        at = end + 1;
        return true;
    }

    static bool read_body(std::string_view data, size_t at, size_t bytes_max, size_t& searched, StompFrame& frame) {
        size_t size = 0;
        if (const std::optional<std::string_view> given = frame.find("content-length")) {
            size = content_length(*given, at);
            if (size > bytes_max) refuse("E_STOMP_LIMIT", "a frame is longer than agreed", at);
            if (data.size() - at <= size) return false;
            if (data[at + size] != 0)
                refuse("E_STOMP_FRAME", "no NUL after as many bytes as content-length says", at + size);
        } else {
            const size_t from = std::max(at, std::min(searched, data.size()));
            const void* const found = data.size() > from ? std::memchr(data.data() + from, 0, data.size() - from)
                                                         : nullptr;
            size = (found ? static_cast<size_t>(static_cast<const char*>(found) - data.data()) : data.size()) - at;
            if (size > bytes_max) refuse("E_STOMP_LIMIT", "a frame is longer than agreed", at);
            if (!found) {
                searched = data.size();
                return false;
            }
        }
        searched = 0;
        frame.body = data.substr(at, size);
        frame.bytes = data.substr(frame.start, at + size - frame.start);
        frame.size = at + size + 1;
        return true;
    }

    static size_t content_length(std::string_view text, size_t at) {
        while (text.starts_with(' ')) text.remove_prefix(1);
        while (text.ends_with(' ')) text.remove_suffix(1);
        size_t size = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
        if (text.empty() || error != std::errc{} || end != text.data() + text.size())
            refuse("E_STOMP_HEADER", "content-length is not a number of bytes", at);
        return size;
    }
};

// Headers as they are meant. Texts without escapes stay where they are; others are written to a store that lives with
// the frame.
class StompUnescaper {
public:
    void begin(StompVersion version, size_t bytes) {
        version_ = version;
        store_.clear();
        store_.reserve(bytes);  // what is unescaped is shorter: views stay valid
    }

    std::string_view operator()(std::string_view text) {
        if (version_ == StompVersion::V10) return trimmed(text);
        if (text.find('\\') == text.npos) [[likely]]
            return text;
        const size_t start = store_.size();
        for (size_t i = 0; i < text.size(); ++i) {
            if (text[i] != '\\') {
                store_ += text[i];
                continue;
            }
            const char c = ++i < text.size() ? text[i] : '\0';
            if (c == 'n') store_ += '\n';
            else if (c == 'c') store_ += ':';
            else if (c == '\\') store_ += '\\';
            else if (c == 'r' && version_ == StompVersion::V12) store_ += '\r';
            else refuse("E_STOMP_ESCAPE", "an unknown escape in a header", i - 1);
        }
        return std::string_view(store_).substr(start);
    }

    // True if a text that came out is one that had to be written.
    bool made(std::string_view text) const {
        const std::less<const char*> before;
        return !before(text.data(), store_.data()) && before(text.data(), store_.data() + store_.size());
    }

private:
    static std::string_view trimmed(std::string_view text) {
        while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
        while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
        return text;
    }

    StompVersion version_ = StompVersion::V12;
    std::string store_;
};

}  // namespace tidings
