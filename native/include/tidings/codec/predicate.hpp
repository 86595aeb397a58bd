// Predicates of docs/wire.md: read and checked once when a subscription arrives, then asked for every message. Names
// and values are views into the blob, which must outlive the predicate; the meaning is that of
// src/tidings/model/constraint.py.
#pragma once
#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>
#include <vector>

#include "tidings/codec/reader.hpp"
#include "tidings/matching/like.hpp"

namespace tidings {

enum class Op : uint8_t { Eq = 1, Ne, Lt, Le, Gt, Ge, In, Prefix, Suffix, Contains, Like, Topic, Exists, Missing };

struct Constraint {
    Op op = Op::Exists;
    bool negated = false;
    std::string_view name;
    Value value;                                // not for IN, EXISTS, MISSING
    std::vector<Value> list;                    // IN, in ascending order
    std::shared_ptr<const tidings::Like> like;  // LIKE: the pattern, compiled
    std::string_view bytes;                     // as it stands in the blob: equal bytes mean the same constraint
};

struct Conjunction {
    std::vector<Constraint> constraints;  // none: always true
};

struct Predicate {
    std::vector<Conjunction> conjunctions;  // none: never true
    std::string_view program;               // empty: none; not looked into here
};

inline constexpr size_t program_bytes_max = 1 << 16;

// The order of lists: by kind, then by value.
inline bool ascends(const Value& a, const Value& b) {
    return a.kind() != b.kind() ? a.kind() < b.kind() : compare_same_kind(a, b) < 0;
}

inline bool contains_value(const std::vector<Value>& ascending, const Value& value) {
    return std::binary_search(ascending.begin(), ascending.end(), value, ascends);
}

// Comparisons of shorter texts cost no more than those of numbers and are not counted. Only texts have bytes.
inline constexpr size_t counted_bytes = 64;

// Texts are compared some bytes at a time.
inline bool take_comparison(std::string_view a, std::string_view b, Budget& budget) {
    const size_t bytes = std::min(a.size(), b.size());
    return bytes < counted_bytes || budget.take(bytes / 8);
}

// A search among `count` values in order.
inline bool take_comparisons(size_t bytes, size_t count, Budget& budget) {
    return bytes < counted_bytes || budget.take(bytes / 8 * static_cast<size_t>(std::bit_width(count)));
}

namespace detail {

// One predicate has one encoding, so a number that an int can express is an int.
inline Value read_operand_value(Reader& reader, uint8_t allowed = AnyValue) {
    const size_t start = reader.position();
    const Value value = read_value(reader, allowed);
    if (value.type == Type::Float && value.d >= -9223372036854775808.0 && value.d < 9223372036854775808.0 &&
        value.d == std::floor(value.d))
        refuse("E_CODEC_CANONICAL", "a float that an int can express", start + 1);
    return value;
}

}  // namespace detail

// The operand of IN: values that are no lists; in a predicate in strictly ascending order, in a program in any.
inline std::vector<Value> read_list(Reader& reader, bool canonical) {
    read_type(reader, ListOnly);
    std::vector<Value> list;
    for (uint64_t i = reader.varint(); i > 0; --i) {  // ends with the data at the latest
        const size_t start = reader.position();
        list.push_back(canonical ? detail::read_operand_value(reader) : read_value(reader));
        if (canonical && list.size() > 1 && !ascends(list[list.size() - 2], list.back()))
            refuse("E_CODEC_ORDER", "the values of a list are not in ascending order", start);
    }
    return list;
}

namespace detail {

inline void read_operand(Reader& reader, Constraint& constraint) {
    switch (constraint.op) {
        case Op::Exists:
        case Op::Missing: return;
        case Op::In: constraint.list = read_list(reader, true); return;
        case Op::Like:
            constraint.value = read_value(reader, StringOnly);
            constraint.like = std::make_shared<const tidings::Like>(constraint.value.s);
            return;
        default: constraint.value = read_operand_value(reader, constraint.op < Op::Prefix ? AnyValue : StringOnly);
    }
}

inline Constraint read_constraint(Reader& reader) {
    const size_t start = reader.position();
    Constraint constraint;
    const uint8_t code = reader.u8(), op = code & 0x7F;
    constraint.negated = (code & 0x80) != 0;
    if (op < static_cast<uint8_t>(Op::Eq) || op > static_cast<uint8_t>(Op::Missing))
        refuse("E_CODEC_OPERATOR", "unknown operator", start);
    constraint.op = static_cast<Op>(op);
    if (constraint.negated && constraint.op >= Op::Exists)
        refuse("E_CODEC_OPERATOR", "EXISTS and MISSING are never negated", start);
    constraint.name = read_name(reader);
    read_operand(reader, constraint);
    return constraint;
}

// Checks that an item's bytes stand above its predecessor's.
class Ascending {
public:
    std::string_view check(std::string_view blob, size_t start, size_t end) {
        const std::string_view bytes = blob.substr(start, end - start);
        if (!before_.empty() && bytes <= before_) refuse("E_CODEC_ORDER", "not in ascending order", start);
        return before_ = bytes;
    }

private:
    std::string_view before_;
};

}  // namespace detail

inline Predicate read_predicate(std::string_view blob) {
    Reader reader(blob);
    Predicate predicate;
    detail::Ascending conjunctions;
    for (uint64_t i = reader.varint(); i > 0; --i) {
        Conjunction& conjunction = predicate.conjunctions.emplace_back();
        const size_t conjunction_start = reader.position();
        detail::Ascending constraints;
        for (uint64_t j = reader.varint(); j > 0; --j) {
            const size_t start = reader.position();
            conjunction.constraints.push_back(detail::read_constraint(reader));
            conjunction.constraints.back().bytes = constraints.check(blob, start, reader.position());
        }
        conjunctions.check(blob, conjunction_start, reader.position());
    }
    const size_t program_start = reader.position();
    const uint64_t program_bytes = reader.varint();
    if (program_bytes > program_bytes_max) refuse("E_CODEC_LIMIT", "a program has at most 64 KiB", program_start);
    predicate.program = reader.bytes(program_bytes);
    if (!reader.done()) refuse("E_CODEC_TRAILING", "bytes after the predicate", reader.position());
    return predicate;
}

// The condition of a constraint, apart from a negation. Made for each evaluation, so it owns nothing.
struct Condition {
    Op op;
    const Value& value;
    const std::vector<Value>* list = nullptr;  // IN
    const tidings::Like* like = nullptr;       // LIKE

