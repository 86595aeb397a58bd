// Programs of docs/wire.md: a selector in postfix form. Everything that can be wrong is found at load: unknown codes,
// bad operands, a stack that runs empty, runs over or ends with other than one value. Evaluation then has nothing left
// to check and nothing to allocate: 64 slots on the C++ stack, one pass over the instructions. Stores keep programs, so
// a code never changes its meaning: Div drops the fraction of ints, as `/` did in version 1 of the language of selectors.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "tidings/codec/attribute_finder.hpp"
#include "tidings/codec/message_reader.hpp"
#include "tidings/codec/predicate.hpp"

namespace tidings {

inline constexpr size_t program_depth_max = 64;

enum class Code : uint8_t {
    Const = 1,
    Attr,
    Neg,
    Add,
    Sub,
    Mul,
    Div,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    Like,
    IsNull,
    Not,
    And,
    Or,
    Quot,
    Rem
};

enum class Truth : uint8_t { False, True, Unknown };

// An operand of the machine: a value or NULL. Truth values are booleans, unknown is NULL.
struct Slot {
    Value value;
    bool null = true;

    Slot() = default;
    Slot(const Value& v) : value(v), null(false) {}
    Slot(Truth truth) : value(Value::boolean(truth == Truth::True)), null(truth == Truth::Unknown) {}

    Truth truth() const {
        if (null) return Truth::Unknown;
        if (value.type == Type::Bool) return value.i ? Truth::True : Truth::False;
        const std::optional<Value> known = as_kind(value, Kind::Bool);
        return known && known->i ? Truth::True : Truth::False;
    }
};

namespace detail {

inline Slot from_wide(__int128 n) {
    if (n >= INT64_MIN && n <= INT64_MAX) return Value::integer(static_cast<int64_t>(n));
    return Value::real(static_cast<double>(n));
}

inline Slot from_double(double x) { return std::isnan(x) ? Slot() : Slot(Value::real(x)); }

inline double as_double(const Value& v) { return v.type == Type::Int ? static_cast<double>(v.i) : v.d; }

// Untyped text that reads as a number is one.
inline Slot as_number(const Slot& a) {
    if (a.null || a.value.type != Type::Text) return a;
    const std::optional<Value> read = as_kind(a.value, Kind::Number);
    return read ? Slot(*read) : Slot();
}

inline Slot arithmetic(Code code, const Slot& a, const Slot& b) {
    if ((!a.null && a.value.type == Type::Text) || (!b.null && b.value.type == Type::Text))
        return arithmetic(code, as_number(a), as_number(b));
    if (a.null || b.null || a.value.kind() != Kind::Number || b.value.kind() != Kind::Number) return {};
    if (a.value.type == Type::Int && b.value.type == Type::Int) {
        const __int128 x = a.value.i, y = b.value.i;
        switch (code) {
            case Code::Add: return from_wide(x + y);
            case Code::Sub: return from_wide(x - y);
            case Code::Mul: return from_wide(x * y);
            case Code::Div: return y == 0 ? Slot() : from_wide(x / y);
            case Code::Rem: return y == 0 ? Slot() : from_wide(x % y);
            default:
                if (y == 0) return {};
                if (x % y == 0) return from_wide(x / y);
                break;  // a fraction
        }
    }
    const double x = as_double(a.value), y = as_double(b.value);
    switch (code) {
        case Code::Add: return from_double(x + y);
        case Code::Sub: return from_double(x - y);
        case Code::Mul: return from_double(x * y);
        case Code::Rem: return from_double(std::fmod(x, y));
        default: return from_double(x / y);
    }
}

inline Slot negative(const Slot& given) {
    const Slot a = as_number(given);
    if (a.null || a.value.kind() != Kind::Number) return {};
    if (a.value.type == Type::Int) return from_wide(-static_cast<__int128>(a.value.i));
    return Value::real(-a.value.d);
}

inline Slot comparison(Code code, int order) {
    switch (code) {
        case Code::Eq: return Value::boolean(order == 0);
        case Code::Ne: return Value::boolean(order != 0);
        case Code::Lt: return Value::boolean(order < 0);
        case Code::Le: return Value::boolean(order <= 0);
        case Code::Gt: return Value::boolean(order > 0);
        default: return Value::boolean(order >= 0);
    }
}

inline Slot comparison(Code code, const Slot& a, const Slot& b, Budget& budget) {
    if (a.null || b.null) return {};
    if (a.value.type == Type::Int && b.value.type == Type::Int)
        return comparison(code, (a.value.i > b.value.i) - (a.value.i < b.value.i));
    if (!take_comparison(a.value.s, b.value.s, budget)) return {};
    const std::optional<int> order = compare(a.value, b.value);
    return order ? comparison(code, *order) : Value::boolean(false);
}

inline Truth negation(Truth a) { return a == Truth::Unknown ? a : a == Truth::True ? Truth::False : Truth::True; }

inline Truth conjunction(Truth a, Truth b) {
    if (a == Truth::False || b == Truth::False) return Truth::False;
    return a == Truth::True && b == Truth::True ? Truth::True : Truth::Unknown;
}

}  // namespace detail

class Program {
public:
    // Keeps views into `bytes`, which must outlive the program.
    explicit Program(std::string_view bytes) {
        if (bytes.size() > program_bytes_max) refuse("E_CODEC_LIMIT", "a program has at most 64 KiB", 0);
        Reader reader(bytes);
        size_t depth = 0;
        while (!reader.done()) {
            const size_t start = reader.position();
            instructions_.push_back(read_instruction(reader));
            const Code code = instructions_.back().code;
            const size_t takes = operands(code);
            if (depth < takes) refuse("E_CODEC_PROGRAM", "the stack runs empty", start);
            depth += 1 - takes;
            if (depth > program_depth_max) refuse("E_CODEC_PROGRAM", "the stack is deeper than 64", start);
        }
        if (depth != 1) refuse("E_CODEC_PROGRAM", "a program ends with exactly one value", bytes.size());
        for (const Instruction& one : instructions_)
            if (one.code == Code::Attr) derived_ |= derived_bit(one.name);
        steps_ = instructions_.size() * instruction_steps;
    }

