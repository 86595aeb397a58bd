// One message of docs/wire.md read into views. Attributes go to the end of a vector that the caller owns and reuses, so
// a message costs no allocation. Besides the wire's attributes, those made from the fixed part are appended as
// `derived` asks: who matches knows which of them anybody constrains.
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "tidings/codec/message.hpp"
#include "tidings/codec/reader.hpp"

namespace tidings {

// The seed of every hash in this process: inputs that collide cannot be prepared outside.
inline uint64_t process_seed() {
    static const uint64_t seed = [] {
        std::random_device chance;
        return static_cast<uint64_t>(chance()) << 32 | chance();
    }();
    return seed;
}

inline uint64_t hash_name(std::string_view name) { return hash64(name, process_seed()); }

enum Derived : uint8_t {
    DerivedDestination = 1,  // @topic or @queue
    DerivedPriority = 2,
    DerivedDeliveryMode = 4,
    DerivedTimestamp = 8,
    DerivedMessageId = 16,
    DerivedAll = 31,
};

// The bit that makes a name appear, or 0 for names that only the wire can bring.
inline uint8_t derived_bit(std::string_view name) {
    if (name == "@topic" || name == "@queue") return DerivedDestination;
    if (name == "JMSPriority") return DerivedPriority;
    if (name == "JMSDeliveryMode") return DerivedDeliveryMode;
    if (name == "JMSTimestamp") return DerivedTimestamp;
    if (name == "JMSMessageID") return DerivedMessageId;
    return 0;
}

// Counts the uses of each derived attribute, so that the set in use is known at no cost.
class DerivedCounts {
public:
    void add(uint8_t bits) { change(bits, 1); }
    void remove(uint8_t bits) { change(bits, -1); }
    uint8_t mask() const { return mask_; }

private:
    void change(uint8_t bits, int by) {
        for (size_t i = 0; bits >> i; ++i) {
            if (!(bits >> i & 1)) continue;
            counts_[i] += by;
            mask_ = static_cast<uint8_t>(counts_[i] ? mask_ | 1u << i : mask_ & ~(1u << i));
        }
    }

    std::array<int64_t, 8> counts_{};
    uint8_t mask_ = 0;
};

// Text that views point to and that dies with the batch: blocks are kept and filled again.
class TextArena {
public:
    char* take(size_t size) {
        if (used_ + size > block_bytes || blocks_.empty()) {
            if (!blocks_.empty()) ++block_;
            if (block_ == blocks_.size()) blocks_.push_back(std::make_unique<char[]>(block_bytes));
            used_ = 0;
        }
        char* taken = blocks_[block_].get() + used_;
        used_ += size;
        return taken;
    }
    void clear() { block_ = used_ = 0; }

