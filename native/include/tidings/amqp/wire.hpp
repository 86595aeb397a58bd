// AMQP's types as far as plain messages and the hot performatives need them (specification, part 1.6): a cursor that
// says what it cannot read, and a writer of the shortest forms. The plain Python of both is
// src/tidings/protocols/amqp/wire.
#pragma once
#include <bit>
#include <cstdint>
#include <string_view>

#include "tidings/codec/value.hpp"
#include "tidings/support/big_endian.hpp"
#include "tidings/support/scratch.hpp"

namespace tidings {

enum class AmqpKind : uint8_t {
    Null,
    Bool,
    Ubyte,
    Uint,
    Ulong,
    Long,
    Double,
    Timestamp,
    Small,  // the other integers of up to 32 bits
    Binary,
    String,
    Symbol,
    List,
    Map,
    Other  // none of those, malformed or cut off
};

struct AmqpItem {
    AmqpKind kind = AmqpKind::Other;
    uint64_t number = 0;      // also of Long, Small and Timestamp, and the bits of Double
    std::string_view text{};  // of Binary, String, Symbol; what is inside a List or Map
    uint32_t count = 0;       // of a List or Map
};

class AmqpCursor {
public:
    explicit AmqpCursor(std::string_view bytes) : bytes_(bytes) {}

    bool done() const { return at_ == bytes_.size(); }
    size_t position() const { return at_; }

    // The number of a described value's descriptor; 0: it is none that has a small number.
    uint8_t descriptor() {
        if (bytes_.size() - at_ < 3 || bytes_[at_] != 0 || static_cast<uint8_t>(bytes_[at_ + 1]) != 0x53) return 0;
        at_ += 3;
        return static_cast<uint8_t>(bytes_[at_ - 1]);
    }

    AmqpItem next() {
        if (at_ >= bytes_.size()) return {};
        const auto code = static_cast<uint8_t>(bytes_[at_++]);
        switch (code) {
            case 0x40: return {AmqpKind::Null};
            case 0x41: return {AmqpKind::Bool, 1};
            case 0x42: return {AmqpKind::Bool, 0};
            case 0x43: return {AmqpKind::Uint, 0};
            case 0x44: return {AmqpKind::Ulong, 0};
            case 0x45: return {AmqpKind::List};
            case 0x50: return fixed<uint8_t>(AmqpKind::Ubyte);
            case 0x51: return fixed<int8_t>(AmqpKind::Small);
            case 0x52: return fixed<uint8_t>(AmqpKind::Uint);
            case 0x53: return fixed<uint8_t>(AmqpKind::Ulong);
            case 0x54: return fixed<int8_t>(AmqpKind::Small);
            case 0x55: return fixed<int8_t>(AmqpKind::Long);
            case 0x56: {
                const AmqpItem item = fixed<uint8_t>(AmqpKind::Bool);
                return item.number > 1 ? AmqpItem{} : item;
            }
            case 0x60: return fixed<uint16_t>(AmqpKind::Small);
            case 0x61: return fixed<int16_t>(AmqpKind::Small);
            case 0x70: return fixed<uint32_t>(AmqpKind::Uint);
            case 0x71: return fixed<int32_t>(AmqpKind::Small);
            case 0x80: return fixed<uint64_t>(AmqpKind::Ulong);
            case 0x81: return fixed<uint64_t>(AmqpKind::Long);
            case 0x82: return fixed<uint64_t>(AmqpKind::Double);
            case 0x83: return fixed<uint64_t>(AmqpKind::Timestamp);
            case 0xA0: return sized<uint8_t>(AmqpKind::Binary);
            case 0xA1: return sized<uint8_t>(AmqpKind::String);
            case 0xA3: return sized<uint8_t>(AmqpKind::Symbol);
            case 0xB0: return sized<uint32_t>(AmqpKind::Binary);
            case 0xB1: return sized<uint32_t>(AmqpKind::String);
            case 0xB3: return sized<uint32_t>(AmqpKind::Symbol);
            case 0xC0: return compound<uint8_t>(AmqpKind::List);
            case 0xC1: return compound<uint8_t>(AmqpKind::Map);
            case 0xD0: return compound<uint32_t>(AmqpKind::List);
            case 0xD1: return compound<uint32_t>(AmqpKind::Map);
            default: return {};
        }
    }

private:
    template <class T>
    AmqpItem fixed(AmqpKind kind) {
        if (bytes_.size() - at_ < sizeof(T)) return {};
        const T value = load_big<T>(bytes_.data() + at_);
        at_ += sizeof(T);
        return {kind, static_cast<uint64_t>(static_cast<int64_t>(value))};
    }

