// Tells the tracker which subscribers the message in hand has reached: those of the sinks that it matched, without the
// sinks that it missed, because they must wait or want nothing of their own. Mostly they are the same as for the
// message before; then there is nothing to do but to compare two lists.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tidings/forwarding/sink.hpp"
#include "tidings/tracking/tracker.hpp"

namespace tidings {

class DeliveryRecorder {
public:
    // Records all messages from now on there.
    void use(Tracker& tracker) {
        tracker_ = &tracker;
        forget();
    }
    Tracker* tracker() const { return tracker_; }

    // Only messages that are sent again may: their publisher was connected there. Otherwise ids could hide them.
    static bool names_another_broker(const Tracker* tracker, const uint8_t* id) {
        if (!tracker) return false;
        const uint32_t broker = Tracker::broker_in(id);
        return broker != tracker->broker() && broker != Tracker::unknown_origin;
    }
    static CodecError another_broker() {
        return {"E_MESSAGE_ORIGIN",
                "the message's id names another broker; use the broker and publisher of the WELCOME", 0};
    }

    // By a local publisher.
    static void published(Tracker* tracker, const MessageView& message, int64_t now_ms) {
        if (!tracker) return;
        tracker->published(message.id, now_ms);
        tracker->keys.note(message);
    }

    // Sinks, or the subscribers behind them, are no longer what they were.
    void forget() { known_ = false; }

    // In the order in which they were matched.
    void miss(const Sink& sink) {
        if (tracker_) missed_.push_back(&sink);
    }

    // `sink_at(index)` and `subscriber_of(sink)`: 0, if nothing is recorded.
    template <class SinkAt, class SubscriberOf>
    void record(const uint8_t* id, std::span<const uint32_t> matched, int64_t now_ms, const SinkAt& sink_at,
                const SubscriberOf& subscriber_of) {
        if (!tracker_) return;
        if (!as_before(matched)) [[unlikely]] {
            remember(matched);
            find_subscribers(sink_at, subscriber_of);
            tracker_->set_audience(subscribers_);
        }
        missed_.clear();
        tracker_->delivered(id, now_ms);
    }

    // For `tidings trace --why`. `subscriber` 0: nothing is recorded.
    void lose(const Sink& sink, uint32_t subscriber, const uint8_t* id, int64_t now_ms,
              Tracker::Loss cause = Tracker::Loss::Dropped) {
        if (tracker_ && subscriber && sink.kind == Sink::Kind::Direct) tracker_->lost(id, subscriber, cause, now_ms);
    }

private:
    static constexpr size_t few = 4;

    bool as_before(std::span<const uint32_t> matched) const {
        if (!known_ || matched.size() != matched_before_.size() || missed_ != missed_before_) return false;
        if (matched.size() > few) return std::memcmp(matched.data(), matched_before_.data(), matched.size_bytes()) == 0;
        for (size_t i = 0; i < matched.size(); ++i)  // a call takes longer
            if (matched[i] != matched_before_[i]) return false;
        return true;
    }

    void remember(std::span<const uint32_t> matched) {
        known_ = true;
        matched_before_.assign(matched.begin(), matched.end());
        missed_before_ = missed_;
    }

    template <class SinkAt, class SubscriberOf>
    void find_subscribers(const SinkAt& sink_at, const SubscriberOf& subscriber_of) {
        subscribers_.clear();
        auto missed = missed_before_.begin();
        for (const uint32_t index : matched_before_) {
            const Sink& sink = sink_at(index);
            if (missed != missed_before_.end() && *missed == &sink) ++missed;
            else if (sink.kind != Sink::Kind::Direct) continue;
            else if (const uint32_t subscriber = subscriber_of(sink)) subscribers_.push_back(subscriber);
        }
    }

    Tracker* tracker_ = nullptr;
    bool known_ = false;
    std::vector<uint32_t> matched_before_, subscribers_;
    std::vector<const Sink*> missed_, missed_before_;
};

}  // namespace tidings
