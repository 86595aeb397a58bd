// The matcher without an index: every conjunction is evaluated for every message, up to its first constraint that
// fails. The baseline that the index is measured against, so it is not made slow: constraints are interned, an equality
// is one comparison of two numbers, a bound of two positions, and conjunctions lie one after the other in memory.
#pragma once
#include <unordered_map>

#include "tidings/matching/matcher.hpp"

namespace tidings {

class LinearMatcher {
public:
    void add(uint32_t id, std::string_view blob) {
        const Predicate predicate = read_predicate(blob);
        if (!predicate.program.empty()) Program{predicate.program};
        if (subscribers_.contains(id))
            throw UsageError{"E_MATCHER_ID", "id " + std::to_string(id) + " is already in the matcher"};
        const NormalForm normal(predicate);
        Subscriber subscriber{id, static_cast<uint32_t>(normal.conjunctions().size()), {}, nullptr};
        if (!predicate.program.empty()) subscriber.program = std::make_unique<Owned>(predicate.program);
        for (const Conjunction& conjunction : normal.conjunctions()) {
            subscriber.steps.push_back({Kind::Start, 0, static_cast<uint32_t>(conjunction.constraints.size())});
            for (const Constraint& constraint : conjunction.constraints) subscriber.steps.push_back(step(constraint));
        }
        conjunctions_ += normal.conjunctions().size();
        subscribers_.emplace(id, std::move(subscriber));
        dirty_ = true;
    }

    void remove(uint32_t id) {
        const auto found = subscribers_.find(id);
        if (found == subscribers_.end())
            throw UsageError{"E_MATCHER_ID", "id " + std::to_string(id) + " is not in the matcher"};
        conjunctions_ -= found->second.conjunctions;
        for (const Step& one : found->second.steps)
            if (one.kind != Kind::Start && --table_[one.number].references == 0) table_.erase(one.number);
        subscribers_.erase(found);
        dirty_ = true;
    }

    void match(const MessageBatch& batch, Matches& matches) {
        matches.offsets.clear();
        matches.offsets.push_back(0);
        matches.ids.clear();
        for (const Entry& entry : batch) {
            if (entry.status == Entry::Status::Message) match_one(entry.message, matches.ids);
            matches.offsets.push_back(matches.ids.size());
        }
    }

    size_t size() const { return subscribers_.size(); }
    size_t conjunctions() const { return conjunctions_; }
    size_t bytes() const { return table_.bytes() + steps_.capacity() * sizeof(Step); }
    uint8_t derived() const {
        uint8_t mask = table_.derived();
        for (const auto& [id, subscriber] : subscribers_)
            if (subscriber.program) mask |= subscriber.program->program.derived();
        return mask;
    }

private:
    enum class Kind : uint8_t { Start, Equality, Bound, Other, Subscriber };
    struct Step {
        Kind kind;
        uint32_t attribute;
        uint32_t
            number;  // of the constraint; at the start of a conjunction, how many follow; of a subscriber, its steps
    };
    struct Owned {
        std::string bytes;
        Program program;
        explicit Owned(std::string_view text) : bytes(text), program(bytes) {}
    };
    struct Subscriber {
        uint32_t id, conjunctions;
        std::vector<Step> steps;
        std::unique_ptr<Owned> program;
    };
    struct Seen {
        const Value* value = nullptr;
        uint32_t equality = none, position = 0;
        tidings::Kind kind = tidings::Kind::Bool;
    };

    Step step(const Constraint& constraint) {
        bool is_new = false;
        const uint32_t number = table_.intern(constraint, is_new);
        Interned& one = table_[number];
        ++one.references;
        const Kind kind = one.form == Form::Listed && one.op == Op::Eq ? Kind::Equality
                          : one.line != none                           ? Kind::Bound
                                                                       : Kind::Other;
        return {kind, one.attribute, number};
    }

    // All subscribers' steps in one row.
    void lay_out() {
        steps_.clear();
        order_.clear();
        for (auto& [id, subscriber] : subscribers_) {
            steps_.push_back({Kind::Subscriber, static_cast<uint32_t>(order_.size()),
                              static_cast<uint32_t>(subscriber.steps.size())});
            order_.push_back(&subscriber);
            steps_.insert(steps_.end(), subscriber.steps.begin(), subscriber.steps.end());
        }
        seen_.assign(table_.attribute_end(), Seen{});
        dirty_ = false;
    }

    void match_one(const MessageView& message, Column<uint32_t>& ids) {
        if (dirty_) lay_out();
        met_.clear();
        bool untyped = false;  // whether there is a text to be read as what it is compared with
        for (size_t i = 0; i < message.attributes.size(); ++i) {
            if (message.is_reading(i)) continue;
            const Attribute& attribute = message.attributes[i];
            const uint32_t number = table_.find_attribute(attribute.name, attribute.name_hash);
            if (number == none) continue;
            met_.push_back(number);
            untyped |= attribute.value.type == Type::Text;
            seen_[number] = {&attribute.value, table_.find_equality(number, attribute.value, attribute.hash),
                             position(attribute.value), attribute.value.kind()};
        }
        untyped ? scan<true>(message, ids) : scan<false>(message, ids);
        for (const uint32_t number : met_) seen_[number] = Seen{};
    }

    template <bool Untyped>
    void scan(const MessageView& message, Column<uint32_t>& ids) {
        for (size_t i = 0; i < steps_.size();) {
            const Step subscriber = steps_[i];
            const size_t end = i + 1 + subscriber.number;
            if (satisfied<Untyped>(i + 1, end)) {
                const Subscriber& one = *order_[subscriber.attribute];
                if (!one.program || one.program->program.evaluate(message) == Truth::True) ids.push_back(one.id);
            }
            i = end;
        }
    }

    template <bool Untyped>
    bool satisfied(size_t i, size_t end) const {
        while (i < end) {
            const size_t next = i + 1 + steps_[i].number;
            do ++i;
            while (i < next && holds<Untyped>(steps_[i]));
            if (i == next) return true;
            i = next;
        }
        return false;
    }

    template <bool Untyped>
    bool holds(const Step& step) const {
        const Seen& seen = seen_[step.attribute];
        if (Untyped && seen.value && seen.value->type == Type::Text)
            return table_.holds(table_[step.number], seen.value);
        if (step.kind == Kind::Equality) return seen.equality == step.number;
        const Interned& one = table_[step.number];
        if (step.kind == Kind::Other) return table_.holds(one, seen.value);
        if (!seen.value || seen.kind != one.value.kind()) return false;
        if (seen.position == one.bound && !exact_position(one.bound)) return table_.holds(one, seen.value);
        return one.form == Form::Upper ? seen.position <= one.bound : seen.position >= one.bound;
    }

    ConstraintTable table_;
    std::unordered_map<uint32_t, Subscriber> subscribers_;
    size_t conjunctions_ = 0;
    bool dirty_ = false;
    std::vector<Step> steps_;
    std::vector<const Subscriber*> order_;
    std::vector<Seen> seen_;  // by attribute
    std::vector<uint32_t> met_;
};

}  // namespace tidings
