// Predicates of docs/wire.md: read and checked once when a subscription arrives, then asked for every message. Names and
// values are views into the blob, which must outlive the predicate; the meaning is that of src/tidings/model/constraint.py.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "tidings/like.hpp"
#include "tidings/reader.hpp"

namespace tidings {

enum class Op : uint8_t {
    Eq = 1, Ne, Lt, Le, Gt, Ge, In, Prefix, Suffix, Contains, Like, Topic, Exists, Missing
};

struct Constraint {
    Op op = Op::Exists;
    bool negated = false;
    std::string_view name;
    Value value;                              // not for IN, EXISTS, MISSING
    std::vector<Value> list;                  // IN
    std::shared_ptr<const tidings::Like> like;  // LIKE: the pattern, compiled
    std::string_view bytes;                   // as it stands in the blob: equal bytes mean the same constraint
};

struct Conjunction {
    std::vector<Constraint> constraints;  // none: always true
};

struct Predicate {
    std::vector<Conjunction> conjunctions;  // none: never true
    std::string_view program;               // empty: none; not looked into here
};

// The operand of IN: at least one value, none of them a list.
inline std::vector<Value> read_list(Reader& reader) {
    const size_t start = reader.position();
    if (reader.u8() != type_list) refuse("E_OPERAND", "IN takes a list", start);
    const size_t count = reader.count();
    if (count == 0) refuse("E_OPERAND", "IN takes at least one value", start);
    std::vector<Value> list;
    for (size_t i = 0; i < count; ++i) list.push_back(read_value(reader));
    return list;
}

// The operand of LIKE: a string without a trailing escape, compiled.
inline std::shared_ptr<const Like> read_like(Reader& reader, Value& pattern) {
    const size_t start = reader.position();
    pattern = read_value(reader);
    if (pattern.type != Type::String) refuse("E_OPERAND", "this operator takes a string", start);
    if (trailing_escape(pattern.s) != no_hit) refuse("E_PATTERN", "nothing follows the escape character", reader.position() - 1);
    return std::make_shared<const Like>(pattern.s);
}

namespace detail {

inline void read_operand(Reader& reader, Constraint& constraint) {
    const size_t start = reader.position();
    switch (constraint.op) {
        case Op::Exists:
        case Op::Missing:
            return;
        case Op::In:
            constraint.list = read_list(reader);
            return;
        case Op::Like:
            constraint.like = read_like(reader, constraint.value);
            return;
        default:
            constraint.value = read_value(reader);
    }
    if (constraint.op < Op::Prefix) return;
    const std::string_view text = constraint.value.s;
    if (constraint.value.type != Type::String) refuse("E_OPERAND", "this operator takes a string", start);
    if (constraint.op != Op::Topic) return;
    if (const size_t wrong = topic_pattern_error(text); wrong != no_hit)
        refuse("E_PATTERN", "an empty level, or > before the end", reader.position() - text.size() + wrong);
}

inline Constraint read_constraint(Reader& reader) {
    const size_t start = reader.position();
    Constraint constraint;
    const uint8_t code = reader.u8(), op = code & 0x7F;
    constraint.negated = (code & 0x80) != 0;
    if (op < static_cast<uint8_t>(Op::Eq) || op > static_cast<uint8_t>(Op::Missing)) refuse("E_OPERATOR", "unknown operator", start);
    constraint.op = static_cast<Op>(op);
    if (constraint.negated && constraint.op >= Op::Exists) refuse("E_OPERATOR", "EXISTS and MISSING are never negated", start);
    constraint.name = read_name(reader);
    read_operand(reader, constraint);
    return constraint;
}

}  // namespace detail

inline Predicate read_predicate(std::string_view blob) {
    Reader reader(blob);
    Predicate predicate;
    const size_t conjunctions = reader.count();
    for (size_t i = 0; i < conjunctions; ++i) {
        Conjunction& conjunction = predicate.conjunctions.emplace_back();
        const size_t constraints = reader.count();
        for (size_t j = 0; j < constraints; ++j) {
            const size_t start = reader.position();
            conjunction.constraints.push_back(detail::read_constraint(reader));
            conjunction.constraints.back().bytes = blob.substr(start, reader.position() - start);
        }
    }
    const size_t program_bytes = reader.count();
    predicate.program = reader.bytes(program_bytes);
    if (!reader.done()) refuse("E_LENGTH", "bytes after the predicate", reader.position());
    return predicate;
}

namespace detail {

inline bool holds_plain(const Constraint& constraint, const Value& value) {
    const std::string_view operand = constraint.value.s;
    switch (constraint.op) {
        case Op::Eq: return equal(value, constraint.value);
        case Op::In:
            for (const Value& one : constraint.list)
                if (equal(value, one)) return true;
            return false;
        case Op::Prefix: return value.type == Type::String && value.s.starts_with(operand);
        case Op::Suffix: return value.type == Type::String && value.s.ends_with(operand);
        case Op::Contains: return value.type == Type::String && contains_text(value.s, operand);
        case Op::Like: return value.type == Type::String && constraint.like->matches(value.s);
        case Op::Topic: return value.type == Type::String && topic_matches(operand, value.s);
        case Op::Exists: return true;
        case Op::Missing: return false;
        default: break;
    }
    if (value.kind() != constraint.value.kind()) return false;
    const int order = compare_same_kind(value, constraint.value);
    switch (constraint.op) {
        case Op::Ne: return order != 0;
        case Op::Lt: return order < 0;
        case Op::Le: return order <= 0;
        case Op::Gt: return order > 0;
        default: return order >= 0;
    }
}

}  // namespace detail

// Whether the constraint is true of this attribute value.
inline bool holds(const Constraint& constraint, const Value& value) {
    return detail::holds_plain(constraint, value) != constraint.negated;
}

// The same with nullptr for a missing attribute.
inline bool holds(const Constraint& constraint, const Value* value) {
    return value ? holds(constraint, *value) : constraint.op == Op::Missing;
}

}  // namespace tidings
