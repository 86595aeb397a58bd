// The work that matching may do for one message, counted in steps of about a nanosecond (docs/limits.md, "Cost of a message").
//
// Every filter may take `filter_steps` whatever the others take, which is more than an ordinary filter needs for ordinary values;
// so nobody's expensive filter keeps a cheap one from being evaluated. What a filter takes beyond that comes out of the message's
// pool. The search for all patterns' pieces in a text, which is nobody's and serves all, has a pool of its own. Who finds a pool
// empty is given up: it is exhausted, and the answer it was about to give is no answer.
//
// What filters may take anyway ends as well, at some ten thousand of them that take all of it, so that no number of filters makes
// a message dearer than the three together.
//
// Steps are counted, not time, so that the outcome does not depend on the machine or its load. They are taken in pieces after
// the work, so that a hit at the beginning of a long text costs little; a piece is at most some ten thousand steps.
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

namespace tidings {

class Budget {
public:
    static constexpr uint64_t message_steps = 16u << 20, filter_steps = 1024, shared_steps = 8 * filter_steps;
    static constexpr uint64_t unlimited = UINT64_MAX;

    // The steps of either pool.
    explicit Budget(uint64_t steps = message_steps) { set_steps(steps); }

    void set_steps(uint64_t steps) {
        steps_ = steps;
        begin_message();
    }

    void begin_message() {
        ++message_;
        pool_ = shared_pool_ = steps_;
        free_ = message_steps;
    }
    void begin_filter() {
        own_ = std::min(filter_steps, free_);
        exhausted_ = false;
    }
    void begin_shared() {
        begin_filter();
        own_ = std::min(shared_steps, free_);
        std::swap(pool_, shared_pool_);
    }
    void end_shared() { std::swap(pool_, shared_pool_); }

    // Whether the filter may go on.
    bool take(uint64_t steps) {
        taken_ += steps;
        const uint64_t own = std::min(steps, own_);
        own_ -= own;
        free_ -= own;
        if (steps - own <= pool_) {
            pool_ -= steps - own;
            return true;
        }
        pool_ = 0;
        exhausted_ = true;
        return false;
    }

    bool exhausted() const { return exhausted_; }
    uint64_t message() const { return message_; }  // a number of the message at hand
    uint64_t taken() const { return taken_; }  // since it was made

private:
    uint64_t steps_ = 0, pool_ = 0, shared_pool_ = 0;
    uint64_t free_ = 0;             // what filters may still take in all without the pool
    uint64_t own_ = filter_steps;   // this one's
    uint64_t taken_ = 0;
    uint64_t message_ = 0;
    bool exhausted_ = false;
};

}  // namespace tidings
