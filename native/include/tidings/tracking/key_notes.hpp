// Notes which messages have which values of chosen attributes, so that a message can be found by a business key.
//
// A note is the hash of the value and the message's id. Values that selectors call equal have the same hash: numbers by
// their value, untyped text as what it reads as. Of a W3C `traceparent` it is the trace id that counts.
// src/tidings/tracking/recording/key_notes.py hashes what is looked for in the same way.
#pragma once
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tidings/codec/message.hpp"
#include "tidings/codec/message_reader.hpp"
#include "tidings/support/error.hpp"

namespace tidings {

class KeyNotes {
public:
    static constexpr size_t id_bytes = 16, names_max = 64;

    struct Batch {
        std::string name, hashes, ids;  // of every message 8 bytes, the lowest first, and 16
    };

    void choose(const std::vector<std::string>& names) {
        if (names.size() > names_max) throw UsageError{"E_TRACKING_KEYS", "at most 64 attributes can be keys"};
        keys_.clear();
        for (const std::string& name : names) keys_.push_back({hash_name(name), name == "traceparent", {name, {}, {}}});
    }

    void note(const MessageView& view) {
        for (Key& key : keys_)
            for (size_t i = 0; i < view.wire_count; ++i)
                if (const Attribute& one = view.attributes[i]; one.name_hash == key.hash && one.name == key.batch.name)
                    [[unlikely]]
                    add(key, one.value, view.id);
    }

    // What was noted since the last call.
    std::vector<Batch> take() {
        std::vector<Batch> taken;
        for (Key& key : keys_)
            if (!key.batch.ids.empty()) {
                taken.push_back(
                    {key.batch.name, std::exchange(key.batch.hashes, {}), std::exchange(key.batch.ids, {})});
            }
        return taken;
    }

    // Of the value as it is looked for: independent of process and machine.
    static uint64_t hash_of(const Value& value, bool trace_context) {
        if (trace_context && value.kind() == Kind::String)
            if (const std::string_view trace = trace_id(value.s); !trace.empty()) return of_bytes('s', trace);
        if (value.type == Type::Text)
            if (const std::optional<Value> read = reading(value.s)) return hash_of(*read, false);
        switch (value.kind()) {
            case Kind::Bool: return of_word('b', static_cast<uint64_t>(value.i));
            case Kind::Number: return of_number(value);
            case Kind::String: return of_bytes('s', value.s);
            case Kind::Bytes: return of_bytes('y', value.s);
        }
        return 0;
    }

private:
    struct Key {
        uint64_t hash;  // of the name
        bool trace_context;
        Batch batch;
    };

    static void add(Key& key, const Value& value, const uint8_t* id) {
        const uint64_t hash = hash_of(value, key.trace_context);
        for (size_t i = 0; i < sizeof hash; ++i) key.batch.hashes.push_back(static_cast<char>(hash >> 8 * i));
        key.batch.ids.append(reinterpret_cast<const char*>(id), id_bytes);
    }

    // version "-" trace id "-" parent "-" flags, all in hexadecimal digits; empty: it has not this form.
    static std::string_view trace_id(std::string_view text) {
        static constexpr size_t version = 3, digits = 32, rest = 20;
        if (text.size() < version + digits + rest || text[2] != '-' || text[version + digits] != '-') return {};
        return text.substr(version, digits);
    }

    static uint64_t of_number(const Value& value) {
        static constexpr double integers = 9223372036854775808.0;
        if (value.type == Type::Int) return of_word('n', static_cast<uint64_t>(value.i));
        if (value.d >= -integers && value.d < integers && value.d == std::floor(value.d))
            return of_word('n', static_cast<uint64_t>(static_cast<int64_t>(value.d)));
        uint64_t bits;
        std::memcpy(&bits, &value.d, sizeof bits);
        return of_word('d', bits);
    }

    static uint64_t of_word(char kind, uint64_t word) {
        std::string bytes;
        for (size_t i = 0; i < sizeof word; ++i) bytes.push_back(static_cast<char>(word >> 8 * i));
        return of_bytes(kind, bytes);
    }

    static uint64_t of_bytes(char kind, std::string_view bytes) { return hash64(bytes, static_cast<uint8_t>(kind)); }

    std::vector<Key> keys_;
};

}  // namespace tidings
