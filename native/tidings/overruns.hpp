// Filters that were given up because a message's budget was used up: counted, remembered for a report, and what they answer.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tidings {

class Overruns {
public:
    // What a filter without an answer counts as. Subscribers do not get what nobody could decide; tables that stand for other
    // filters (routing) must say yes, or those would lose messages that they want.
    bool in_doubt = false;

    bool give_up_constraint(uint32_t number) { return give_up(constraints_, number); }
    bool give_up_program(uint32_t token) { return give_up(programs_, token); }

    uint64_t count() const { return count_; }
    const std::vector<uint32_t>& constraints() const { return constraints_; }
    const std::vector<uint32_t>& programs() const { return programs_; }

    void forget_constraint(uint32_t number) { std::erase(constraints_, number); }
    void forget_program(uint32_t token) { std::erase(programs_, token); }
    void clear() {
        constraints_.clear();
        programs_.clear();
    }

private:
    static constexpr size_t remembered_max = 1024;

    bool give_up(std::vector<uint32_t>& remembered, uint32_t number) {
        ++count_;
        const bool room = remembered.size() < remembered_max;
        if (const auto at = std::ranges::lower_bound(remembered, number); room && (at == remembered.end() || *at != number))
            remembered.insert(at, number);
        return in_doubt;
    }

    std::vector<uint32_t> constraints_, programs_;  // sorted
    uint64_t count_ = 0;
};

}  // namespace tidings
