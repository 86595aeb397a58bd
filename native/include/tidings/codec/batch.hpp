// The bytes of one socket read, decoded in one call. A broken message is an entry with an error and does not stop the
// others; only a frame that is too long does, because nothing after its length can be trusted to be worth waiting for.
// All storage is reused by the next decode.
#pragma once
#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tidings/codec/message_reader.hpp"

namespace tidings {

inline constexpr size_t frame_header_bytes = 8;

enum FrameType : uint8_t {
    FramePublish = 0x10,
    FrameDeliver = 0x11,
    FrameReceipts = 0x12,
    FrameSubscribe = 0x20,
    FrameUnsubscribe = 0x21,
    FrameCredit = 0x22,
    FrameAck = 0x23,
    FrameForward = 0x41
};

struct Entry {
    enum class Status : uint8_t { Message, Broken, Control };

    Status status = Status::Message;
    uint8_t type = 0, frame_flags = 0;  // of the frame; 0 where there is none
    uint16_t session = 0;
    size_t offset = 0;  // of the message, or of a control frame's payload, in the buffer
    std::string_view
        prefix;  // between frame header and message: receipt number; subscription, count, tag; destinations
    std::string_view payload;     // the message's bytes, or a control frame's payload
    MessageView message;          // if status is Message
    CodecError error{};           // if status is Broken; the position counts from `offset`
    size_t first = 0, count = 0;  // the message's attributes in the arena

    // That a PUBLISH frame asks for; 0: none.
    uint32_t receipt() const {
        uint32_t number;
        std::memcpy(&number, prefix.data(), 4);
        return number;
    }
};

class MessageBatch {
public:
    struct Options {
        uint8_t derived = DerivedAll;
        size_t payload_bytes_max = 1 << 20;
        bool stop_at_control =
            false;             // a frame that is not a message is then the last entry, so that order can be kept
        bool readings = true;  // whether anybody wants to know what untyped texts read as
    };

    // Frames. The last one may be incomplete: consumed() says where to go on.
    void decode_frames(std::string_view data, const Options& options) {
        clear();
        while (data.size() - consumed_ >= frame_header_bytes) {
            Reader reader(data.substr(consumed_));
            const size_t size = reader.u32();
            if (size > options.payload_bytes_max) {
                fatal_ = CodecError{"E_CODEC_LIMIT", "a frame is longer than agreed", consumed_};
                break;
            }
            if (data.size() - consumed_ - frame_header_bytes < size) break;
            Entry& entry = entries_.emplace_back();
            entry.type = reader.u8();
            entry.frame_flags = reader.u8();
            entry.session = reader.u16();
            add_frame(entry, reader.bytes(size), consumed_ + frame_header_bytes, options);
            consumed_ += frame_header_bytes + size;
            if (options.stop_at_control && entry.status == Entry::Status::Control) break;
        }
        settle();
    }

    // Messages, each after its length as u32, as they lie in stores and on links.
    void decode_messages(std::string_view data, const Options& options) {
        clear();
        while (data.size() - consumed_ >= 4) {
            const size_t size = Reader(data.substr(consumed_)).u32();
            if (size > options.payload_bytes_max) {
                fatal_ = CodecError{"E_CODEC_LIMIT", "a message is longer than agreed", consumed_};
                break;
            }
            if (data.size() - consumed_ - 4 < size) break;
            add_message(entries_.emplace_back(), data.substr(consumed_ + 4, size), consumed_ + 4, options);
            consumed_ += 4 + size;
        }
        settle();
    }

    // Messages one after the other, the i-th ends at ends[i]: a column of a table. One that is too long is broken like
    // any other.
    void decode_column(std::string_view data, std::span<const uint64_t> ends, const Options& options) {
        clear();
        for (const uint64_t end : ends) {
            if (end < consumed_ || end > data.size())
                throw UsageError{"E_BATCH_ENDS", "ends must ascend within the data"};
            const std::string_view bytes = data.substr(consumed_, end - consumed_);
            Entry& entry = entries_.emplace_back();
            if (bytes.size() <= options.payload_bytes_max) add_message(entry, bytes, consumed_, options);
            else refuse_message(entry, bytes, consumed_);
            consumed_ = end;
        }
        settle();
    }

