// Counts messages by destination, only while the counts are read: otherwise a broker pays one comparison a message.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tidings/codec/message.hpp"

namespace tidings {

class TopicMeter {
public:
    static constexpr size_t topics_max =
        1000;  // publishers choose the names: those that come later are one entry, `others`
    static constexpr int64_t watch_ms = 10'000;

    struct Counts {
        uint64_t in = 0, out = 0;  // messages; sinks here that wanted them
    };
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };
    using ByName = std::unordered_map<std::string, Counts, Hash, std::equal_to<>>;

    // Counting ends if they are not read again within `watch_ms`, and begins at zero with the next read.
    void look(int64_t now_ms) {
        if (now_ms >= until_ms_) {
            topics_.clear();
            queues_.clear();
            others_ = {};
        }
        until_ms_ = now_ms + watch_ms;
    }

    void count(const MessageView& message, size_t matched, int64_t now_ms) {
        if (now_ms < until_ms_) [[unlikely]]
            add(message, matched);
    }

    const ByName& topics() const { return topics_; }
    const ByName& queues() const { return queues_; }
    const Counts& others() const { return others_; }

private:
    void add(const MessageView& message, size_t matched) {
        Counts& counts = find(message.flags & MessageView::Queue ? queues_ : topics_, message.destination);
        ++counts.in;
        counts.out += matched;
    }

    Counts& find(ByName& names, std::string_view name) {
        if (const auto found = names.find(name); found != names.end()) return found->second;
        if (topics_.size() + queues_.size() >= topics_max) return others_;
        return names.emplace(name, Counts{}).first->second;
    }

    ByName topics_, queues_;
    Counts others_;
    int64_t until_ms_ = 0;
};

}  // namespace tidings
