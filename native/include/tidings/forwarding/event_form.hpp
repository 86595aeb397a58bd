// The form of an event type: what its events must carry. A connection has one for each type that it advertises, by the
// topic of the type's events. An event that fits is forwarded at once; what is wrong with any other, Python says
// (src/tidings/model/event_type.py has the same rules).
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tidings/codec/message_reader.hpp"

namespace tidings {

// In the order of `AttributeType` in Python.
enum class EventValue : uint8_t { Bool, Int, Float, String, Bytes };

class EventForm {
public:
    struct Declared {
        std::string name;
        EventValue kind;
        bool optional;
        uint64_t hash = 0;
    };

    EventForm(std::string type, std::vector<Declared> attributes)
        : type_(std::move(type)),
          declared_(std::move(attributes)) {
        for (Declared& one : declared_) {
            one.hash = hash_name(one.name);
            required_ += !one.optional;
        }
        std::ranges::sort(declared_, {}, &Declared::hash);
    }

    bool fits(const MessageView& event) const {
        size_t required = 0;
        bool named = false;
        for (size_t i = 0; i < event.wire_count; ++i) {
            const Attribute& given = event.attributes[i];
            if (given.name.starts_with("JMS")) {  // of the header
                if (given.name != "JMSType") continue;
                if (given.value.s != type_) return false;
                named = true;
                continue;
            }
            const Declared* const declared = find(given);
            if (!declared && is_trace_context(given.name)) continue;
            if (!declared || !fits(given, declared->kind, event)) return false;
            required += !declared->optional;
        }
        return named && required == required_;
    }

private:
    const Declared* find(const Attribute& given) const {
        auto at = std::ranges::lower_bound(declared_, given.name_hash, {}, &Declared::hash);
        for (; at != declared_.end() && at->hash == given.name_hash; ++at)
            if (at->name == given.name) return &*at;
        return nullptr;
    }

    // Of https://www.w3.org/TR/trace-context/: every event may carry it.
    static bool is_trace_context(std::string_view name) { return name == "traceparent" || name == "tracestate"; }

    static bool fits(const Attribute& given, EventValue kind, const MessageView& event) {
        if (given.value.type != Type::Text) return fits(given.value.type, kind);
        if (kind == EventValue::String) return true;
        for (size_t i = event.wire_count; i < event.wire_count + event.reading_count; ++i)
            if (event.attributes[i].name == given.name) return fits(event.attributes[i].value.type, kind);
        return false;
    }

    static bool fits(Type type, EventValue kind) {
        switch (type) {
            case Type::Bool: return kind == EventValue::Bool;
            case Type::Int: return kind == EventValue::Int || kind == EventValue::Float;
            case Type::Float: return kind == EventValue::Float;
            case Type::String: return kind == EventValue::String;
            case Type::Bytes: return kind == EventValue::Bytes;
            case Type::Text: return false;
        }
        return false;
    }

    std::string type_;
    std::vector<Declared> declared_;  // by hash
    size_t required_ = 0;
};

// By the topic of the type's events.
class EventForms {
public:
    void set(std::string topic, EventForm form) { forms_.insert_or_assign(std::move(topic), std::move(form)); }
    void drop(std::string_view topic) {
        if (const auto found = forms_.find(topic); found != forms_.end()) forms_.erase(found);
    }
    bool fits(const MessageView& event) const {
        const auto found = forms_.find(event.destination);
        return found != forms_.end() && found->second.fits(event);
    }

private:
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };

    std::unordered_map<std::string, EventForm, Hash, std::equal_to<>> forms_;
};

}  // namespace tidings
