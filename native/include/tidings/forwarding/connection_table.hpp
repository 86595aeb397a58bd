// Connections by their numbers. A number is a place and how often it was taken before, and the place that has been free
// for longest is next: a late answer must not reach the connection that has the number now.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "tidings/forwarding/connection.hpp"
#include "tidings/support/error.hpp"

namespace tidings {

class ConnectionTable {
public:
    Connection& open() {
        if (free_.empty()) {
            if (by_place_.size() == place_mask) throw UsageError{"E_CONNECTIONS", "too many connections"};
            free_.push_back(static_cast<uint32_t>(by_place_.size()));
            by_place_.emplace_back();
        }
        const uint32_t number = free_.front();
        free_.pop_front();
        auto connection = std::make_unique<Connection>();
        connection->open = true;
        connection->number = number;
        by_place_[number & place_mask] = std::move(connection);
        return (*this)[number];
    }

    void close(uint32_t number) {
        by_place_[number & place_mask].reset();
        free_.push_back(number + place_mask + 1);
    }

    Connection* find(uint32_t number) {
        const uint32_t place = number & place_mask;
        if (place >= by_place_.size() || !by_place_[place] || by_place_[place]->number != number) return nullptr;
        return by_place_[place].get();
    }

    // Of one that is known to be there.
    Connection& operator[](uint32_t number) { return *by_place_[number & place_mask]; }

    template <typename Each>
    void each(Each each) {
        for (const auto& connection : by_place_)
            if (connection) each(*connection);
    }

private:
    static constexpr uint32_t place_mask = (1 << 20) - 1;
    std::vector<std::unique_ptr<Connection>> by_place_;
    std::deque<uint32_t> free_;  // the numbers of those to come
};

}  // namespace tidings
