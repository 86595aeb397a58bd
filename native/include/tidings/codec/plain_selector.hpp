// Plain selectors, straight from text to the encoded predicate that installs them: comparisons of a property with a
// literal, IN, BETWEEN, LIKE and IS NULL, joined by AND. That is most of what clients subscribe with, and it is read
// here some hundred times faster than by way of the syntax tree (src/tidings/model/selector/).
//
// Everything else is left to that: another grammar (OR, parentheses, arithmetic, ESCAPE), names that are not ASCII,
// unusual spellings of numbers, several tests of one property of which one decides the others, and every error. Where
// this gives an answer it is the same, byte for byte; tests/unit/kernel/test_plain_selector.py holds that.
#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/codec/predicate.hpp"
#include "tidings/codec/writer.hpp"

namespace tidings {

class PlainSelector {
public:
    static constexpr size_t text_bytes_max = 8192, choices_max = 1024, pattern_bytes_max = 2048;

    // The predicate of a selector within a destination, which is an encoded constraint; nothing if it is not plain.
    // Blank text asks for nothing beside the destination.
    bool translate(std::string_view text, std::string_view destination, std::string& out) {
        if (text.size() > text_bytes_max || std::ranges::count(text, '(') > parentheses_max) return false;
        text_ = text;
        at_ = 0;
        tests_.clear();
        space();
        if (at_ < text_.size() && !conjunction()) return false;
        if (!simple()) return false;
        write(destination, out);
        return true;
    }

private:
    static constexpr std::ptrdiff_t parentheses_max = 16;  // beyond it the program of the selector must be looked at

    struct Test {
        Op op;
        bool negated;
        std::string_view name;
        std::string bytes;  // the encoded constraint
    };

    bool conjunction() {
        do {
            if (!test()) return false;
            space();
            if (at_ == text_.size()) return true;
        } while (keyword("AND"));
        return false;
    }

    bool test() {
        space();
        const std::string_view name = word();
        if (name.empty() || name.size() > 255 || is_keyword(name)) return false;
        space();
        if (const std::optional<Op> op = comparison()) return compare(name, *op);
        if (keyword("IS")) {
            const bool there = keyword("NOT");
            if (!keyword("NULL")) return false;
            add(there ? Op::Exists : Op::Missing, false, name);
            return true;
        }
        const bool negated = keyword("NOT");
        if (keyword("IN")) return one_of(name, negated);
        if (keyword("LIKE")) return like(name, negated);
        return !negated && keyword("BETWEEN") && between(name);
    }

    bool compare(std::string_view name, Op op) {
        std::string text;
        const std::optional<Value> value = literal(text);
        const bool ordered = op != Op::Eq && op != Op::Ne;
        if (!value || (ordered && value->kind() == Kind::Bool)) return false;
        add(op, false, name, *value);
        return true;
    }

    bool between(std::string_view name) {
        std::string low_text, high_text;
        const std::optional<Value> low = literal(low_text);
        if (!low || !keyword("AND")) return false;
        const std::optional<Value> high = literal(high_text);
        if (!high || low->kind() == Kind::Bool || high->kind() == Kind::Bool) return false;
        add(Op::Ge, false, name, *low);
        add(Op::Le, false, name, *high);
        return true;
    }

    bool one_of(std::string_view name, bool negated) {
        std::deque<std::string> texts;  // values point into them
        std::vector<Value> values;
        if (!sign('(')) return false;
        do {
            if (values.size() == choices_max) return false;
            const std::optional<Value> value = literal(texts.emplace_back());
            if (!value) return false;
            values.push_back(*value);
        } while (sign(','));
        if (!sign(')')) return false;
        std::ranges::sort(values, ascends);
        const auto same = [](const Value& a, const Value& b) { return !ascends(a, b); };
        values.erase(std::unique(values.begin(), values.end(), same), values.end());
        if (values.size() == 1) {
            add(Op::Eq, negated, name, values.front());
            return true;
        }
        Writer writer(begin(Op::In, negated, name));
        writer.u8(6);
        writer.varint(values.size());
        for (const Value& one : values) writer.value(one);
        return true;
    }