    Condition(Op op, const Value& value) : op(op), value(value) {}  // any but IN and LIKE
    explicit Condition(const Constraint& whole)
        : op(whole.op),
          value(whole.value),
          list(&whole.list),
          like(whole.like.get()) {}
};

inline bool holds(const Condition& condition, const Value& value, Budget& budget);

namespace detail {

// Untyped text: what it reads as for a condition with a number or boolean, the text itself for all others.
inline bool holds_untyped(const Condition& condition, const Value& value, Budget& budget) {
    if (condition.op < Op::In && condition.value.kind() != Kind::String) {
        const std::optional<Value> read = as_kind(value, condition.value.kind());
        return read && holds(condition, *read, budget);
    }
    if (holds(condition, Value::string(value.s), budget)) return true;
    if (condition.op != Op::In) return false;
    const std::optional<Value> read = reading(value.s);
    return read && contains_value(*condition.list, *read);
}

// The steps for comparing a long text; patterns count their own.
[[gnu::noinline]] inline bool take_long(const Condition& condition, std::string_view text, Budget& budget) {
    switch (condition.op) {
        case Op::In: return take_comparisons(text.size(), condition.list->size(), budget);
        case Op::Contains:
        case Op::Like:
        case Op::Exists:
        case Op::Missing: return true;
        default: return take_comparison(text, condition.value.s, budget);
    }
}

}  // namespace detail

// True if it holds for this attribute value. No answer if the budget is exhausted.
inline bool holds(const Condition& condition, const Value& value, Budget& budget) {
    if (value.type == Type::Text) [[unlikely]]
        return detail::holds_untyped(condition, value, budget);
    if (value.s.size() >= counted_bytes) [[unlikely]]
        if (!detail::take_long(condition, value.s, budget)) return false;
    const std::string_view operand = condition.value.s;
    switch (condition.op) {
        case Op::Eq: return equal(value, condition.value);
        case Op::In: return contains_value(*condition.list, value);
        case Op::Prefix: return value.type == Type::String && value.s.starts_with(operand);
        case Op::Suffix: return value.type == Type::String && value.s.ends_with(operand);
        case Op::Contains: return value.type == Type::String && contains_text(value.s, operand, budget);
        case Op::Like: return value.type == Type::String && condition.like->matches(value.s, budget);
        case Op::Topic: return value.type == Type::String && topic_matches(operand, value.s);
        case Op::Exists: return true;
        case Op::Missing: return false;
        default: break;
    }
    if (value.kind() != condition.value.kind()) return false;
    const int order = compare_same_kind(value, condition.value);
    switch (condition.op) {
        case Op::Ne: return order != 0;
        case Op::Lt: return order < 0;
        case Op::Le: return order <= 0;
        case Op::Gt: return order > 0;
        default: return order >= 0;
    }
}

// The same of a constraint.
inline bool holds(const Constraint& constraint, const Value& value, Budget& budget) {
    return holds(Condition(constraint), value, budget) != constraint.negated;
}

// The same with nullptr for a missing attribute.
inline bool holds(const Constraint& constraint, const Value* value, Budget& budget) {
    return value ? holds(constraint, *value, budget) : constraint.op == Op::Missing;
}

template <class ValueOrPointer>
inline bool holds(const Constraint& constraint, const ValueOrPointer& value) {
    Budget budget(Budget::unlimited);
    return holds(constraint, value, budget);
}

}  // namespace tidings
