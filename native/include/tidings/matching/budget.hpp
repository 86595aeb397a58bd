// The work that matching may do for one message, counted in steps of about a nanosecond (docs/limits.md, "Cost of a
// message").
//
// Every filter may take `filter_steps` whatever the others take, which is more than an ordinary filter needs for
// ordinary values; so no expensive filter keeps a cheap one from being evaluated. What a filter takes beyond that comes
// out of the message's pool. The search for all patterns' pieces in a text, which serves all filters, has a pool of its
// own. A filter that finds a pool empty is given up: it is exhausted, and the answer it was about to give is no answer.
//
// What filters may take anyway ends as well, at some ten thousand of them that take all of it, so that no number of
// filters makes a message dearer than the three together.
//
// Steps are counted, not time, so that the outcome does not depend on the machine or its load. They are taken in pieces
// after the work, so that a hit at the beginning of a long text costs little; a piece is at most some ten thousand
// steps.
//
// Most filters take nothing, and then a budget costs one comparison: what is left to a filter is a single number, which
// is below zero once it is exhausted, and what it has taken is divided between its own and the pool only when the next
// one begins.
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
        steps_ = static_cast<int64_t>(std::min(steps, steps_max));
        refill();
    }

    void begin_message() {
        ++message_;
        if (used_ || left_ != start_) refill();
    }
    void begin_filter() {
        if (left_ != start_) [[unlikely]]
            begin_next();
    }
    void begin_shared() {
        settle();
        std::swap(pool_, shared_pool_);
        open(shared_steps);
    }
    void end_shared() {
        settle();
        std::swap(pool_, shared_pool_);
        open(filter_steps);
    }

    // True if the filter may go on.
    bool take(uint64_t steps) {
        left_ -= static_cast<int64_t>(steps);
        return left_ >= 0;
    }

    bool exhausted() const { return left_ < 0; }
    uint64_t message() const { return message_; }  // a number of the message at hand
    uint64_t taken() const { return taken_ + static_cast<uint64_t>(start_ - left_); }  // since it was made

private:
    static constexpr uint64_t steps_max = uint64_t{1} << 62;  // far from where counting would overflow

    void open(uint64_t own) { start_ = left_ = std::min(static_cast<int64_t>(own), free_) + pool_; }

    // A filter takes its own first.
    void settle() {
        const int64_t used = start_ - left_, own = std::min(used, start_ - pool_);
        free_ -= own;
        pool_ = std::max<int64_t>(pool_ - (used - own), 0);
        taken_ += static_cast<uint64_t>(used);
        used_ |= used != 0;
        left_ = start_;
    }

    [[gnu::noinline]] void begin_next() {
        settle();
        open(filter_steps);
    }

    [[gnu::noinline]] void refill() {
        settle();
        pool_ = shared_pool_ = steps_;
        free_ = message_steps;
        used_ = false;
        open(filter_steps);
    }

    int64_t steps_ = 0, pool_ = 0, shared_pool_ = 0;
    int64_t free_ = 0;              // what filters may still take in all without the pool
    int64_t start_ = 0, left_ = 0;  // what this filter may take, its own and the pool, and what is left of that
    uint64_t taken_ = 0;            // by those before
    uint64_t message_ = 0;
    bool used_ = false;  // whether any of this message's filters before took something
};

}  // namespace tidings
