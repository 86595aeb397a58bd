// Plain references of FilterRows and BoxTree: everything is looked at, one after the other.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tidings/codec/program.hpp"
#include "tidings/encoding/filter_rows.hpp"
#include "tidings/matching/box_tree.hpp"

namespace tidings::plain {

inline bool wants(std::string_view blob, const MessageView& message) {
    const Predicate predicate = read_predicate(blob);
    const auto satisfied = [&](const Constraint& constraint) {
        const Attribute* const attribute = message.find(constraint.name, hash_name(constraint.name));
        return holds(constraint, attribute ? &attribute->value : nullptr);
    };
    const bool any = std::ranges::any_of(predicate.conjunctions, [&](const Conjunction& conjunction) {
        return std::ranges::all_of(conjunction.constraints, satisfied);
    });
    return any && (predicate.program.empty() || Program(predicate.program).evaluate(message) == Truth::True);
}

class Rows {
public:
    void add(uint32_t router, const std::string& row) { rows_.emplace(router, row); }
    bool remove(uint32_t router, const std::string& row) {
        const auto found = rows_.find({router, row});
        if (found == rows_.end()) return false;
        rows_.erase(found);
        return true;
    }
    bool drop(uint32_t router) {
        return std::erase_if(rows_, [&](const auto& one) { return one.first == router; }) > 0;
    }

    std::vector<uint32_t> match(const MessageView& message) const {
        std::set<uint32_t> routers;
        for (const auto& [router, row] : rows_)
            if (wants(FilterRows::predicate(row), message)) routers.insert(router);
        return {routers.begin(), routers.end()};
    }

    bool has(uint32_t router) const {
        return std::ranges::any_of(rows_, [&](const auto& one) { return one.first == router; });
    }

    // Different rows, whoever has them.
    size_t size() const {
        std::set<std::string> rows;
        for (const auto& [router, row] : rows_) rows.insert(row);
        return rows.size();
    }

private:
    std::multiset<std::pair<uint32_t, std::string>> rows_;
};

class Boxes {
public:
    using Sides = std::vector<BoxTree::Side>;

    std::map<uint32_t, Sides> boxes;

    std::vector<uint32_t> containing(const Sides& box) const {
        return where([&](const Sides& other) { return may_contain(other, box); });
    }
    std::vector<uint32_t> within(const Sides& box) const {
        return where([&](const Sides& other) { return may_contain(box, other); });
    }
    std::vector<uint32_t> meeting(const Sides& box) const {
        return where([&](const Sides& other) { return may_meet(other, box); });
    }

private:
    template <class Holds>
    std::vector<uint32_t> where(Holds&& holds) const {
        std::vector<uint32_t> ids;
        for (const auto& [id, sides] : boxes)
            if (holds(sides)) ids.push_back(id);
        return ids;
    }

    static const BoxTree::Side* find(const Sides& sides, const std::string& name) {
        for (const BoxTree::Side& side : sides)
            if (side.name == name) return &side;
        return nullptr;
    }

    static bool may_contain(const Sides& wide, const Sides& narrow) {
        return std::ranges::all_of(wide, [&](const BoxTree::Side& side) {
            const BoxTree::Side* own = find(narrow, side.name);
            return own && (side.loose || own->loose || (side.low <= own->low && side.high >= own->high));
        });
    }

    static bool may_meet(const Sides& one, const Sides& other) {
        return std::ranges::none_of(one, [&](const BoxTree::Side& side) {
            const BoxTree::Side* own = find(other, side.name);
            if (!own || side.loose || own->loose) return false;
            // Untyped text may be in two kinds, so only spans in one kind can be apart.
            const std::string beyond(1, static_cast<char>(side.low[0] + 1));
            return (side.low >= own->high || side.high <= own->low) && side.low[0] == own->low[0] &&
                   side.high <= beyond && own->high <= beyond;
        });
    }
};

inline std::vector<uint32_t> sorted(std::vector<uint32_t> ids) {
    std::ranges::sort(ids);
    return ids;
}

}  // namespace tidings::plain
