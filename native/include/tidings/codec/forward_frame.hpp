// The FORWARD frame, broker to broker: a message and where it still has to go (docs/wire.md, "Forwarded messages").
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/codec/reader.hpp"
#include "tidings/codec/writer.hpp"

namespace tidings {

// For which subscriptions of a type an event travels (event_trees.hpp).
struct EventFlags {
    bool by_type = true, by_filter = true;
    bool rising = false;  // towards the rendezvous node, as the sender sees it
};

struct ForwardHeader {
    enum Flags : uint8_t {
        Broadcast = 1,
        BitSet = 2,
        Tagged = 4,
        Repeated = 8,
        Event = 16,
        ByType = 32,
        ByFilter = 64,
        Rising = 128
    };
    static constexpr size_t routers_max = 1 << 16, name_bytes_max = 1024;

    uint8_t hops = 0;  // how many more links it may cross
    bool broadcast = false;
    bool tagged = false;  // an acknowledgement is wanted, by this tag
    uint64_t tag = 0;
    bool repeated = false;          // tagged: the publisher may have sent it before
    uint32_t origin = 0;            // of a broadcast; tagged: the router that numbered it
    uint64_t epoch = 0;             // tagged: of the origin
    std::vector<uint32_t> routers;  // ascending, each once
    std::vector<uint64_t> numbers;  // tagged: that the origin gave it for each of the routers
    std::string event_type;         // in whose tree an event travels; empty: it is none
    EventFlags event;

    void decode(std::string_view header) {
        Reader reader(header);
        hops = reader.u8();
        const uint8_t flags = reader.u8();
        event_type.clear();
        if (flags & Event) return read_event(reader, flags);
        if (flags > 15 || (flags & Broadcast && flags != Broadcast) || (flags & Repeated && !(flags & Tagged)))
            refuse("E_FORWARD_FLAGS", "unknown flags, or flags that exclude each other", 1);
        broadcast = flags & Broadcast;
        tagged = flags & Tagged;
        repeated = flags & Repeated;
        tag = tagged ? reader.varint() : 0;
        origin = tagged || broadcast ? router(reader, 0) : 0;
        epoch = tagged ? reader.u64() : 0;
        routers.clear();
        numbers.clear();
        if (broadcast) {
        } else if (flags & BitSet) read_bits(reader);
        else read_list(reader);
        if (tagged)
            for (size_t i = 0; i < routers.size(); ++i) numbers.push_back(reader.varint());
        if (!reader.done()) refuse("E_CODEC_TRAILING", "bytes after the destinations", reader.position());
    }

    // Appends length and header, as they stand before the message.
    void encode(std::string& out) const {
        const size_t start = out.size();
        Writer writer(out);
        writer.fixed<uint32_t>(0);
        writer.u8(hops);
        if (event_type.empty()) write_destinations(writer);
        else write_event(writer);
        const auto size = static_cast<uint32_t>(out.size() - start - 4);
        std::memcpy(out.data() + start, &size, 4);
    }

private:
    void write_destinations(Writer& writer) const {
        const bool bits = !broadcast && bits_size() < list_size();
        writer.u8(static_cast<uint8_t>((broadcast ? Broadcast : 0) | (bits ? BitSet : 0) | (tagged ? Tagged : 0) |
                                       (tagged && repeated ? Repeated : 0)));
        if (tagged) writer.varint(tag);
        if (tagged || broadcast) writer.varint(origin);
        if (tagged) writer.fixed<uint64_t>(epoch);
        if (bits) write_bits(writer);
        else if (!broadcast) write_list(writer);
        if (tagged)
            for (const uint64_t number : numbers) writer.varint(number);
    }

    void write_event(Writer& writer) const {
        writer.u8(static_cast<uint8_t>(Event | (event.by_type ? ByType : 0) | (event.by_filter ? ByFilter : 0) |
                                       (event.rising ? Rising : 0)));
        writer.varint(event_type.size());
        writer.bytes(event_type);
    }

    void read_event(Reader& reader, uint8_t flags) {
        if (flags & ~(Event | ByType | ByFilter | Rising))
            refuse("E_FORWARD_FLAGS", "unknown flags, or flags that exclude each other", 1);
        broadcast = tagged = repeated = false;
        tag = epoch = 0;
        origin = 0;
        routers.clear();
        numbers.clear();
        event = {bool(flags & ByType), bool(flags & ByFilter), bool(flags & Rising)};
        const size_t at = reader.position(), size = reader.length();
        if (size == 0 || size > name_bytes_max) refuse("E_FORWARD_TYPE", "names of types have 1 to 1024 bytes", at);
        event_type = reader.bytes(size);
        if (!reader.done()) refuse("E_CODEC_TRAILING", "bytes after the name of the type", reader.position());
    }

    static uint32_t router(Reader& reader, uint64_t base) {
        const size_t at = reader.position();
        const uint64_t number = reader.varint();
        if (number > UINT32_MAX - base) refuse("E_FORWARD_ROUTER", "a router's number has 32 bits", at);
        return static_cast<uint32_t>(base + number);
    }

    void read_list(Reader& reader) {
        const size_t at = reader.position();
        const uint64_t count = reader.varint();
        if (count > std::min(reader.left(), routers_max)) refuse("E_FORWARD_ROUTER", "too many destinations", at);
        for (uint64_t i = 0; i < count; ++i) {
            const size_t here = reader.position();
            const uint32_t next = router(reader, i ? routers.back() : 0);
            if (i && next == routers.back()) refuse("E_FORWARD_ROUTER", "a destination twice", here);
            routers.push_back(next);
        }
    }

    void read_bits(Reader& reader) {
        const uint32_t first = router(reader, 0);
        const size_t at = reader.position();
        const size_t size = reader.length();
        if (size > routers_max / 8) refuse("E_FORWARD_ROUTER", "too many destinations", at);
        const std::string_view bits = reader.bytes(size);
        for (size_t i = 0; i < 8 * size; ++i) {
            if (!(static_cast<uint8_t>(bits[i / 8]) >> (i % 8) & 1)) continue;
            if (i > UINT32_MAX - first) refuse("E_FORWARD_ROUTER", "a router's number has 32 bits", at);
            routers.push_back(first + static_cast<uint32_t>(i));
        }
    }

    static size_t varint_size(uint64_t n) {
        size_t size = 1;
        for (; n >= 0x80; n >>= 7) ++size;
        return size;
    }

    size_t list_size() const {
        size_t size = varint_size(routers.size());
        uint32_t before = 0;
        for (const uint32_t one : routers) {
            size += varint_size(one - before);
            before = one;
        }
        return size;
    }

    size_t span_bytes() const { return (size_t{routers.back()} - routers.front()) / 8 + 1; }

    size_t bits_size() const {
        if (routers.empty() || span_bytes() > routers_max / 8) return SIZE_MAX;
        return varint_size(routers.front()) + varint_size(span_bytes()) + span_bytes();
    }

    void write_list(Writer& writer) const {
        writer.varint(routers.size());
        uint32_t before = 0;
        for (const uint32_t one : routers) {
            writer.varint(one - before);
            before = one;
        }
    }

    void write_bits(Writer& writer) const {
        std::string bits(span_bytes(), '\0');
        for (const uint32_t one : routers) {
            const uint32_t i = one - routers.front();
            bits[i / 8] = static_cast<char>(bits[i / 8] | 1 << (i % 8));
        }
        writer.varint(routers.front());
        writer.varint(bits.size());
        writer.bytes(bits);
    }
};

}  // namespace tidings
