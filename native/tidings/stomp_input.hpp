// What a STOMP client sent, up to the first frame that is not the forwarder's: SEND frames as PUBLISH frames.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/stomp_send.hpp"

namespace tidings {

class StompInput {
public:
    enum class Next : uint8_t { Nothing, More, Control, Broken };  // after the SEND frames that were gathered

    Next gather(std::string_view data, StompState& state, size_t bytes_max, bool logged_in, int64_t now_ms) {
        publishes_.clear();
        ends_.clear();
        receipt_ = 0;
        size_t at = 0;
        try {
            while (publishes_.size() < gathered_bytes_max) {
                if (logged_in && state.searched == 0) {
                    if (const size_t bytes = sender_.write_again(data.substr(at), bytes_max, state, now_ms, publishes_)) {
                        ends_.push_back(at += bytes);
                        continue;
                    }
                }
                if (!framer_.next(data.substr(at), bytes_max, state.searched, frame_)) return Next::Nothing;
                if (!logged_in || frame_.command != "SEND") return Next::Control;
                add_send(state, now_ms);
                ends_.push_back(at += frame_.size);
            }
        } catch (const CodecError& error) {
            error_ = error;
            return Next::Broken;
        }
        return Next::More;
    }

    std::string_view publishes() const { return publishes_; }
    // How much of the input the first `count` of them take.
    size_t used(size_t count) const { return count ? ends_[count - 1] : 0; }
    const StompFrame& frame() const { return frame_; }  // if Control is next
    const CodecError& error() const { return error_; }  // if it is Broken
    uint32_t receipt() const { return receipt_; }       // that the broken frame asks for

    // If there is Nothing: heart-beats need not be kept.
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
    static constexpr size_t gathered_bytes_max = 256 << 10;

    void add_send(StompState& state, int64_t now_ms) {
        const size_t before = publishes_.size();
        try {
            sender_.write(frame_, state, now_ms, publishes_);
        } catch (const CodecError&) {
            publishes_.cut(before);
            receipt_ = sender_.receipt_of(frame_, state);
            throw;
        }
    }

    StompFramer framer_;
    StompFrame frame_;
    StompSender sender_;
    Scratch publishes_;
    std::vector<size_t> ends_;  // in the input
    CodecError error_{};
    uint32_t receipt_ = 0;
};

}  // namespace tidings
