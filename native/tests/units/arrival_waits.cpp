// Waiting times of input: which reads are samples, and the class each message falls into.
#include "tidings/forwarding/arrival_waits.hpp"

#include <numeric>

#include "check.hpp"

using namespace tidings;

TEST(one_read_in_every_is_a_sample_or_one_after_silence) {
    ArrivalWaits waits;
    size_t samples = 0;
    for (int read = 0; read < 81; ++read)
        if (waits.due()) waits.add(1e-3, 1, 1000), ++samples;
    CHECK(samples == 11);
    waits.at(1000 + ArrivalWaits::quiet_ms - 1);
    CHECK(!waits.due());
    waits.at(1000 + ArrivalWaits::quiet_ms);
    CHECK(waits.due());
}

TEST(a_waiting_time_is_in_the_class_whose_bound_it_does_not_exceed) {
    CHECK(ArrivalWaits::class_of(0) == 0);
    CHECK(ArrivalWaits::class_of(1e-6) == 0);
    CHECK(ArrivalWaits::class_of(1.1e-6) == 1);
    CHECK(ArrivalWaits::class_of(2e-6) == 2);
    CHECK(ArrivalWaits::class_of(2.1e-6) == 3);
    CHECK(ArrivalWaits::class_of(1e9) == ArrivalWaits::classes - 1);
}

TEST(a_read_counts_as_its_messages_spread_over_its_wait) {
    ArrivalWaits waits;
    for (const uint64_t messages : {1u, 2u, 10u, 1000u}) {
        waits = ArrivalWaits();
        waits.add(8e-3, messages, 0);
        const double counted = std::accumulate(waits.counts.begin(), waits.counts.end(), 0.0);
        CHECK(std::abs(counted - static_cast<double>(messages)) < 1e-6);
        CHECK(waits.counts[ArrivalWaits::class_of(8e-3)] > 0);
        CHECK(waits.seconds <= 8e-3 * static_cast<double>(messages) + 1e-9);
        CHECK(waits.seconds >= 4e-3 * static_cast<double>(messages));
    }
    waits.add(1.0, 0, 0);
    CHECK(waits.counts.back() == 0);
}
