// Input in pieces for three connections of a forwarder: which one, how long, the bytes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

// `Run` is made of the first byte; it has a forwarder and connections, does something after each piece, and ends.
template <class Run>
int fuzz_in_pieces(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    Run run(data[0]);
    size_t at = 1;
    while (at + 2 <= size) {
        const uint8_t choice = data[at];
        const size_t length = std::min<size_t>(data[at + 1], size - at - 2);
        run.forwarder.feed(run.connections[choice % 3], {reinterpret_cast<const char*>(data) + at + 2, length},
                           run.now_ms);
        run.step(choice);
        at += 2 + length;
    }
    run.finish();
    return 0;
}