    // A pattern without ESCAPE: the cheapest operator that says it, or its canonical spelling.
    bool like(std::string_view name, bool negated) {
        std::string pattern;
        space();
        if (!string(pattern) || pattern.size() > pattern_bytes_max) return false;
        std::string spelt;
        size_t runs = 1;
        bool wild = false;
        for (size_t i = 0; i < pattern.size(); ++i) {
            if (pattern[i] == '%' && i && pattern[i - 1] == '%') continue;
            runs += pattern[i] == '%';
            wild |= pattern[i] == '_';
            if (pattern[i] == '\\') spelt += '\\';
            spelt += pattern[i];
        }
        const bool starts = pattern.starts_with('%'), ends = pattern.ends_with('%');
        std::string text;  // without the signs
        for (const char one : pattern)
            if (one != '%') text += one;
        if (!wild && runs == 1) add(Op::Eq, negated, name, Value::string(text));
        else if (!wild && runs == 2 && ends) add(Op::Prefix, negated, name, Value::string(text));
        else if (!wild && runs == 2 && starts) add(Op::Suffix, negated, name, Value::string(text));
        else if (!wild && runs == 3 && starts && ends) add(Op::Contains, negated, name, Value::string(text));
        else add(Op::Like, negated, name, Value::string(spelt));
        return true;
    }

    // ---- tokens

    void space() {
        while (at_ < text_.size() && std::string_view(" \t\n\r\f").find(text_[at_]) != std::string_view::npos) ++at_;
    }

    static bool starts_word(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '$'; }
    static bool in_word(char c) { return starts_word(c) || (c >= '0' && c <= '9'); }
    static bool foreign(char c) { return static_cast<unsigned char>(c) >= 0x80; }

    // A name, or a keyword; empty if there is none, or it is not ASCII.
    std::string_view word() {
        size_t end = at_;
        if (end == text_.size() || !starts_word(text_[end])) return {};
        while (end < text_.size()) {
            const bool joins = text_[end] == '.' && end + 1 < text_.size() && starts_word(text_[end + 1]);
            const bool foreign_next = text_[end] == '.' && end + 1 < text_.size() && foreign(text_[end + 1]);
            if (foreign(text_[end]) || foreign_next) return {};
            if (!in_word(text_[end]) && !joins) break;
            ++end;
        }
        const std::string_view found = text_.substr(at_, end - at_);
        at_ = end;
        return found;
    }

    static bool same_word(std::string_view found, std::string_view upper) {
        return std::ranges::equal(found, upper, [](char a, char b) {
            return (a >= 'a' && a <= 'z' ? static_cast<char>(a - 'a' + 'A') : a) == b;
        });
    }

    static bool is_keyword(std::string_view found) {
        static constexpr std::array<std::string_view, 11> keywords{"AND",    "OR", "NOT",  "BETWEEN", "IN",   "LIKE",
                                                                   "ESCAPE", "IS", "NULL", "TRUE",    "FALSE"};
        return std::ranges::any_of(keywords, [&](std::string_view one) { return same_word(found, one); });
    }

    // Takes the keyword if it is next.
    bool keyword(std::string_view upper) {
        space();
        const size_t before = at_;
        if (same_word(word(), upper)) return true;
        at_ = before;
        return false;
    }

    bool sign(char one) {
        space();
        if (at_ == text_.size() || text_[at_] != one) return false;
        ++at_;
        return true;
    }

    std::optional<Op> comparison() {
        static constexpr std::array<std::pair<std::string_view, Op>, 7> signs{{{"<>", Op::Ne},
                                                                               {"!=", Op::Ne},
                                                                               {"<=", Op::Le},
                                                                               {">=", Op::Ge},
                                                                               {"=", Op::Eq},
                                                                               {"<", Op::Lt},
                                                                               {">", Op::Gt}}};
        for (const auto& [spelt, op] : signs)
            if (text_.substr(at_).starts_with(spelt)) {
                at_ += spelt.size();
                return op;
            }
        return std::nullopt;
    }

    // A string's value is kept in `text`.
    std::optional<Value> literal(std::string& text) {
        space();
        if (at_ == text_.size()) return std::nullopt;
        if (text_[at_] == '\'') {
            if (!string(text)) return std::nullopt;
            return Value::string(text);
        }
        if (keyword("TRUE")) return Value::boolean(true);
        if (keyword("FALSE")) return Value::boolean(false);
        return number();
    }

