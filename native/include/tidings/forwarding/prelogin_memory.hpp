// Input of connections that have neither logged in nor become links: all of it together may take an eighth of the
// memory.
#pragma once
#include "tidings/forwarding/connection.hpp"

namespace tidings {

class PreloginMemory {
public:
    explicit PreloginMemory(size_t memory_bytes_max) : bytes_max_(memory_bytes_max / 8) {}

    // False: together they have sent too much.
    bool hold(const Connection& connection, size_t bytes) {
        if (!connection.stranger) return true;
        bytes_ += bytes;
        return bytes_ <= bytes_max_;
    }

    void free(const Connection& connection, size_t bytes) { bytes_ -= connection.stranger ? bytes : 0; }

    // The client has logged in: others take no memory from it any more.
    void admit(Connection& connection) {
        free(connection, connection.tail.size());
        connection.stranger = false;
    }

private:
    const size_t bytes_max_;
    size_t bytes_ = 0;
};

}  // namespace tidings
