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
    static constexpr uint32_t None = ~0u;

    size_t size() const { return ranked.size(); }
    size_t slots_end() const { return ranks.size(); }  // every slot is below it
    size_t mark_words() const { return (ranked.size() + 63) / 64; }

    uint32_t find(uint32_t router) const {
        const auto found = slots.find(router);
        return found == slots.end() ? None : found->second;
    }

    uint32_t slot_of(uint32_t router) {
        if (const uint32_t slot = find(router); slot != None) return slot;
        uint32_t slot = static_cast<uint32_t>(ranks.size());
        if (spare.empty()) {
            ranks.push_back(0);
        } else {
            slot = spare.back();
            spare.pop_back();
        }
        slots.emplace(router, slot);
        if (ranked.empty() || ranked.back() < router) {  // numbers mostly ascend: nothing else to move
            ranks[slot] = static_cast<uint32_t>(ranked.size());
            ranked.push_back(router);
        } else {
            rank_all();
        }
        return slot;
    }

    void erase(uint32_t router) {
        const auto found = slots.find(router);
        spare.push_back(found->second);
        slots.erase(found);
        if (ranked.back() == router) ranked.pop_back();
        else rank_all();
    }

    // Marks: a bit a rank, so that the routers marked can be listed once each and ascending.
    void mark(uint32_t slot, uint64_t* marks) const { marks[ranks[slot] / 64] |= 1ull << (ranks[slot] & 63); }

    void list(const uint64_t* marks, std::vector<uint32_t>& out) const {
        for (size_t i = 0; i < mark_words(); ++i)
            for (uint64_t rest = marks[i]; rest; rest &= rest - 1)
                out.push_back(ranked[i * 64 + static_cast<size_t>(std::countr_zero(rest))]);
    }

    void list_all(std::vector<uint32_t>& out) const { out.insert(out.end(), ranked.begin(), ranked.end()); }

private:
    void rank_all() {
        ranked.clear();
        for (const auto& [router, slot] : slots) {
            ranks[slot] = static_cast<uint32_t>(ranked.size());
            ranked.push_back(router);
        }
    }

    std::map<uint32_t, uint32_t> slots;  // of a router, ascending
    std::vector<uint32_t> ranks;         // of a slot
    std::vector<uint32_t> spare;
    std::vector<uint32_t> ranked;        // router of a rank
};

}  // namespace tidings
