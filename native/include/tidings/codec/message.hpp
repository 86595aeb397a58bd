// A decoded message: views into the buffer it was read from. Nothing is copied.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tidings/codec/value.hpp"

namespace tidings {

struct Attribute {
    std::string_view name;
    Value value;
    uint64_t name_hash;  // hash_name(name) of message_reader.hpp
    uint64_t hash;       // of the pair: hash_value(value, name_hash); equal values of one name have equal hashes
};

struct MessageView {
    enum Flags : uint8_t { Persistent = 1, Queue = 2, Expires = 4, Delayed = 8 };

    uint8_t flags = 0;
    uint8_t priority = 4;
    const uint8_t* id = nullptr;  // 16 bytes
    std::string_view destination;
    std::span<const Attribute>
        attributes;         // wire attributes, readings, then the derived ones (docs/wire.md, "what a selector sees")
    size_t wire_count = 0;  // how many of them are the wire's
    size_t reading_count = 0;  // untyped texts among them once more, as what they read as: for indexes
    std::string_view body;
    std::string_view bytes;  // the whole message

    bool is_reading(size_t i) const { return i - wire_count < reading_count; }

    // True for an event of a type: Python checks those (src/tidings/model/event_type_topics.py).
    bool typed() const { return destination.starts_with("@type.") && !(flags & Queue); }

    const Attribute* find(std::string_view name, uint64_t name_hash) const {
        for (const Attribute& a : attributes)
            if (a.name_hash == name_hash && a.name == name) return &a;
        return nullptr;
    }
};

}  // namespace tidings
