// How much the publishers of a user may still send: messages and bytes, shared by their connections. A connection that
// has used them up is not parsed (and read) until they are refilled. What is sent in one piece may exceed what is left;
// that is paid back before the next one.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tidings {

struct Allowance {
    static constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

    int64_t messages_left = 0, bytes_left = 0;
    uint64_t messages = 0, bytes = 0, held = 0;  // since it exists; times that a connection had to wait
    std::vector<uint32_t> waiting;               // connections

    bool spent() const { return messages_left <= 0 || bytes_left <= 0; }

    // A message of a connection; true if the connection must wait now.
    bool spend(uint32_t connection, size_t size) {
        ++messages, bytes += size;
        if (messages_left != unlimited) --messages_left;
        if (bytes_left != unlimited) bytes_left -= static_cast<int64_t>(size);
        if (!spent()) return false;
        ++held;
        waiting.push_back(connection);
        return true;
    }

    // Add to what is left, up to a bound; a bound of 0: without end.
    void add(int64_t more_messages, int64_t messages_max, int64_t more_bytes, int64_t bytes_max) {
        messages_left = added(messages_left, more_messages, messages_max);
        bytes_left = added(bytes_left, more_bytes, bytes_max);
    }

private:
    static int64_t added(int64_t left, int64_t more, int64_t most) {
        if (most <= 0) return unlimited;
        return left == unlimited ? most : std::min(left + more, most);
    }
};

class Allowances {
public:
    // Refills the allowance of this number, which is made if there is none; returns those that may go on.
    std::vector<uint32_t> refill(uint32_t number, int64_t messages, int64_t messages_max, int64_t bytes,
                                 int64_t bytes_max) {
        std::shared_ptr<Allowance>& one = by_number_[number];
        if (!one) one = std::make_shared<Allowance>();
        one->add(messages, messages_max, bytes, bytes_max);
        return one->spent() ? std::vector<uint32_t>{} : std::exchange(one->waiting, {});
    }

    // nullptr: there is none of this number.
    std::shared_ptr<Allowance> find(uint32_t number) const {
        const auto found = by_number_.find(number);
        return found == by_number_.end() ? nullptr : found->second;
    }

    void drop(uint32_t number) { by_number_.erase(number); }

private:
    std::unordered_map<uint32_t, std::shared_ptr<Allowance>> by_number_;
};

}  // namespace tidings
