// Sinks of one connection that have a backlog, in the order in which they came to have one. Thousands may come and go
// with one message, so the place of one that leaves stays empty until half of all are.
#pragma once
#include <cstdint>
#include <vector>

#include "tidings/forwarding/sink_table.hpp"

namespace tidings {

class Backlogged {
public:
    void add(uint32_t index, SinkTable& sinks) {
        tidy(sinks);
        sinks[index].queued = true;
        sinks[index].place = static_cast<uint32_t>(places_.size());
        places_.push_back(index);
    }

    // If it is there.
    void remove(Sink& sink) {
        if (!std::exchange(sink.queued, false)) return;
        places_[sink.place] = none;
        ++empty_;
    }

    // Visits the sinks until a visit returns false; it may remove the one that it is about.
    template <class Visit>
    void each(SinkTable& sinks, Visit&& visit) {
        for (size_t place = 0; place < places_.size(); ++place)
            if (places_[place] != none && !visit(sinks[places_[place]])) break;
        tidy(sinks);
    }

    template <class Condition>
    bool any(const SinkTable& sinks, Condition&& condition) const {
        for (const uint32_t index : places_)
            if (index != none && condition(sinks[index])) return true;
        return false;
    }

private:
    static constexpr uint32_t none = UINT32_MAX;

    void tidy(SinkTable& sinks) {
        if (empty_ == 0 || empty_ * 2 < places_.size()) return;
        uint32_t place = 0;
        for (const uint32_t index : places_)
            if (index != none) {
                places_[place] = index;
                sinks[index].place = place++;
            }
        places_.resize(place);
        empty_ = 0;
    }

    std::vector<uint32_t> places_;  // none: it has left
    size_t empty_ = 0;
};

}  // namespace tidings