    template <class Size>
    AmqpItem sized(AmqpKind kind) {
        if (bytes_.size() - at_ < sizeof(Size)) return {};
        const size_t size = load_big<Size>(bytes_.data() + at_);
        at_ += sizeof(Size);
        if (bytes_.size() - at_ < size) return {};
        at_ += size;
        return {kind, 0, bytes_.substr(at_ - size, size)};
    }

    template <class Size>
    AmqpItem compound(AmqpKind kind) {
        AmqpItem item = sized<Size>(kind);
        if (item.kind != kind || item.text.size() < sizeof(Size)) return {};
        item.count = load_big<Size>(item.text.data());
        item.text.remove_prefix(sizeof(Size));
        return item;
    }

    std::string_view bytes_;
    size_t at_ = 0;
};

class AmqpWriter {
public:
    explicit AmqpWriter(Scratch& out) : out_(out) {}

    void byte(uint8_t value) { out_.put(static_cast<char>(value)); }
    void null() { byte(0x40); }
    void boolean(bool value) { byte(value ? 0x41 : 0x42); }
    void ubyte(uint8_t value) { byte(0x50), byte(value); }
    void uint(uint32_t value) {
        if (value == 0) byte(0x43);
        else if (value < 256) byte(0x52), byte(static_cast<uint8_t>(value));
        else big(0x70, value);
    }
    void ulong(uint64_t value) {
        if (value == 0) byte(0x44);
        else if (value < 256) byte(0x53), byte(static_cast<uint8_t>(value));
        else big(0x80, value);
    }
    void signed_long(int64_t value) {
        if (value >= -128 && value < 128) byte(0x55), byte(static_cast<uint8_t>(value));
        else big(0x81, static_cast<uint64_t>(value));
    }
    void timestamp(int64_t ms) { big(0x83, static_cast<uint64_t>(ms)); }
    void real(double value) { big(0x82, std::bit_cast<uint64_t>(value)); }
    void binary(std::string_view value) { sized(0xA0, value); }
    void string(std::string_view value) { sized(0xA1, value); }
    void symbol(std::string_view value) { sized(0xA3, value); }
    void described(uint8_t number) { byte(0), byte(0x53), byte(number); }

    void value(const Value& value) {
        switch (value.type) {
            case Type::Bool: return boolean(value.i != 0);
            case Type::Int: return signed_long(value.i);
            case Type::Float: return real(value.d);
            case Type::Bytes: return binary(value.s);
            default: return string(value.s);
        }
    }

    // A list (0xC0) or map (0xC1) with this content.
    void compound(uint8_t short_code, std::string_view content, uint32_t count) {
        if (content.size() < 255 && count < 256) {
            byte(short_code), byte(static_cast<uint8_t>(content.size() + 1)), byte(static_cast<uint8_t>(count));
        } else {
            big(static_cast<uint8_t>(short_code + 16), static_cast<uint32_t>(content.size() + 4));
            store_big(out_.grow(4), count);
        }
        out_.put(content);
    }

private:
    template <class T>
    void big(uint8_t code, T value) {
        char* const place = out_.grow(1 + sizeof value);
        *place = static_cast<char>(code);
        store_big(place + 1, value);
    }

    void sized(uint8_t short_code, std::string_view value) {
        if (value.size() < 256) byte(short_code), byte(static_cast<uint8_t>(value.size()));
        else big(static_cast<uint8_t>(short_code + 16), static_cast<uint32_t>(value.size()));
        out_.put(value);
    }

    Scratch& out_;
};

}  // namespace tidings
