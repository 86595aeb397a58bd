// The exact matcher's tables and how they change. How they are used is in matcher.hpp, where the essay stands.
#pragma once
#include "tidings/codec/normal_form.hpp"
#include "tidings/matching/pair_index.hpp"
#include "tidings/matching/range_groups.hpp"
#include "tidings/matching/subscriber_table.hpp"
#include "tidings/matching/value_blocks.hpp"

namespace tidings {

class MatcherIndex {
public:
    // Takes effect as a whole or, if the predicate is refused, not at all.
    void add(uint32_t id, std::string_view blob) {
        const Predicate predicate = read_predicate(blob);
        if (!predicate.program.empty()) Program{predicate.program};
        const NormalForm normal(predicate);
        if (subscribers.has(id))
            throw UsageError{"E_MATCHER_ID", "id " + std::to_string(id) + " is already in the matcher"};
        check_limits(normal);
        std::vector<std::vector<Reference>> sets;
        for (const Conjunction& conjunction : normal.conjunctions()) sets.push_back(intern(conjunction));
        std::sort(sets.begin(), sets.end());
        sets.erase(std::unique(sets.begin(), sets.end()), sets.end());
        const uint32_t token = subscribers.make_token(id, sets.size() > 1, predicate.program);
        std::vector<uint32_t> parts;
        for (std::vector<Reference>& set : sets) parts.push_back(add_part(token, set));
        subscribers.add(id, token, parts);
        parts_ += parts.size();
        for (const uint32_t number : interned_)
            release(number);  // rows and lone constraints hold their own references now
        interned_.clear();
    }

    void remove(uint32_t id) {
        if (!subscribers.has(id))
            throw UsageError{"E_MATCHER_ID", "id " + std::to_string(id) + " is not in the matcher"};
        const SubscriberTable::Removed removed = subscribers.remove(id);
        overruns.forget_program(removed.token & token_mask);
        parts_ -= removed.parts.size();
        for (const uint32_t part : removed.parts) remove_part(removed.token, part);
    }

    size_t size() const { return subscribers.size(); }
    size_t conjunctions() const { return parts_; }  // over all subscribers
    uint8_t derived() const { return table.derived() | subscribers.derived(); }

    size_t bytes() const {
        size_t sum = table.bytes() + patterns.bytes() + blocks.bytes() + pairs.bytes() + ranges.bytes() + rows.bytes() +
                     subscribers.bytes() + always.bytes() + crowds.bytes();
        for (const BoundLists& one : bounds) sum += sizeof(BoundLists) + one.upper.bytes() + one.lower.bytes();
        for (uint32_t i = 0; i < crowds.end(); ++i) sum += crowds[i].bytes() - sizeof(Lists);
        return sum;
    }

    // Subscribers whose filters were given up since the last call, and for how many messages. Of several parts that
    // were given up, the one that was most often counts.
    std::vector<std::pair<uint32_t, uint64_t>> take_overruns() {
        std::vector<std::pair<uint32_t, uint64_t>> found;
        if (overruns.empty()) return found;
        const auto times_of = [&](uint32_t part) -> uint64_t {
            if (part == part_always) return 0;
            if (part & part_alone) return overruns.constraint_times(part & ~part_alone);
            uint64_t times = 0;
            for (const Reference one : rows[part].references())
                times = std::max(times, overruns.constraint_times(number_of(one)));
            return times;
        };
        subscribers.each([&](uint32_t id, uint32_t token, std::span<const uint32_t> parts) {
            uint64_t times = overruns.program_times(token & token_mask);
            for (const uint32_t part : parts) times = std::max(times, times_of(part));
            if (times) found.emplace_back(id, times);
        });
        overruns.clear();
        return found;
    }

    Budget budget;
    Overruns overruns{budget};
    ConstraintTable table;
    PatternIndex patterns{table, budget, overruns};
    std::vector<BoundLists> bounds;  // by line
    ValueBlocks blocks{table, patterns, bounds, budget, overruns};
    PairIndex pairs;
    RangeGroups ranges;
    RowTable rows;
    SubscriberTable subscribers;
    Lists always;
    Pages<Lists, 5> crowds;  // the subscribers of rows that several share

private:
    static constexpr size_t parts_max = WordArena::page_words;

    static void check_limits(const NormalForm& normal) {
        if (normal.conjunctions().size() > parts_max)
            throw UsageError{"E_MATCHER_LIMIT",
                             "a predicate has at most " + std::to_string(parts_max) + " conjunctions"};
        for (const Conjunction& conjunction : normal.conjunctions())
            if (conjunction.constraints.size() > RowTable::constraints_max)
                throw UsageError{"E_MATCHER_LIMIT", "a conjunction has at most " +
                                                        std::to_string(RowTable::constraints_max) + " constraints"};
    }

    // ---- constraints

    uint32_t hold(const Constraint& constraint) {
        bool is_new = false;
        const uint32_t number = table.intern(constraint, is_new);
        if (is_new) {
            const Interned& made = table[number];
            if (made.form == Form::Listed) {
                if (made.op != Op::Eq) patterns.add(number);
                blocks.touch(number, false);
            }
            if (table.alone_on_line(made)) blocks.touch_line(made.attribute);
            if (made.line != none && made.line >= bounds.size()) bounds.resize(made.line + 1);
        }
        ++table[number].references;
        return number;
    }

