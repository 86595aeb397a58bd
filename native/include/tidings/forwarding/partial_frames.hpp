// Large frames of clients that are not all there yet: all of them together may take half of the memory. Others wait for
// nothing that these hold; without a bound, many halves of the largest frame would be more than the memory.
#pragma once
#include <algorithm>

#include "tidings/forwarding/connection.hpp"

namespace tidings {

class PartialFrames {
public:
    explicit PartialFrames(size_t memory_bytes_max) : bytes_max_(memory_bytes_max / 2) {}

    // After a read. False: there are too many of them, and this is one. A frame that is alone may always go on.
    bool hold(Connection& connection) {
        const bool begun = connection.logged_in && connection.reading() && connection.tail.size() > small_bytes;
        count(connection, begun ? connection.tail.size() : 0);
        return !begun || bytes_ <= bytes_max_ || bytes_ == connection.partial_bytes;
    }

    // Some of its input was used.
    void shrink(Connection& connection) {
        count(connection, std::min(connection.partial_bytes, connection.tail.size()));
    }

    void end(Connection& connection) { count(connection, 0); }

private:
    static constexpr size_t small_bytes = 64 << 10;  // whose frames are small is not held up by those of others

    void count(Connection& connection, size_t bytes) {
        bytes_ += bytes - connection.partial_bytes;
        connection.partial_bytes = bytes;
    }

    const size_t bytes_max_;
    size_t bytes_ = 0;
};

}  // namespace tidings
