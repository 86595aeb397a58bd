// Different spellings of a constraint brought to one: a whole float becomes an int, a LIKE or TOPIC pattern without
// wildcards an equality, `abc%` a prefix, an IN of one value an equality. A conjunction with short INs becomes one
// conjunction for each choice of values, because equalities are what the index finds best.
#pragma once
#include <cmath>
#include <deque>
#include <string>

#include "tidings/codec/predicate.hpp"

namespace tidings {

// Conjunctions of normal constraints; texts made on the way live here.
class NormalForm {
public:
    explicit NormalForm(const Predicate& predicate) {
        for (const Conjunction& conjunction : predicate.conjunctions) {
            const size_t first = conjunctions_.size();
            conjunctions_.emplace_back().constraints.reserve(conjunction.constraints.size());
            for (const Constraint& constraint : conjunction.constraints) add(first, constraint);
        }
    }

    const std::vector<Conjunction>& conjunctions() const { return conjunctions_; }

    static constexpr size_t choices_max = 8;  // conjunctions that one may become

private:
    // To all alternatives from `first` on, which began as one conjunction.
    void add(size_t first, const Constraint& constraint) {
        const size_t alternatives = conjunctions_.size() - first;
        if (constraint.op == Op::In && !constraint.negated && alternatives * constraint.list.size() <= choices_max) {
            const std::vector<Conjunction> before(conjunctions_.begin() + static_cast<ptrdiff_t>(first),
                                                  conjunctions_.end());
            conjunctions_.resize(first);
            for (const Value& value : constraint.list)
                for (Conjunction conjunction : before) {
                    conjunction.constraints.push_back(equality(constraint, value));
                    conjunctions_.push_back(std::move(conjunction));
                }
            return;
        }
        Constraint normal = normalise(constraint);
        for (size_t i = first + 1; i < conjunctions_.size(); ++i) conjunctions_[i].constraints.push_back(normal);
        conjunctions_[first].constraints.push_back(std::move(normal));
    }

    Constraint normalise(const Constraint& constraint) {
        switch (constraint.op) {
            case Op::Eq: return equality(constraint, constraint.value);
            case Op::Like: return simpler_like(constraint);
            case Op::Topic:
                for (size_t start = 0; start <= constraint.value.s.size();) {
                    const size_t dot = std::min(constraint.value.s.find('.', start), constraint.value.s.size());
                    const std::string_view level = constraint.value.s.substr(start, dot - start);
                    if (level == "*" || level == ">") return constraint;
                    start = dot + 1;
                }
                return equality(constraint, constraint.value);
            default: return constraint;
        }
    }

    static Constraint equality(const Constraint& from, Value value) {
        if (value.type == Type::Float && value.d >= -0x1p63 && value.d < 0x1p63 && value.d == std::floor(value.d))
            value = Value::integer(static_cast<int64_t>(value.d));
        return plain(from, Op::Eq, value);
    }

    static Constraint plain(const Constraint& from, Op op, const Value& value) {
        Constraint made;
        made.op = op;
        made.negated = from.negated;
        made.name = from.name;
        made.value = value;
        return made;
    }

    // `%` only at the ends and no `_`: equality, prefix, suffix or substring of the text between.
    Constraint simpler_like(const Constraint& constraint) {
        std::string_view pattern = constraint.value.s;
        const bool open_start = pattern.starts_with('%');
        if (open_start) pattern.remove_prefix(1);
        std::string text;
        bool open_end = false;
        for (size_t i = 0; i < pattern.size(); ++i) {
            if (pattern[i] == '_' || open_end) return constraint;
            if (pattern[i] == '%') open_end = true;
            else text += pattern[i] == '\\' ? pattern[++i] : pattern[i];
        }
        const Value value = Value::string(texts_.emplace_back(std::move(text)));
        if (!open_start && !open_end) return equality(constraint, value);
        return plain(constraint, open_start ? open_end ? Op::Contains : Op::Suffix : Op::Prefix, value);
    }

    std::vector<Conjunction> conjunctions_;
    std::deque<std::string> texts_;
};

}  // namespace tidings