    void release(uint32_t number) {
        Interned& one = table[number];
        if (--one.references) return;
        if (one.form == Form::Listed) {
            blocks.touch(number, false);
            if (one.op != Op::Eq) patterns.remove(number);
        }
        if (table.alone_on_line(one)) blocks.touch_line(one.attribute);
        if (table.attribute(one.attribute).references == 1) blocks.drop_attribute(one.attribute);
        overruns.forget_constraint(number);
        table.erase(number);
    }

    Reference reference_to(uint32_t number) const {
        return static_cast<uint32_t>(table[number].form) << form_shift | number;
    }

    // The conjunction as a sorted set. One that only negations could find is also found by its attribute's presence.
    std::vector<Reference> intern(const Conjunction& conjunction) {
        std::vector<Reference> set;
        const Constraint* present = nullptr;
        bool found = false;
        for (const Constraint& constraint : conjunction.constraints) {
            interned_.push_back(hold(constraint));
            set.push_back(reference_to(interned_.back()));
            found = found || form_of(set.back()) != Form::Direct || constraint.op == Op::Exists;
            if (constraint.op != Op::Missing) present = &constraint;
        }
        if (present && !found) {
            Constraint exists;
            exists.name = present->name;
            interned_.push_back(hold(exists));
            set.push_back(reference_to(interned_.back()));
        }
        std::sort(set.begin(), set.end());
        set.erase(std::unique(set.begin(), set.end()), set.end());
        return set;
    }

    // ---- parts of a predicate

    uint32_t add_part(uint32_t token, std::vector<Reference>& set) {
        if (set.empty()) {
            insert_token(always, token);
            return part_always;
        }
        const uint32_t first = number_of(set[0]);
        if (set.size() == 1 && table[first].op != Op::Missing) {
            ++table[first].references;
            add_alone(token, first);
            return part_alone | first;
        }
        uint32_t row = rows.find(set);
        if (row != none) {
            join_row(row, token);
            return row;
        }
        for (const Reference one : set) ++table[number_of(one)].references;
        const Access access = arrange(set);
        row = rows.add(set, access);
        rows[row].token = token;
        file_row(row);
        return row;
    }

    void remove_part(uint32_t token, uint32_t part) {
        if (part == part_always) return erase_token(always, token);
        if (part & part_alone) {
            remove_alone(token, part & ~part_alone);
            return release(part & ~part_alone);
        }
        if (rows[part].token & token_crowd) return leave_row(part, token);
        unfile_row(part);
        const auto references = rows[part].references();
        const std::vector<Reference> gone(references.begin(), references.end());
        rows.erase(part);
        for (const Reference one : gone) release(number_of(one));
    }

    static Column<uint32_t>& column_for(Lists& lists, uint32_t token) {
        return token & ~token_mask ? lists.marked : lists.plain;
    }
    static void insert_token(Lists& lists, uint32_t token) {
        Column<uint32_t>& column = column_for(lists, token);
        column.insert(static_cast<size_t>(std::lower_bound(column.begin(), column.end(), token) - column.begin()),
                      token);
    }
    static void erase_token(Lists& lists, uint32_t token) {
        Column<uint32_t>& column = column_for(lists, token);
        column.erase(static_cast<size_t>(std::lower_bound(column.begin(), column.end(), token) - column.begin()));
    }

    // A listed constraint's lists change: blocks that hold a copy must know.
    template <class Change>
    void change_lists(uint32_t number, Change&& change) {
        Interned& one = table[number];
        if (!one.lists) one.lists = std::make_unique<Lists>();
        const bool copied = blocks.copies(*one.lists);
        change(*one.lists);
        if (one.form == Form::Listed && (copied || blocks.copies(*one.lists))) blocks.touch(number, true);
        if (one.lists->empty()) one.lists.reset();
    }

    // A line's bounds change: blocks that hold a copy must know.
    template <class Change>
    void change_bounds(const Interned& one, Change&& change) {
        BoundLists& lists = bounds[one.line];
        const bool copied = blocks.copies(lists);
        change(one.form == Form::Upper ? lists.upper : lists.lower);
        if (copied || blocks.copies(lists)) blocks.touch_line(one.attribute);
    }

    void add_alone(uint32_t token, uint32_t number) {
        const Interned& one = table[number];
        if (one.line == none) return change_lists(number, [&](Lists& lists) { insert_token(lists, token); });
        change_bounds(one, [&](BoundList& list) { list.add({one.bound, token, number}); });
    }

    void remove_alone(uint32_t token, uint32_t number) {
        const Interned& one = table[number];
        if (one.line == none) return change_lists(number, [&](Lists& lists) { erase_token(lists, token); });
        change_bounds(one, [&](BoundList& list) { list.remove({one.bound, token, number}); });
    }

    // ---- rows