    // Unknown if the budget is exhausted.
    Truth evaluate(const AttributeFinder& attributes, Budget& budget) const {
        return budget.take(steps_) ? run(attributes, budget) : Truth::Unknown;
    }
    Truth evaluate(const MessageView& message) const {
        AttributeFinder attributes;
        attributes.set(message);
        Budget budget(Budget::unlimited);
        return evaluate(attributes, budget);
    }

    // Bits of the derived attributes (message_reader.hpp) that the program names.
    uint8_t derived() const { return derived_; }

private:
    static constexpr uint64_t instruction_steps = 16;

    struct Instruction {
        Code code;
        Value value;            // CONST; LIKE: the pattern
        std::string_view name;  // ATTR
        uint64_t name_hash = 0;
        std::vector<Value> list;                    // IN
        std::shared_ptr<const tidings::Like> like;  // LIKE
    };

    // Not cleared: to clear it would cost more than most programs.
    union Stack {
        Stack() {}
        Slot slots[program_depth_max + 1];
    };

    static size_t operands(Code code) {
        switch (code) {
            case Code::Const:
            case Code::Attr: return 0;
            case Code::Neg:
            case Code::In:
            case Code::Like:
            case Code::IsNull:
            case Code::Not: return 1;
            default: return 2;
        }
    }

    static Instruction read_instruction(Reader& reader) {
        const size_t start = reader.position();
        const uint8_t code = reader.u8();
        if (code < static_cast<uint8_t>(Code::Const) || code > static_cast<uint8_t>(Code::Rem))
            refuse("E_CODEC_PROGRAM", "unknown code", start);
        Instruction one{};
        one.code = static_cast<Code>(code);
        switch (one.code) {
            case Code::Const: one.value = read_value(reader); break;
            case Code::Attr:
                one.name = read_name(reader);
                one.name_hash = hash_name(one.name);
                break;
            case Code::In:
                one.list = read_list(reader, false);
                std::sort(one.list.begin(), one.list.end(), ascends);
                break;
            case Code::Like:
                one.value = read_value(reader, StringOnly);
                one.like = std::make_shared<const tidings::Like>(one.value.s);
                break;
            default: break;
        }
        return one;
    }

    Truth run(const AttributeFinder& attributes, Budget& budget) const {
        Stack stack;
        Slot* top = stack.slots;  // the uppermost value; slots[0] is never used
        for (const Instruction& one : instructions_) {
            switch (one.code) {
                case Code::Const: *++top = Slot(one.value); break;
                case Code::Attr: {
                    const Attribute* const found = attributes.find(one.name, one.name_hash);
                    *++top = found ? Slot(found->value) : Slot();
                    break;
                }
                case Code::Neg: *top = detail::negative(*top); break;
                case Code::In: *top = member(one.list, *top, budget); break;
                case Code::Like:
                    *top = like(*one.like, *top, budget);
                    if (budget.exhausted()) [[unlikely]]
                        return Truth::Unknown;
                    break;
                case Code::IsNull: *top = Value::boolean(top->null); break;
                case Code::Not: *top = detail::negation(top->truth()); break;
                default: --top; *top = binary(one.code, top[0], top[1], budget);
            }
        }
        return budget.exhausted() ? Truth::Unknown : top->truth();
    }

    static Slot binary(Code code, const Slot& a, const Slot& b, Budget& budget) {
        using namespace detail;
        if (code == Code::And) return conjunction(a.truth(), b.truth());
        if (code == Code::Or) return negation(conjunction(negation(a.truth()), negation(b.truth())));
        return code <= Code::Div || code >= Code::Quot ? arithmetic(code, a, b) : comparison(code, a, b, budget);
    }

    static Slot member(const std::vector<Value>& list, const Slot& a, Budget& budget) {
        if (a.null || !take_comparisons(a.value.s.size(), list.size(), budget)) return {};
        if (contains_value(list, a.value)) return Value::boolean(true);
        const std::optional<Value> read = a.value.type == Type::Text ? reading(a.value.s) : std::nullopt;
        return Value::boolean(read && contains_value(list, *read));
    }

    static Slot like(const tidings::Like& pattern, const Slot& a, Budget& budget) {
        if (a.null) return {};
        return Value::boolean(a.value.kind() == Kind::String && pattern.matches(a.value.s, budget));
    }

    std::vector<Instruction> instructions_;
    uint64_t steps_ = 0;  // to run all of them
    uint8_t derived_ = 0;
};

}  // namespace tidings
