// The input of a STOMP client, up to the first frame that is not the forwarder's: SEND frames as PUBLISH frames, then
// ACK frames.
#pragma once
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/forwarding/events.hpp"
#include "tidings/stomp/send.hpp"

namespace tidings {

// ACK frames that follow each other: plain ones of STOMP 1.2, which say `id:subscription-tag` and nothing else. All
// others, and what is wrong with one, are Python's.
struct StompAcks {
    uint32_t subscription = 0;
    bool cumulative = false;
    std::vector<uint64_t> tags;
    size_t end = 0;  // in the input

    // False: it is not one of these, or another subscription's.
    bool add(const StompFrame& frame, const StompState& state) {
        if (frame.command != "ACK" || state.version != StompVersion::V12 || frame.lines.size() != 1 ||
            !frame.body.empty())
            return false;
        if (frame.lines[0].name != "id") return false;
        std::string_view id = frame.lines[0].value;
        uint32_t number = 0;
        uint64_t tag = 0;
        if (!read_number(id, number) || !id.starts_with('-')) return false;
        id.remove_prefix(1);
        if (id.size() > tag_digits_max || !read_number(id, tag) || !id.empty()) return false;
        const auto label = state.labels.find(number);
        if (label == state.labels.end() || label->second.acks == StompState::Acks::None) return false;
        if (!tags.empty() && number != subscription) return false;
        subscription = number;
        cumulative = label->second.acks == StompState::Acks::Cumulative;
        tags.push_back(tag);
        return true;
    }

    Acknowledged event(uint32_t connection) const {
        return {
            .connection = connection, .session = 0, .subscription = subscription, .flags = cumulative, .tags = tags};
    }

private:
    static constexpr size_t tag_digits_max = 19;

    template <typename Number>
    static bool read_number(std::string_view& text, Number& number) {
        if (text.empty() || text[0] < '1' || text[0] > '9') return false;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        text.remove_prefix(static_cast<size_t>(end - text.data()));
        return error == std::errc{};
    }
};

class StompInput {
public:
    enum class Next : uint8_t { Nothing, More, Acks, Control, Broken };  // after the SEND frames that were gathered

    Next gather(std::string_view data, StompState& state, size_t bytes_max, bool logged_in, int64_t now_ms) {
        publishes_.clear();
        acks_.tags.clear();
        ends_.clear();
        receipt_ = 0;
        size_t at = 0;
        try {
            while (publishes_.size() < gathered_bytes_max) {
                if (logged_in && state.searched == 0 && acks_.tags.empty()) {
                    if (const size_t bytes = sender_.write_again(data.substr(at), bytes_max, state, now_ms,
                                                                 publishes_)) {
                        ends_.push_back(at += bytes);
                        continue;
                    }
                }
                if (!framer_.next(data.substr(at), bytes_max, state.searched, frame_))
                    return acks_.tags.empty() ? Next::Nothing : Next::Acks;
                if (logged_in && acks_.add(frame_, state)) {
                    acks_.end = at += frame_.size;
                    continue;
                }
                if (!acks_.tags.empty()) return Next::Acks;
                if (!logged_in || frame_.command != "SEND") return Next::Control;
                add_send(state, now_ms);
                ends_.push_back(at += frame_.size);
            }
        } catch (const CodecError& error) {
            if (!acks_.tags.empty()) return Next::Acks;  // it will be met again
            error_ = error;
            if (!receipt_) receipt_ = sender_.receipt_of(frame_, state);  // by as many of its headers as were read
            return Next::Broken;
        }
        return acks_.tags.empty() ? Next::More : Next::Acks;
    }

    std::string_view publishes() const { return publishes_; }
    // The bytes of input that the first `count` of them take.
    size_t used(size_t count) const { return count ? ends_[count - 1] : 0; }
    const StompAcks& acks() const { return acks_; }     // if they are next
    const StompFrame& frame() const { return frame_; }  // if Control is next
    const CodecError& error() const { return error_; }  // if it is Broken
    uint32_t receipt() const { return receipt_; }       // that the broken frame asks for

    // If there is Nothing: heartbeats need not be kept.
    size_t skip_line_ends(StompState& state) const {
        state.searched -= std::min(state.searched, framer_.skipped);
        return framer_.skipped;
    }

    // The length of the first frame; 0 if it is not all there.
    size_t first(std::string_view data, StompState& state, size_t bytes_max) {
        return framer_.next(data, bytes_max, state.searched, frame_) ? frame_.size : 0;
    }

    StompTypes& types() { return sender_.types; }

private:
    static constexpr size_t gathered_bytes_max = 128 << 10;

    void add_send(StompState& state, int64_t now_ms) {
        const size_t before = publishes_.size();
        try {
            sender_.write(frame_, state, now_ms, publishes_);
        } catch (const CodecError&) {
            publishes_.cut(before);
            throw;
        }
    }

    StompFramer framer_;
    StompFrame frame_;
    StompSender sender_;
    Scratch publishes_;
    StompAcks acks_;
    std::vector<size_t> ends_;  // in the input
    CodecError error_{};
    uint32_t receipt_ = 0;
};

}  // namespace tidings
