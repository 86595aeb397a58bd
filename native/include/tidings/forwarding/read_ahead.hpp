// Credit of a connection that is not parsed because it is pushed back:
//
//   client ── PUBLISH PUBLISH CREDIT ──►│ not parsed: a backlog is full, perhaps that of the client's own subscription,
//                                       │ which needs the credit behind the publications to empty
//
// Frames that wait are looked through, and the credit in them is given out of turn; the frame stays, with a credit of
// 0. Credit changes nothing of what stands before it, unless that makes or ends a subscription: there the search ends.
// Not done: to let a connection's own sinks hold more before they push it back, which helps for so long only, and not
// if another sink pushes it back.
#pragma once
#include <cstdint>
#include <cstring>

#include "tidings/codec/frames.hpp"
#include "tidings/forwarding/output.hpp"

namespace tidings {

class ReadAhead {
public:
    // `give(subscription, more)` returns whether this is a subscription whose credit it has taken.
    template <typename Give>
    void look(Output& tail, size_t frame_bytes_max, Give give) {
        while (!ended_ && tail.size() - seen_ >= frame_header_bytes) {
            char* const frame = tail.begin() + seen_;
            uint32_t size;
            std::memcpy(&size, frame, 4);
            const auto type = static_cast<uint8_t>(frame[4]);
            ended_ = type == FrameSubscribe || type == FrameUnsubscribe || size > frame_bytes_max;
            if (ended_ || tail.size() - seen_ - frame_header_bytes < size) return;
            if (type == FrameCredit && size == 8) take_credit(frame + frame_header_bytes, give);
            seen_ += frame_header_bytes + size;
        }
    }

    // The first `bytes` of the tail have been removed.
    void cut(size_t bytes) {
        if (bytes > seen_) ended_ = false;
        seen_ -= std::min(bytes, seen_);
    }

    bool ended() const { return ended_; }

private:
    template <typename Give>
    static void take_credit(char* payload, Give give) {
        const auto [subscription, more] = read_credit(payload);
        if (give(subscription, more)) std::memset(payload + 4, 0, 4);
    }

    size_t seen_ = 0;     // bytes at the front of the tail
    bool ended_ = false;  // at a frame that what follows may depend on
};

}  // namespace tidings