    void join_row(uint32_t row, uint32_t token) {
        if (!(rows[row].token & token_crowd)) {
            unfile_row(row);
            const uint32_t crowd = crowds.take();
            insert_token(crowds[crowd], rows[row].token);
            rows[row].token = token_crowd | crowd;
            file_row(row);
        }
        insert_token(crowds[rows[row].token & ~token_crowd], token);
    }

    void leave_row(uint32_t row, uint32_t token) {
        const uint32_t number = rows[row].token & ~token_crowd;
        Lists& crowd = crowds[number];
        erase_token(crowd, token);
        if (crowd.size() != 1) return;
        unfile_row(row);
        rows[row].token = crowd.plain.empty() ? crowd.marked[0] : crowd.plain[0];
        crowds.release(number);
        file_row(row);
    }

    // Chooses the access and puts what it uses first, then the rest with the cheapest and most selective checks
    // leading.
    Access arrange(std::vector<Reference>& set) const {
        const auto rank = [&](Reference reference) {
            const Interned& one = table[number_of(reference)];
            const uint64_t order = one.form != Form::Listed
                                       ? one.form == Form::Direct ? one.op == Op::Exists ? 4 : 5 : 3
                                   : one.op == Op::Eq ? 0
                                   : one.op == Op::In ? 1
                                                      : 2;
            return order << 32 | one.references;
        };
        std::sort(set.begin(), set.end(),
                  [&](Reference a, Reference b) { return std::pair(rank(a), a) < std::pair(rank(b), b); });
        const Interned &first = table[number_of(set[0])],
                       &second = table[number_of(set[std::min<size_t>(1, set.size() - 1)])];
        if (set.size() > 1 && first.form == Form::Listed && first.op == Op::Eq && second.op == Op::Eq &&
            second.form == Form::Listed)
            return Access::Pair;
        if (first.form == Form::Listed || first.op == Op::Exists) return Access::List;
        return first.form == Form::Direct ? Access::Always : Access::Range;
    }

    Candidate candidate(uint32_t row) const {
        const RowTable::Row& one = rows[row];
        const auto rest = one.rest();
        const uint32_t more = rest.size() > 1 ? candidate_more : 0;
        if (rest.empty()) return {one.token, row, static_cast<uint32_t>(Form::Upper) << form_shift, position_high};
        const Interned& check = table[number_of(rest[0])];
        if (check.line == none) return {one.token, row | more, rest[0], 0};
        return {one.token, row | more, static_cast<uint32_t>(check.form) << form_shift | check.line, check.bound};
    }

    // A row's bounds, those of one line merged.
    std::vector<RangeGroups::Interval> intervals(uint32_t row) const {
        std::vector<RangeGroups::Interval> found;
        for (const Reference reference : rows[row].references()) {
            const Interned& one = table[number_of(reference)];
            if (one.line == none) continue;
            auto at = std::ranges::lower_bound(found, one.line, {}, &RangeGroups::Interval::line);
            if (at == found.end() || at->line != one.line)
                at = found.insert(at, {one.line, position_low, position_high});
            if (one.form == Form::Upper) at->high = std::min(at->high, one.bound);
            else at->low = std::max(at->low, one.bound);
        }
        for (RangeGroups::Interval& one : found)
            if (one.low > one.high) one.low = position_high, one.high = position_low;
        return found;
    }

    void file_row(uint32_t row) {
        RowTable::Row& one = rows[row];
        switch (one.access()) {
            case Access::Pair: one.place = pairs.add(pair_key(one), candidate(row)); return;
            case Access::List:
                return change_lists(number_of(one.first[0]), [&](Lists& lists) {
                    one.place = lists.candidates.size();
                    lists.candidates.push_back(candidate(row));
                });
            case Access::Always:
                one.place = always.candidates.size();
                always.candidates.push_back(candidate(row));
                return;
            case Access::Range: {
                const bool only_bounds = std::ranges::none_of(one.references(),
                                                              [](Reference r) { return form_of(r) == Form::Direct; });
                one.place = ranges.add(intervals(row), one.token, row | (only_bounds ? 0 : RangeGroups::check_rest));
            }
        }
    }

    void unfile_row(uint32_t row) {
        const RowTable::Row& one = rows[row];
        const auto moved = [this](uint32_t other, uint32_t place) { rows[other & ~candidate_more].place = place; };
        const auto leave = [&](Lists& lists) {
            if (one.place + 1 != lists.candidates.size()) {
                lists.candidates[one.place] = lists.candidates.back();
                moved(lists.candidates[one.place].row, one.place);
            }
            lists.candidates.pop_back();
        };
        switch (one.access()) {
            case Access::Pair: return pairs.remove(pair_key(one), one.place, moved);
            case Access::List: return change_lists(number_of(one.first[0]), leave);
            case Access::Always: return leave(always);
            case Access::Range: return ranges.remove(intervals(row), one.place, moved);
        }
    }

    static uint64_t pair_key(const RowTable::Row& row) {
        return PairIndex::key(number_of(row.first[0]), number_of(row.first[1]));
    }

    std::vector<uint32_t> interned_;  // references held while a predicate is being added
    size_t parts_ = 0;
};

}  // namespace tidings