    static constexpr size_t block_bytes = 1 << 14;

private:
    std::vector<std::unique_ptr<char[]>> blocks_;
    size_t block_ = 0, used_ = 0;
};

inline constexpr size_t message_header_bytes = 28;
inline constexpr size_t id_text_bytes = 3 + 32;

// The time at which the message with this id was made.
inline int64_t id_time_ms(const uint8_t* id) {
    int64_t milliseconds = 0;
    for (int i = 8; i < 14; ++i) milliseconds = milliseconds << 8 | id[i];
    return milliseconds;
}

inline CodecError too_short(std::string_view bytes) {
    return {"E_CODEC_TRUNCATED", "shorter than a message can be", bytes.size()};
}

// Header fields that travel as attributes: before all others, in this order.
enum HeaderField : uint8_t { CorrelationId, JmsType, ReplyTo, Timestamp, Expiration, DeliveryTime, NoHeaderField };

inline HeaderField header_field(std::string_view name) {
    static constexpr std::string_view names[] = {"JMSCorrelationID", "JMSType",       "JMSReplyTo",
                                                 "JMSTimestamp",     "JMSExpiration", "JMSDeliveryTime"};
    for (uint8_t field = 0; field < NoHeaderField; ++field)
        if (name == names[field]) return static_cast<HeaderField>(field);
    return NoHeaderField;
}

inline constexpr size_t destination_bytes_max = 1024;

// Which characters of a destination's name need a closer look.
enum class NameSign : uint8_t { Plain, Dot, Slash, Foreign, Forbidden };

inline constexpr auto name_signs = [] {
    std::array<NameSign, 256> signs{};
    for (size_t c = 0; c < 0x20; ++c) signs[c] = NameSign::Forbidden;
    signs[0x7F] = signs['*'] = signs['>'] = NameSign::Forbidden;
    signs['.'] = NameSign::Dot, signs['/'] = NameSign::Slash, signs['+'] = signs['#'] = NameSign::Foreign;
    return signs;
}();

// A destination name: levels divided by `.`, none empty, without wildcards and control characters. It does not begin
// with `/`, and no part of it between `.` and `/` is `+` or `#`, the wildcards of others (model/destination.py).
inline void check_destination(std::string_view name, size_t position) {
    if (name.empty() || name.size() > destination_bytes_max)
        refuse("E_CODEC_DESTINATION", "a destination name has 1 to 1024 bytes", position);
    const auto divides = [&](size_t i) { return i >= name.size() || name[i] == '.' || name[i] == '/'; };
    for (size_t i = 0; i < name.size(); ++i) {
        const NameSign sign = name_signs[static_cast<uint8_t>(name[i])];
        if (sign == NameSign::Plain) continue;
        if (sign == NameSign::Forbidden)
            refuse("E_CODEC_DESTINATION", "a character that destination names must not hold", position + i);
        if (sign == NameSign::Dot && (i == 0 || name[i - 1] == '.'))
            refuse("E_CODEC_DESTINATION", "an empty level", position + i);
        if (sign == NameSign::Slash && i == 0)
            refuse("E_CODEC_DESTINATION", "a name does not begin with '/'", position);
        if (sign == NameSign::Foreign && divides(i - 1) && divides(i + 1))
            refuse("E_CODEC_DESTINATION", "'+' and '#' are not wildcards here: write '*' and '>'", position + i);
    }
    if (name.back() == '.') refuse("E_CODEC_DESTINATION", "an empty level", position + name.size());
}

inline bool is_destination(std::string_view name) {
    try {
        check_destination(name, 0);
        return true;
    } catch (const CodecError&) {
        return false;
    }
}

// The time at which a message expires; 0: never.
inline int64_t expiration(const MessageView& message) {
    if (!(message.flags & MessageView::Expires)) return 0;
    static const uint64_t hash = hash_name("JMSExpiration");
    return message.find("JMSExpiration", hash)->value.i;
}

inline bool expired(const MessageView& message, int64_t now_ms) {
    return message.flags & MessageView::Expires && expiration(message) <= now_ms;
}

class MessageDecoder {
public:
    // Appends the attributes to `attributes`; `view.attributes` holds until that vector grows. Throws CodecError with a
    // position in `bytes`; then it is for the caller to drop the attributes of the broken message.
    void decode(std::string_view bytes, uint8_t derived, MessageView& view, std::vector<Attribute>& attributes,
                TextArena& texts, bool readings = true) {
        Reader reader(bytes);
        view.bytes = bytes;
        if (bytes.size() < message_header_bytes) throw too_short(bytes);
        read_header(reader, view);
        const uint16_t count = reader.u16();
        const size_t destination_bytes = reader.u16(), attribute_bytes = reader.u32();
        if (destination_bytes + attribute_bytes > reader.left())
            refuse("E_CODEC_TRUNCATED", "the lengths go beyond the end", bytes.size());
        view.destination = reader.text(destination_bytes);
        check_destination(view.destination, message_header_bytes);
        Reader inner = reader.part(attribute_bytes);
        const size_t first = attributes.size();
        Seen seen;
        read_attributes(inner, count, seen, attributes);
        if (seen.expiration != ((view.flags & MessageView::Expires) != 0))
            refuse("E_CODEC_FLAGS", "the flags and JMSExpiration disagree", 1);
        if (seen.delivery_time != ((view.flags & MessageView::Delayed) != 0))
            refuse("E_CODEC_FLAGS", "the flags and JMSDeliveryTime disagree", 1);
        view.wire_count = count;
        view.reading_count = seen.untyped && readings ? add_readings(first, attributes) : 0;
        view.body = reader.rest();
        derive(view, seen.timestamp ? derived & ~DerivedTimestamp : derived, attributes, texts);
        view.attributes = {attributes.data() + first, attributes.size() - first};
    }

private:
    struct Seen {
        uint8_t next = 0;  // header fields from this one on may still come
        bool expiration = false, delivery_time = false, timestamp = false, untyped = false;
    };