    bool string(std::string& text) {
        if (at_ == text_.size() || text_[at_] != '\'') return false;
        text.clear();
        for (++at_;; ++at_) {
            const size_t quote = text_.find('\'', at_);
            if (quote == text_.npos) return false;
            text.append(text_.substr(at_, quote - at_));
            at_ = quote + 1;
            if (at_ == text_.size() || text_[at_] != '\'') return true;
            text += '\'';
        }
    }

    std::optional<Value> number() {
        const bool minus = text_[at_] == '-';
        if (minus || text_[at_] == '+') {
            ++at_;
            space();
        }
        const std::string_view rest = text_.substr(at_);
        const size_t whole = digits(rest, 0);
        size_t end = whole;
        if (end < rest.size() && rest[end] == '.') end += 1 + digits(rest, end + 1);
        if (end - (end > whole) == 0) return std::nullopt;  // no digit
        if (end < rest.size() && (rest[end] == 'e' || rest[end] == 'E')) {
            size_t exponent = end + 1;
            if (exponent < rest.size() && (rest[exponent] == '+' || rest[exponent] == '-')) ++exponent;
            const size_t figures = digits(rest, exponent);
            if (figures == 0) return std::nullopt;
            end = exponent + figures;
        }
        if (end < rest.size() && (in_word(rest[end]) || foreign(rest[end]))) return std::nullopt;
        at_ += end;
        return end == whole ? integer(rest.substr(0, end), minus) : real(rest.substr(0, end), minus);
    }

    // A leading zero makes it octal.
    static std::optional<Value> integer(std::string_view spelt, bool minus) {
        int64_t n = 0;
        if (spelt.size() > 1 && spelt[0] == '0') return std::nullopt;
        if (std::from_chars(spelt.data(), spelt.data() + spelt.size(), n).ec != std::errc{}) return std::nullopt;
        return Value::integer(minus ? -n : n);
    }

    static std::optional<Value> real(std::string_view spelt, bool minus) {
        double x = 0;
        const auto [end, error] = std::from_chars(spelt.data(), spelt.data() + spelt.size(), x);
        if (error != std::errc{} || end != spelt.data() + spelt.size()) return std::nullopt;
        if (minus) x = -x;
        if (x >= -9223372036854775808.0 && x < 9223372036854775808.0 && x == std::floor(x))
            return Value::integer(static_cast<int64_t>(x));
        return Value::real(x);
    }

    static size_t digits(std::string_view text, size_t from) {
        size_t at = from;
        while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
        return at - from;
    }

    // ---- constraints

    std::string& begin(Op op, bool negated, std::string_view name) {
        Test& test = tests_.emplace_back(Test{op, negated, name, {}});
        Writer writer(test.bytes);
        writer.u8(static_cast<uint8_t>(static_cast<unsigned>(op) | (negated ? 0x80u : 0u)));
        writer.name(name);
        return test.bytes;
    }

    void add(Op op, bool negated, std::string_view name) { begin(op, negated, name); }

    void add(Op op, bool negated, std::string_view name, const Value& value) {
        Writer(begin(op, negated, name)).value(value);
    }

    // False if a property has several tests of which one decides others, which takes more to find out.
    bool simple() const {
        for (const Test& one : tests_) {
            const bool decides = (one.op == Op::Eq && !one.negated) || one.op >= Op::Exists;
            if (decides && std::ranges::count(tests_, one.name, &Test::name) > 1) return false;
        }
        return true;
    }

    void write(std::string_view destination, std::string& out) const {
        std::vector<std::string_view> rows{destination};
        for (const Test& one : tests_) rows.push_back(one.bytes);
        std::ranges::sort(rows);
        rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
        Writer writer(out);
        writer.u8(1);
        writer.varint(rows.size());
        for (const std::string_view one : rows) writer.bytes(one);
        writer.u8(0);  // no program
    }

    std::string_view text_;
    size_t at_ = 0;
    std::vector<Test> tests_;
};

}  // namespace tidings
