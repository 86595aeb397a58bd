// Filters that were given up because a message's budget was used up: counted, remembered for a report, and what they
// answer.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tidings/matching/budget.hpp"

namespace tidings {

class Overruns {
public:
    explicit Overruns(const Budget& budget) : budget_(budget) {}

    // The value of a filter without an answer. Subscribers do not get what could not be decided; tables that stand for
    // other filters (routing) must say yes, or those would lose messages that they want.
    bool in_doubt = false;

    bool give_up_constraint(uint32_t number) { return give_up(constraints_, number); }
    bool give_up_program(uint32_t token) { return give_up(programs_, token); }

    uint64_t count() const { return count_; }
    bool empty() const { return constraints_.empty() && programs_.empty(); }

    // For how many messages since `clear`.
    uint64_t constraint_times(uint32_t number) const { return times(constraints_, number); }
    uint64_t program_times(uint32_t token) const { return times(programs_, token); }

    void forget_constraint(uint32_t number) { forget(constraints_, number); }
    void forget_program(uint32_t token) { forget(programs_, token); }
    void clear() {
        constraints_.clear();
        programs_.clear();
    }

private:
    struct GivenUp {
        uint32_t number;
        uint64_t times;
        uint64_t message;  // the last
    };

    static constexpr size_t remembered_max = 1024;

    bool give_up(std::vector<GivenUp>& remembered, uint32_t number) {
        ++count_;
        const auto at = std::ranges::lower_bound(remembered, number, {}, &GivenUp::number);
        if (at != remembered.end() && at->number == number)
            at->times += std::exchange(at->message, budget_.message()) != budget_.message();
        else if (remembered.size() < remembered_max) remembered.insert(at, {number, 1, budget_.message()});
        return in_doubt;
    }

    static uint64_t times(const std::vector<GivenUp>& remembered, uint32_t number) {
        const auto at = std::ranges::lower_bound(remembered, number, {}, &GivenUp::number);
        return at != remembered.end() && at->number == number ? at->times : 0;
    }

    static void forget(std::vector<GivenUp>& remembered, uint32_t number) {
        std::erase_if(remembered, [&](const GivenUp& one) { return one.number == number; });
    }

    const Budget& budget_;
    std::vector<GivenUp> constraints_, programs_;  // by number
    uint64_t count_ = 0;
};

}  // namespace tidings
