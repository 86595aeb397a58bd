// Writes what reader.hpp and message_reader.hpp read. Bytes are appended to a string that the caller owns and reuses.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tidings/codec/message_reader.hpp"

namespace tidings {

class Writer {
public:
    explicit Writer(std::string& out) : out_(out) {}

    void u8(uint8_t n) { out_.push_back(static_cast<char>(n)); }
    void bytes(std::string_view data) { out_.append(data); }

    template <class T>
    void fixed(T value) {
        char raw[sizeof(T)];
        std::memcpy(raw, &value, sizeof(T));
        out_.append(raw, sizeof(T));
    }

    void varint(uint64_t n) {
        char raw[10];
        size_t size = 0;
        for (; n >= 0x80; n >>= 7) raw[size++] = static_cast<char>(n | 0x80);
        raw[size++] = static_cast<char>(n);
        out_.append(raw, size);
    }

    void value(const Value& v) {
        switch (v.type) {
            case Type::Bool: return u8(v.i != 0);
            case Type::Int: u8(2); return varint(static_cast<uint64_t>(v.i) << 1 ^ static_cast<uint64_t>(v.i >> 63));
            case Type::Float: u8(3); return fixed(v.d);
            default:
                u8(static_cast<uint8_t>(v.type));
                varint(v.s.size());
                bytes(v.s);
        }
    }

    // A name of 1 to 255 bytes.
    void name(std::string_view text) {
        u8(static_cast<uint8_t>(text.size()));
        bytes(text);
    }

private:
    std::string& out_;
};

// A message in the order of its bytes: begin, attribute once each, finish. The caller keeps the rules of docs/wire.md.
class MessageWriter {
public:
    explicit MessageWriter(std::string& out) : out_(out), writer_(out), start_(out.size()) {}

    void begin(uint8_t flags, uint8_t priority, std::string_view id, std::string_view destination) {
        const char fixed[] = {1, static_cast<char>(flags), static_cast<char>(priority), 0};
        out_.append(fixed, sizeof fixed).append(id.substr(0, 16));
        writer_.fixed<uint16_t>(0);
        writer_.fixed(static_cast<uint16_t>(destination.size()));
        writer_.fixed<uint32_t>(0);
        out_.append(destination);
        attributes_start_ = out_.size();
    }

    void attribute(std::string_view name, const Value& value) {
        writer_.name(name);
        writer_.value(value);
        ++count_;
    }

    size_t count() const { return count_; }
    size_t attribute_bytes() const { return out_.size() - attributes_start_; }

    void finish(std::string_view body) {
        const auto count = static_cast<uint16_t>(count_);
        const auto size = static_cast<uint32_t>(attribute_bytes());
        std::memcpy(out_.data() + start_ + 20, &count, sizeof count);
        std::memcpy(out_.data() + start_ + 24, &size, sizeof size);
        out_.append(body);
    }

private:
    std::string& out_;
    Writer writer_;
    size_t start_, attributes_start_ = 0, count_ = 0;
};

}  // namespace tidings
