// Routers have numbers of their own; tables want dense ones that stay (slots), answers want them in order (ranks).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tidings {

class RouterRanks {
public:
    static constexpr uint32_t none = ~0u;

    size_t size() const { return ranked_.size(); }
    size_t slots_end() const { return ranks_.size(); }  // every slot is below it
    size_t mark_words() const { return (ranked_.size() + 63) / 64; }

    uint32_t find(uint32_t router) const {
        const auto found = slots_.find(router);
        return found == slots_.end() ? none : found->second;
    }

    uint32_t slot_of(uint32_t router) {
        if (const uint32_t slot = find(router); slot != none) return slot;
        uint32_t slot = static_cast<uint32_t>(ranks_.size());
        if (spare_.empty()) {
            ranks_.push_back(0);
        } else {
            slot = spare_.back();
            spare_.pop_back();
        }
        slots_.emplace(router, slot);
        if (ranked_.empty() || ranked_.back() < router) {  // numbers mostly ascend: nothing else to move
            ranks_[slot] = static_cast<uint32_t>(ranked_.size());
            ranked_.push_back(router);
        } else {
            rank_all();
        }
        return slot;
    }

    void erase(uint32_t router) {
        const auto found = slots_.find(router);
        spare_.push_back(found->second);
        slots_.erase(found);
        if (ranked_.back() == router) ranked_.pop_back();
        else rank_all();
    }

    // Marks: a bit a rank, so that the routers marked can be listed once each and ascending.
    void mark(uint32_t slot, uint64_t* marks) const { marks[ranks_[slot] / 64] |= 1ull << (ranks_[slot] & 63); }

    void list(const uint64_t* marks, std::vector<uint32_t>& out) const {
        for (size_t i = 0; i < mark_words(); ++i)
            for (uint64_t rest = marks[i]; rest; rest &= rest - 1)
                out.push_back(ranked_[i * 64 + static_cast<size_t>(std::countr_zero(rest))]);
    }

    void list_all(std::vector<uint32_t>& out) const { out.insert(out.end(), ranked_.begin(), ranked_.end()); }

private:
    void rank_all() {
        ranked_.clear();
        for (const auto& [router, slot] : slots_) {
            ranks_[slot] = static_cast<uint32_t>(ranked_.size());
            ranked_.push_back(router);
        }
    }

    std::map<uint32_t, uint32_t> slots_;  // of a router, ascending
    std::vector<uint32_t> ranks_;         // of a slot
    std::vector<uint32_t> spare_;
    std::vector<uint32_t> ranked_;  // router of a rank
};

}  // namespace tidings
