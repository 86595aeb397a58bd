// The ids of the last messages. Two tables that take turns: when the young one is full it becomes the old one, which is
// emptied. So between `least` and twice as many are known. Both have their full size from the first id on: memory does
// not creep.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "tidings/codec/message_reader.hpp"
#include "tidings/support/error.hpp"

namespace tidings {

class RecentIds {
public:
    static constexpr size_t id_bytes = 16;

    explicit RecentIds(size_t least) : least_(least) {
        if (least == 0 || least > least_max) throw UsageError{"E_RECENT", "ids to remember: 1 to 16777216"};
    }

    bool contains(std::string_view id) const {
        const Id wanted = read(id);
        const size_t hash = hash_name(id);
        return tables_[0].find(wanted, hash) || tables_[1].find(wanted, hash);
    }

    void add(std::string_view id) {
        const Id wanted = read(id);
        if (tables_[young_].count >= least_) {
            young_ ^= 1;
            tables_[young_].clear();
        }
        if (tables_[young_].slots.empty())
            for (Table& table : tables_) table.slots.resize(std::bit_ceil(2 * least_));
        tables_[young_].add(wanted, hash_name(id));
    }

private:
    static constexpr size_t least_max = 1 << 24;
    using Id = std::array<uint64_t, 2>;

    // Half of the slots are free at least, or it would be full. An id of zeros, which looks like a free slot, is
    // counted apart.
    struct Table {
        std::vector<Id> slots;
        size_t count = 0;
        bool has_zero = false;

        bool find(const Id& id, size_t hash) const {
            if (id == Id{}) return has_zero;
            return !slots.empty() && slots[place(id, hash)] == id;
        }

        void add(const Id& id, size_t hash) {
            if (find(id, hash)) return;
            ++count;
            if (id == Id{}) has_zero = true;
            else slots[place(id, hash)] = id;
        }

        void clear() {
            std::ranges::fill(slots, Id{});
            count = 0;
            has_zero = false;
        }

    private:
        // Its slot, or the free one that it would take.
        size_t place(const Id& id, size_t hash) const {
            const size_t mask = slots.size() - 1;
            size_t at = hash & mask;
            while (slots[at] != Id{} && slots[at] != id) at = (at + 1) & mask;
            return at;
        }
    };

    static Id read(std::string_view id) {
        if (id.size() != id_bytes) throw UsageError{"E_RECENT", "an id has 16 bytes"};
        Id made;
        std::memcpy(made.data(), id.data(), id_bytes);
        return made;
    }

    size_t least_;
    size_t young_ = 0;
    std::array<Table, 2> tables_;
};

}  // namespace tidings
