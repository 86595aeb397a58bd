// Frames for sinks that cannot have them yet. A large message is kept once for all whom it waits for: thousands of
// subscriptions of one connection would otherwise hold as many copies of it, all made in one turn.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "tidings/codec/frames.hpp"
#include "tidings/forwarding/sink.hpp"
#include "tidings/stomp/message_writer.hpp"

namespace tidings {

class WaitingFrames {
public:
    // The renderer has prepared this delivery, if the sink speaks STOMP; `bytes` is its size.
    Sink::Waiting make(const Sink& sink, const Publication& one, size_t bytes, const StompRenderer& stomp) {
        const bool native = sink.label.empty();
        std::shared_ptr<Sink::SharedEnd> end;
        std::string frame;
        if (one.message.size() < shared_bytes_min) {
            frame.resize(bytes);
            if (native) write_delivery(frame.data(), sink.number, one.attempt, one.tag, one.message);
            else stomp.write(frame.data());
        } else if (native) {
            frame.resize(delivery_header_bytes);
            write_delivery_header(frame.data(), sink.number, one.attempt, one.tag, one.message.size());
            end = shared_end(one, 0, one.message);
        } else {
            frame = stomp.head();
            end = shared_end(one, 1 + static_cast<unsigned>(sink.version), stomp.tail());
        }
        return {std::move(frame), std::move(end), one.expires_ms, id_of(one.message)};
    }

    // After a message.
    void forget() { ends_ = {}; }

private:
    static constexpr size_t shared_bytes_min = 1 << 10;  // of a message

    std::shared_ptr<Sink::SharedEnd> shared_end(const Publication& one, unsigned form, std::string_view bytes) {
        if (!(one.shared >> form & 1)) ends_[form] = std::make_shared<Sink::SharedEnd>(std::string(bytes));
        one.shared |= static_cast<uint8_t>(1u << form);
        return ends_[form];
    }

    std::array<std::shared_ptr<Sink::SharedEnd>, 4> ends_;  // of the message at hand: native, and each version of STOMP
};

}  // namespace tidings
