// Names of the receipts that a STOMP client has asked for and that are not answered yet. Nearly all are answered before
// the bytes that asked for them are gone: these names stay where they stand, and only what is then left is copied.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tidings {

class StompReceipts {
public:
    static constexpr size_t name_bytes_max = 1024;

    // Nothing stands anywhere yet, even if memory ran out before `keep`.
    void begin() { fresh_.clear(); }

    // Returns its number. The name must stay where it is until `keep`.
    uint32_t add(std::string_view name) {
        const uint32_t number = take_number();
        if (fresh_.empty()) first_ = number;
        if (number - first_ != fresh_.size())
            return kept_.insert_or_assign(number, name), number;  // numbers began again
        fresh_.push_back(name);
        return number;
    }

    uint32_t add_copy(std::string_view name) {
        const uint32_t number = add({});
        kept_.insert_or_assign(number, name);
        return number;
    }

    // Its name; it is forgotten then. Holds until the next call.
    std::optional<std::string_view> take(uint32_t number) {
        if (number - first_ < fresh_.size() && fresh_[number - first_].data())
            return std::exchange(fresh_[number - first_], {});
        auto found = kept_.extract(number);
        if (found.empty()) return std::nullopt;
        taken_ = std::move(found.mapped());
        return taken_;
    }

    // The bytes in which names stand will be gone.
    void keep() {
        for (size_t i = 0; i < fresh_.size(); ++i)
            if (fresh_[i].data()) kept_.insert_or_assign(first_ + static_cast<uint32_t>(i), fresh_[i]);
        fresh_.clear();
    }

    bool empty() const { return fresh_.empty() && kept_.empty(); }

private:
    uint32_t take_number() {
        const uint32_t number = next_;
        next_ = number == INT32_MAX ? 1 : number + 1;  // the session counts its own above
        return number;
    }

    uint32_t next_ = 1, first_ = 0;        // first: the number of the first fresh one, those of the others follow
    std::vector<std::string_view> fresh_;  // nullptr: taken, or kept
    std::unordered_map<uint32_t, std::string> kept_;
    std::string taken_;
};

}  // namespace tidings