    // One message and nothing else.
    void decode_message(std::string_view data, const Options& options) {
        clear();
        add_message(entries_.emplace_back(), data, 0, options);
        consumed_ = data.size();
        settle();
    }

    size_t size() const { return entries_.size(); }
    size_t broken() const {
        return static_cast<size_t>(std::ranges::count(entries_, Entry::Status::Broken, &Entry::status));
    }
    const Entry& operator[](size_t i) const { return entries_[i]; }
    auto begin() const { return entries_.begin(); }
    auto end() const { return entries_.end(); }
    const Attribute* last_attribute() const {
        return attributes_.data() + attributes_.size() - 1;
    }  // unless there is none
    size_t consumed() const { return consumed_; }
    const std::optional<CodecError>& fatal() const { return fatal_; }

    // Kept for the next decode.
    size_t capacity_bytes() const {
        return entries_.capacity() * sizeof(Entry) + attributes_.capacity() * sizeof(Attribute);
    }

    void clear() {
        entries_.clear();
        attributes_.clear();
        texts_.clear();
        consumed_ = 0;
        fatal_.reset();
    }

private:
    void add_frame(Entry& entry, std::string_view payload, size_t offset, const Options& options) {
        const size_t prefix = prefix_bytes(entry.type, payload);
        if (prefix == 0) {
            entry.status = Entry::Status::Control;
            entry.payload = payload;
            entry.offset = offset;
        } else if (payload.size() < prefix) {
            entry.status = Entry::Status::Broken;
            entry.payload = payload;
            entry.offset = offset;
            entry.error = CodecError{"E_CODEC_TRUNCATED", "the data ends too early", payload.size()};
        } else {
            entry.prefix = payload.substr(0, prefix);
            add_message(entry, payload.substr(prefix), offset + prefix, options);
        }
    }

    // The bytes before the message; 0: the frame holds none.
    static size_t prefix_bytes(uint8_t type, std::string_view payload) {
        if (type == FramePublish) return 4;
        if (type == FrameDeliver) return 16;
        if (type != FrameForward) return 0;
        return payload.size() < 4 ? 4 : size_t{4} + Reader(payload).u32();
    }

    void add_message(Entry& entry, std::string_view bytes, size_t offset, const Options& options) {
        entry.payload = bytes;
        entry.offset = offset;
        entry.first = attributes_.size();
        if (bytes.size() < message_header_bytes) {  // without an exception: a flood of tiny ones must stay cheap
            entry.status = Entry::Status::Broken;
            entry.error = too_short(bytes);
            return;
        }
        try {
            decoder_.decode(bytes, options.derived, entry.message, attributes_, texts_, options.readings);
            entry.count = attributes_.size() - entry.first;
        } catch (const CodecError& error) {
            attributes_.resize(entry.first);
            entry.status = Entry::Status::Broken;
            entry.error = error;
        }
    }

    static void refuse_message(Entry& entry, std::string_view bytes, size_t offset) {
        entry.status = Entry::Status::Broken;
        entry.payload = bytes;
        entry.offset = offset;
        entry.error = CodecError{"E_CODEC_LIMIT", "a message is longer than agreed", 0};
    }

    // The arena has stopped growing: now its addresses hold.
    void settle() {
        for (Entry& entry : entries_)
            if (entry.status == Entry::Status::Message)
                entry.message.attributes = {attributes_.data() + entry.first, entry.count};
    }

    MessageDecoder decoder_;
    std::vector<Entry> entries_;
    std::vector<Attribute> attributes_;
    TextArena texts_;
    size_t consumed_ = 0;
    std::optional<CodecError> fatal_;
};

}  // namespace tidings
