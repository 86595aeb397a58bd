// Waiting times of input: from the arrival of its bytes, as the system has noted it, to their read.
//
// Asking the system costs a call, so only one read in `every` is a sample, or the first one after `quiet_ms` without.
// A read of k messages counts k times, spread evenly between its oldest bytes' waiting time and none: they came one
// after the other.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tidings {

class ArrivalWaits {
public:
    static constexpr size_t classes = 48;  // by waiting time: each bound is √2 times the one before
    static constexpr double shortest_bound_s = 1e-6;
    static constexpr uint32_t every = 8;
    static constexpr int64_t quiet_ms = 10;
    static constexpr uint64_t shares_max = 32;  // of a read: parts that are placed one by one

    // Whether the read that begins now is to be a sample.
    bool due() {
        if (--left_ > 0) return false;
        left_ = every;
        return true;
    }

    // A read has ended at this time.
    void at(int64_t now_ms) {
        if (now_ms - sampled_ms_ >= quiet_ms) left_ = 1;
    }

    void add(double oldest_s, uint64_t messages, int64_t now_ms) {
        sampled_ms_ = now_ms;
        if (messages == 0) return;
        const uint64_t shares = std::min(messages, shares_max);
        const double weight = static_cast<double>(messages) / static_cast<double>(shares);
        for (uint64_t i = 0; i < shares; ++i) {
            const double waited = oldest_s * static_cast<double>(shares - i) / static_cast<double>(shares);
            counts[class_of(waited)] += weight;
            seconds += weight * waited;
        }
    }

    // The class of a waiting time: the first one whose bound it does not exceed, or the last one.
    static size_t class_of(double waited_s) {
        if (waited_s <= shortest_bound_s) return 0;
        const double steps = std::ceil(2.0 * std::log2(waited_s / shortest_bound_s) - 1e-9);
        return std::min(static_cast<size_t>(steps), classes - 1);
    }

    std::array<double, classes> counts{};  // messages
    double seconds = 0;                    // their waiting times together

private:
    uint32_t left_ = 1;
    int64_t sampled_ms_ = 0;
};

}  // namespace tidings