    static void read_header(Reader& reader, MessageView& view) {
        if (reader.u8() != 1) refuse("E_CODEC_VERSION", "unknown version of the message format", 0);
        view.flags = reader.u8();
        if (view.flags & ~15) refuse("E_CODEC_FLAGS", "unknown flags", 1);
        view.priority = reader.u8();
        if (view.priority > 9) refuse("E_CODEC_PRIORITY", "priorities are 0 to 9", 2);
        if (reader.u8() != 0) refuse("E_CODEC_RESERVED", "the reserved byte is not 0", 3);
        view.id = reinterpret_cast<const uint8_t*>(reader.bytes(16).data());
    }

    void read_attributes(Reader& reader, size_t count, Seen& seen, std::vector<Attribute>& attributes) {
        const size_t first = attributes.size();
        starts_.clear();
        try {
            uint64_t bloom = 0;
            for (size_t i = 0; i < count; ++i) {
                const std::string_view name = read_name(reader);
                const size_t start = reader.position() - name.size();
                const HeaderField field = name[0] > 'J' ? NoHeaderField : check_name(name, start);
                const uint64_t name_hash = hash_name(name);
                Attribute& added = attributes.emplace_back();
                added.name = name;
                added.name_hash = name_hash;
                starts_.push_back(static_cast<uint32_t>(start));
                const uint64_t bit = 1ull << (name_hash & 63);
                if ((bloom & bit) && count <= few) check_new(attributes, first);
                bloom |= bit;
                if (field == NoHeaderField) {
                    read_value(reader, added.value, AttributeValue);
                    seen.untyped |= added.value.type == Type::Text;
                    seen.next = NoHeaderField;
                } else {
                    added.value = read_header_field(reader, field, start, seen);
                }
                added.hash = hash_value(added.value, name_hash);
            }
            if (!reader.done()) refuse("E_CODEC_TRAILING", "bytes after the last attribute", reader.position());
        } catch (const CodecError&) {
            if (count > few) check_distinct(attributes, first);  // an earlier error counts first
            throw;
        }
        if (count > few) check_distinct(attributes, first);
    }

    static size_t add_readings(size_t first, std::vector<Attribute>& attributes) {
        const size_t end = attributes.size();
        for (size_t i = first; i < end; ++i) {
            if (attributes[i].value.type != Type::Text) continue;
            if (const std::optional<Value> read = reading(attributes[i].value.s)) {
                const std::string_view name = attributes[i].name;
                const uint64_t name_hash = attributes[i].name_hash;
                attributes.emplace_back(Attribute{name, *read, name_hash, hash_value(*read, name_hash)});
            }
        }
        return attributes.size() - end;
    }

    static HeaderField check_name(std::string_view name, size_t start) {
        if (name[0] == '@') refuse("E_CODEC_NAME", "names of attributes do not begin with @", start);
        if (!name.starts_with("JMS") || name.starts_with("JMSX")) return NoHeaderField;
        const HeaderField field = header_field(name);
        if (field == NoHeaderField) refuse("E_CODEC_NAME", "names that begin with JMS are reserved", start);
        return field;
    }

