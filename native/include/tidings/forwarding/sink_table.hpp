// The sinks by their numbers. The number of a removed sink is used again only after `reuse_retired`: events that were
// handed out before may still name it.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "tidings/forwarding/sink.hpp"
#include "tidings/support/error.hpp"

namespace tidings {

class SinkTable {
public:
    // The number the next sink will have.
    uint32_t next() const { return free_.empty() ? static_cast<uint32_t>(sinks_.size()) : free_.back(); }

    Sink& add(Sink::Kind kind) {
        const uint32_t index = next();
        if (free_.empty()) sinks_.emplace_back();
        else free_.pop_back();
        sinks_[index].kind = kind;
        return sinks_[index];
    }

    void retire(uint32_t index) {
        sinks_[index] = Sink{};
        retired_.push_back(index);
    }

    void reuse_retired() {
        free_.insert(free_.end(), retired_.begin(), retired_.end());
        retired_.clear();
    }

    Sink& operator[](uint32_t index) { return sinks_[index]; }
    const Sink& operator[](uint32_t index) const { return sinks_[index]; }

    Sink& at(uint32_t index) {
        if (index >= sinks_.size() || sinks_[index].kind == Sink::Kind::Free)
            throw UsageError{"E_NO_SINK", "no such sink"};
        return sinks_[index];
    }

    auto begin() { return sinks_.begin(); }
    auto end() { return sinks_.end(); }

private:
    std::deque<Sink> sinks_;
    std::vector<uint32_t> free_, retired_;
};

}  // namespace tidings
