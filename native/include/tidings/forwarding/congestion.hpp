// Congestion between brokers: the sinks here that are full of what comes from other brokers, and the publishers here
// that wait because a broker far away is congested (docs/networks.md, "Push-back along the path").
#pragma once
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tidings/forwarding/events.hpp"
#include "tidings/forwarding/sink.hpp"

namespace tidings {

class Congestion {
public:
    size_t far_bytes_max =
        0;  // what a full sink takes of other brokers beyond its limit; 0: nothing, and it is dropped

    // ---- sinks

    bool admits(const Sink& sink) const { return sink.backlog_bytes < sink.backlog_bytes_max + far_bytes_max; }

    // A sink is full of what other brokers send, and has room again: an event says that they should know.
    void begin(Sink& sink, Events& events) {
        if (!far_bytes_max || sink.stalled || std::exchange(sink.congested, true)) return;
        subscribers_ += sink.kind == Sink::Kind::Direct;
        events.add(CongestionChanged{sink.connection});
    }

    void end(Sink& sink, Events& events) {
        if (!std::exchange(sink.congested, false)) return;
        subscribers_ -= sink.kind == Sink::Kind::Direct;
        events.add(CongestionChanged{sink.connection});
    }

    // True if subscribers here do not keep up with what other brokers send.
    bool here() const { return subscribers_ > 0; }

    // ---- publishers

    bool any() const { return !waiters_.empty(); }

    // True if the publisher must wait, for one more reason than before.
    bool holds(uint32_t router, uint32_t publisher) {
        const auto found = waiters_.find(router);
        if (found == waiters_.end() || std::ranges::find(found->second, publisher) != found->second.end()) return false;
        found->second.push_back(publisher);
        return true;
    }

    // From now on these destinations are congested; returns the publishers that need not wait for others any more, once
    // for each of them.
    std::vector<uint32_t> set(const std::vector<uint32_t>& routers) {
        std::vector<uint32_t> released;
        std::erase_if(waiters_, [&](const auto& one) {
            if (std::ranges::find(routers, one.first) != routers.end()) return false;
            released.insert(released.end(), one.second.begin(), one.second.end());
            return true;
        });
        for (const uint32_t router : routers) waiters_.try_emplace(router);
        return released;
    }

    void forget(uint32_t publisher) {
        for (auto& [router, waiting] : waiters_) std::erase(waiting, publisher);
    }

private:
    size_t subscribers_ = 0;
    std::unordered_map<uint32_t, std::vector<uint32_t>> waiters_;  // by congested destination
};

}  // namespace tidings