    static Value read_header_field(Reader& reader, HeaderField field, size_t start, Seen& seen) {
        if (field < seen.next) refuse("E_CODEC_ORDER", "a header field after one that follows it", start);
        seen.next = static_cast<uint8_t>(field + 1);
        const size_t value_start = reader.position();
        const Value value = read_value(reader, field < Timestamp ? StringOnly : IntOnly);
        if (field == ReplyTo) {
            const size_t text_start = reader.position() - value.s.size();
            if (!value.s.starts_with("topic:") && !value.s.starts_with("queue:"))
                refuse("E_CODEC_DESTINATION", "JMSReplyTo begins with topic: or queue:", text_start);
            check_destination(value.s.substr(6), text_start + 6);
        }
        if (field >= Timestamp) {
            if (value.i < (field != Timestamp)) refuse("E_CODEC_RANGE", "no such time", value_start);
            (field == Timestamp ? seen.timestamp : field == Expiration ? seen.expiration : seen.delivery_time) = true;
        }
        return value;
    }

    // Few names: against all before, which the filter of 64 bits in read_attributes makes rare.
    void check_new(const std::vector<Attribute>& attributes, size_t first) const {
        const Attribute& added = attributes.back();
        for (size_t i = first; i + 1 < attributes.size(); ++i)
            if (attributes[i].name_hash == added.name_hash && attributes[i].name == added.name)
                refuse("E_CODEC_DUPLICATE", "an attribute appears twice", starts_.back());
    }

    // Many names: sorted, so that no choice of names costs more than n log n.
    void check_distinct(const std::vector<Attribute>& attributes, size_t first) {
        const Attribute* const a = attributes.data() + first;
        order_.resize(attributes.size() - first);
        std::iota(order_.begin(), order_.end(), 0u);
        std::sort(order_.begin(), order_.end(), [a](uint32_t x, uint32_t y) {
            if (a[x].name_hash != a[y].name_hash) return a[x].name_hash < a[y].name_hash;
            const int order = a[x].name.compare(a[y].name);
            return order ? order < 0 : x < y;
        });
        uint32_t second = UINT32_MAX;
        for (size_t i = 1; i < order_.size(); ++i)
            if (a[order_[i]].name == a[order_[i - 1]].name) second = std::min(second, order_[i]);
        if (second != UINT32_MAX) refuse("E_CODEC_DUPLICATE", "an attribute appears twice", starts_[second]);
    }

    struct DerivedNames {
        struct Name {
            std::string_view text;
            uint64_t hash = hash_name(text);
        };
        Name topic{"@topic"}, queue{"@queue"}, priority{"JMSPriority"}, mode{"JMSDeliveryMode"},
            timestamp{"JMSTimestamp"}, id{"JMSMessageID"};
    };

    static void derive(const MessageView& view, unsigned derived, std::vector<Attribute>& attributes,
                       TextArena& texts) {
        static const DerivedNames names;
        const auto add = [&](const DerivedNames::Name& name, const Value& value) {
            attributes.emplace_back(Attribute{name.text, value, name.hash, hash_value(value, name.hash)});
        };
        if (derived & DerivedDestination)
            add(view.flags & MessageView::Queue ? names.queue : names.topic, Value::string(view.destination));
        if (derived & DerivedPriority) add(names.priority, Value::integer(view.priority));
        if (derived & DerivedDeliveryMode)
            add(names.mode, Value::string(view.flags & MessageView::Persistent ? "PERSISTENT" : "NON_PERSISTENT"));
        if (derived & DerivedTimestamp) add(names.timestamp, Value::integer(id_time_ms(view.id)));
        if (derived & DerivedMessageId) add(names.id, Value::string(id_text(view.id, texts)));
    }

    static std::string_view id_text(const uint8_t* id, TextArena& texts) {
        char* const text = texts.take(id_text_bytes);
        std::memcpy(text, "ID:", 3);
        for (int i = 0; i < 16; ++i) {
            text[3 + 2 * i] = "0123456789abcdef"[id[i] >> 4];
            text[4 + 2 * i] = "0123456789abcdef"[id[i] & 15];
        }
        return {text, id_text_bytes};
    }

    static constexpr size_t few = 32;

    std::vector<uint32_t> starts_, order_;
};

}  // namespace tidings
