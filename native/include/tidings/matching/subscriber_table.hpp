// Subscribers: the caller's ids, the parts of each one's predicate, and its program.
//
// Inside the matcher a subscriber is a token: its id with flags in front. Ids too large to index a bit set get an
// alias.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

#include "tidings/codec/program.hpp"
#include "tidings/matching/row_table.hpp"

namespace tidings {

inline constexpr uint32_t token_crowd = 1u << 31;   // not a subscriber: the number of a list of them
inline constexpr uint32_t token_marked = 1u << 30;  // may be found more than once for a message, or has a program
inline constexpr uint32_t token_program = 1u << 29;
inline constexpr uint32_t token_mask = token_program - 1;

// A part of a predicate: a row, or a constraint that stands alone, or the conjunction that is always true.
inline constexpr uint32_t part_alone = 1u << 31, part_always = UINT32_MAX;

class SubscriberTable {
public:
    static constexpr uint32_t direct_ids = 1u << 26;

    bool has(uint32_t id) const { return find(id) != none; }
    size_t size() const { return index_.size(); }

    // The token for a new id.
    uint32_t make_token(uint32_t id, bool marked, std::string_view program) {
        uint32_t token = id;
        if (id >= direct_ids) {
            token = direct_ids + aliases_.take();
            aliases_[token - direct_ids] = id;
        }
        if (!program.empty())
            derived_.add(programs_.emplace(token, std::make_unique<Owned>(program)).first->second->program.derived());
        return token | (marked ? token_marked : 0) | (program.empty() ? 0 : token_marked | token_program);
    }

    void add(uint32_t id, uint32_t token, const std::vector<uint32_t>& parts) {
        const uint32_t number = subscribers_.take(), count = static_cast<uint32_t>(parts.size());
        const uint32_t offset = count ? arena_.take(count) : 0;
        if (count) std::copy(parts.begin(), parts.end(), arena_.at(offset));
        subscribers_[number] = {token, offset, count, 1};
        index_.insert(hash_of(id), number);
    }

    struct Removed {
        uint32_t token;
        std::vector<uint32_t> parts;
    };
    Removed remove(uint32_t id) {
        const uint32_t number = find(id);
        const Subscriber gone = subscribers_[number];
        Removed removed{gone.token, {}};
        if (gone.count) {
            removed.parts.assign(arena_.at(gone.offset), arena_.at(gone.offset) + gone.count);
            arena_.release(gone.offset, gone.count);
        }
        index_.erase(hash_of(id), number);
        subscribers_.release(number);
        const uint32_t plain = gone.token & token_mask;
        if (gone.token & token_program) {
            const auto program = programs_.find(plain);
            derived_.remove(program->second->program.derived());
            programs_.erase(program);
        }
        if (plain >= direct_ids) aliases_.release(plain - direct_ids);
        return removed;
    }

    const Program& program_of(uint32_t plain_token) const { return programs_.at(plain_token)->program; }
    bool has_aliases() const { return aliases_.end() != 0; }
    uint32_t alias_end() const { return aliases_.end(); }
    uint32_t id_of(uint32_t plain_token) const {
        return plain_token < direct_ids ? plain_token : aliases_[plain_token - direct_ids];
    }

    uint8_t derived() const { return derived_.mask(); }

    // Calls found(id, token, parts) for every subscriber.
    template <class Found>
    void each(Found&& found) const {
        for (uint32_t i = 0; i < subscribers_.end(); ++i) {
            const Subscriber& one = subscribers_[i];
            if (one.used)
                found(id_of(one.token & token_mask), one.token,
                      std::span(one.count ? arena_.at(one.offset) : nullptr, one.count));
        }
    }

    size_t bytes() const {
        size_t sum = subscribers_.bytes() + arena_.bytes() + index_.bytes() + aliases_.bytes();
        for (const auto& [token, owned] : programs_) sum += sizeof(Owned) + owned->bytes.capacity() * 4;
        return sum;
    }

private:
    struct Subscriber {
        uint32_t token = 0, offset = 0, count : 31 = 0, used : 1 = 0;  // the token holds the id
    };
    struct Owned {
        std::string bytes;
        Program program;
        explicit Owned(std::string_view text) : bytes(text), program(bytes) {}
    };

    static uint64_t hash_of(uint32_t id) { return mix64(id + 0x9E3779B97F4A7C15ull); }
    uint32_t find(uint32_t id) const {
        return index_.find(hash_of(id),
                           [&](uint32_t number) { return id_of(subscribers_[number].token & token_mask) == id; });
    }

    Pages<Subscriber> subscribers_;
    WordArena arena_;
    HashIndex index_;
    Pages<uint32_t> aliases_;
    std::unordered_map<uint32_t, std::unique_ptr<Owned>> programs_;
    DerivedCounts derived_;
};

}  // namespace tidings
