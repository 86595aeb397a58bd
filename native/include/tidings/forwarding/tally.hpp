// Counts of a replay: of each message how many subscriptions it matched and at which brokers, of each broker and
// subscription how many messages it got. One pass over the matches, so that counting costs less than matching.
//
// A set of brokers is known by the xor of its members' marks (Zobrist 1970). src/tidings/kernel/reference_tally.py says
// the same in plain Python.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tidings/support/error.hpp"

namespace tidings {

class Tally {
public:
    // Subscription i is attached to broker router_of[i], an index of `marks`.
    Tally(std::vector<uint32_t> router_of, std::vector<uint64_t> marks)
        : matched(router_of.size()),
          alone(router_of.size()),
          router_messages(marks.size()),
          router_matches(marks.size()),
          router_of_(std::move(router_of)),
          marks_(std::move(marks)),
          seen_(marks_.size()) {
        for (const uint32_t router : router_of_)
            if (router >= marks_.size()) throw UsageError{"E_TALLY_ROUTER", "a subscription's broker has no mark"};
    }

    // Message i matched found[offsets[i]] to found[offsets[i + 1] - 1]; out come its number of brokers and their set.
    void add(const uint32_t* offsets, size_t messages, const uint32_t* found, size_t found_size, int64_t* routers,
             uint64_t* sets) {
        for (size_t i = 0; i < messages; ++i)
            if (offsets[i + 1] < offsets[i] || offsets[i + 1] > found_size)
                throw UsageError{"E_TALLY_OFFSETS", "offsets must ascend within what was found"};
        for (size_t i = 0; i < found_size; ++i)
            if (found[i] >= matched.size()) throw UsageError{"E_TALLY_SUBSCRIPTION", "there is no such subscription"};
        for (size_t i = 0; i < messages; ++i) {
            ++message_;
            routers[i] = 0;
            sets[i] = 0;
            for (size_t at = offsets[i]; at < offsets[i + 1]; ++at) {
                const uint32_t router = router_of_[found[at]];
                ++matched[found[at]];
                ++router_matches[router];
                if (seen_[router] == message_) continue;
                seen_[router] = message_;
                ++router_messages[router];
                ++routers[i];
                sets[i] ^= marks_[router];
            }
            if (offsets[i + 1] - offsets[i] == 1) ++alone[found[offsets[i]]];
        }
    }

    // Of each subscription: messages it matched, and those that no other matched. Of each broker: messages, and
    // matches.
    std::vector<int64_t> matched, alone, router_messages, router_matches;

private:
    std::vector<uint32_t> router_of_;
    std::vector<uint64_t> marks_;
    std::vector<uint64_t> seen_;  // of each broker: the last message that it got
    uint64_t message_ = 0;
};

}  // namespace tidings
