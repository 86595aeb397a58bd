// Any bytes as a predicate. Its constraints are then asked about every value the predicate holds; a LIKE pattern is
// compared with a plain matcher that tries everything.
#include "seeds.hpp"
#include "target.hpp"

using namespace tidings;

namespace {

constexpr size_t tried_bytes_max = 40;  // the plain matcher takes exponential time

bool like_plainly(std::string_view pattern, std::string_view text) {
    if (pattern.empty()) return text.empty();
    if (pattern[0] == '%')
        return like_plainly(pattern.substr(1), text) ||
               (!text.empty() && like_plainly(pattern, text.substr(utf8_length(text[0]))));
    if (text.empty()) return false;
    if (pattern[0] == '_') return like_plainly(pattern.substr(1), text.substr(utf8_length(text[0])));
    if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
    return pattern[0] == text[0] && like_plainly(pattern.substr(1), text.substr(1));
}

size_t percents(std::string_view pattern) {
    return static_cast<size_t>(std::count(pattern.begin(), pattern.end(), '%'));
}

void ask(const Constraint& constraint, const Value& value) {
    const bool answer = holds(constraint, value);
    if (constraint.op == Op::Like && value.type == Type::String && value.s.size() < tried_bytes_max &&
        percents(constraint.value.s) < 4)
        FUZZ_CHECK(answer == (like_plainly(constraint.value.s, value.s) != constraint.negated));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const Predicate predicate = read_predicate({reinterpret_cast<const char*>(data), size});
        std::vector<const Constraint*> all;
        for (const Conjunction& conjunction : predicate.conjunctions)
            for (const Constraint& constraint : conjunction.constraints)
                if (all.size() < 32) all.push_back(&constraint);
        for (const Constraint* constraint : all) {
            holds(*constraint, static_cast<const Value*>(nullptr));
            for (const Constraint* other : all) ask(*constraint, other->value);
            for (const Value& value : constraint->list) FUZZ_CHECK(holds(*constraint, value) != constraint->negated);
        }
    } catch (const CodecError& error) {
        FUZZ_CHECK(error.position <= size);
    }
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    std::vector<std::string> constraints;
    for (const auto op : {Op::Eq, Op::Ne, Op::Lt, Op::Le, Op::Gt, Op::Ge}) {
        constraints.push_back(seeds::constraint(op, "n", Value::integer(20)));
        constraints.push_back(seeds::constraint(op, "n", Value::real(0.5), true));
    }
    for (const auto op : {Op::Prefix, Op::Suffix, Op::Contains, Op::Topic, Op::Like})
        constraints.push_back(seeds::constraint(op, "s", Value::string("a.b\xC3\xA4")));
    for (const auto pattern : {"%", "_", "%a_%", "a%\\_%_\xE2\x82\xAC", "%_b%_", "%__%\xC3\xA4_%"})
        constraints.push_back(seeds::constraint(Op::Like, "s", Value::string(pattern)));
    constraints.push_back(seeds::constraint(Op::Topic, "@topic", Value::string("a.*.>")));
    constraints.push_back(seeds::constraint(Op::Exists, "e", {}));
    constraints.push_back(seeds::constraint(Op::Missing, "m", {}));
    constraints.push_back(seeds::list_constraint());
    std::sort(constraints.begin(), constraints.end());
    std::string all(1, '\x01'), each(1, static_cast<char>(constraints.size()));
    all.push_back(static_cast<char>(constraints.size()));
    for (const std::string& one : constraints) {
        all += one;
        each += '\x01' + one;
    }
    const std::string program = seeds::program();
    return {all + '\0', each + static_cast<char>(program.size()) + program, std::string(3, '\0')};
}
