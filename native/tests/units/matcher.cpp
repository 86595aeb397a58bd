// The matcher against the linear matcher and against predicates evaluated one constraint after the other, while
// subscribers are added, removed and added again.
#include <algorithm>
#include <map>
#include <set>

#include "../../fuzz/seeds.hpp"
#include "check.hpp"
#include "tidings/matching/linear_matcher.hpp"

using namespace tidings;
using units::chance;
using units::Random;

namespace {

template <class T, size_t N>
const T& any(Random& random, const T (&values)[N]) {
    return values[random() % N];
}

constexpr std::string_view names[] = {"a", "b", "c", "d", "JMSPriority"};
constexpr std::string_view strings[] = {"", "a", "ab", "abc", "b.c", "b.c.d", "1", "2.5", "true"};
constexpr std::string_view patterns[] = {"a%", "%c", "_b%", "%", "a_c", "%b%"};
constexpr std::string_view topics[] = {"b.*", "b.>", "b.c", "*.c"};

Value number(Random& random) {
    // 2^53 and its neighbours have one position on the matcher's line and must be told apart by their values.
    if (chance(random, 10)) return Value::integer((int64_t{1} << 53) + static_cast<int64_t>(random() % 3) - 1);
    const auto n = static_cast<int64_t>(random() % 9) - 4;
    return chance(random, 30) ? Value::real(static_cast<double>(n) + 0.5) : Value::integer(n);
}

Value value(Random& random, bool in_message) {
    switch (random() % 8) {
        case 0: return Value::boolean(random() % 2);
        case 1: return Value::string(any(random, strings));
        case 2: return Value::bytes(any(random, strings));
        case 3: return in_message ? Value::text(any(random, strings)) : Value::string(any(random, strings));
        default: return number(random);
    }
}

std::string constraint(Random& random) {
    const std::string_view name = any(random, names);
    const bool negated = chance(random, 20);
    const auto op = static_cast<Op>(1 + random() % 14);
    switch (op) {
        case Op::Exists:
        case Op::Missing: return seeds::constraint(op, name, {});
        case Op::Prefix:
        case Op::Suffix:
        case Op::Contains: return seeds::constraint(op, name, Value::string(any(random, strings)), negated);
        case Op::Like: return seeds::constraint(op, name, Value::string(any(random, patterns)), negated);
        case Op::Topic: return seeds::constraint(op, name, Value::string(any(random, topics)), negated);
        case Op::In: {
            std::set<Value, decltype([](const Value& a, const Value& b) { return ascends(a, b); })> list;
            for (int i = 0; i < 3; ++i) list.insert(value(random, false));
            std::string out;
            Writer writer(out);
            writer.u8(static_cast<uint8_t>(static_cast<uint8_t>(Op::In) | (negated ? 0x80 : 0)));
            writer.name(name);
            writer.u8(6);
            writer.varint(list.size());
            for (const Value& one : list) writer.value(one);
            return out;
        }
        default: return seeds::constraint(op, name, value(random, false), negated);
    }
}

// Bounds on the same attributes, so that many rows share a group.
std::string interval(Random& random, std::string_view name) {
    const auto low = static_cast<int64_t>(random() % 9) - 4;
    return seeds::constraint(random() % 2 ? Op::Ge : Op::Lt, name, Value::integer(low));
}

std::string join(const std::set<std::string>& parts) {
    std::string out;
    Writer(out).varint(parts.size());
    for (const std::string& part : parts) out += part;
    return out;
}

std::string predicate(Random& random) {
    std::set<std::string> conjunctions;
    for (uint64_t i = random() % 3 + (chance(random, 95) ? 1 : 0); i > 0; --i) {
        std::set<std::string> constraints;
        if (chance(random, 40)) constraints = {interval(random, "a"), interval(random, "b")};
        else
            for (uint64_t j = random() % 4; j > 0; --j) constraints.insert(constraint(random));
        if (!constraints.empty() || chance(random, 10)) conjunctions.insert(join(constraints));
    }
    std::string out = join(conjunctions);
    const std::string program = chance(random, 10) ? seeds::program() : std::string();
    Writer(out).varint(program.size());
    return out + program;
}

std::string message(Random& random) {
    std::string out;
    MessageWriter writer(out);
    writer.begin(0, static_cast<uint8_t>(random() % 5), "0123456789abcdef", "b.c");
    for (const std::string_view name : {"a", "b", "c", "d"})
        if (chance(random, 70)) writer.attribute(name, value(random, true));
    writer.finish("");
    return out;
}

bool wants(const std::string& blob, const MessageView& message) {
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

template <class Offsets, class Ids>
std::vector<uint32_t> ids_of(size_t i, const Offsets& offsets, const Ids& ids) {
    std::vector<uint32_t> sorted(ids.begin() + offsets[i], ids.begin() + offsets[i + 1]);
    std::ranges::sort(sorted);
    return sorted;
}

struct Matchers {
    Matcher indexed;
    LinearMatcher linear;
    std::map<uint32_t, std::string> subscribers;
    MessageBatch batch;
    Matches found, plain;

    void add(uint32_t id, const std::string& blob) {
        indexed.add(id, std::string(blob));  // of a copy that ends: the matcher keeps no view of it
        linear.add(id, std::string(blob));
        subscribers[id] = blob;
    }

    void remove(uint32_t id) {
        indexed.remove(id);
        linear.remove(id);
        subscribers.erase(id);
    }

    // Returns the number of matches.
    size_t compare(Random& random, int messages) {
        std::string bytes;
        for (int i = 0; i < messages; ++i) {
            const std::string one = message(random);
            Writer(bytes).fixed(static_cast<uint32_t>(one.size()));
            bytes += one;
        }
        batch.decode_messages(bytes, {});
        CHECK(batch.size() == static_cast<size_t>(messages) && batch.broken() == 0);
        indexed.match(batch, found);
        linear.match(batch, plain);
        CHECK(indexed.size() == subscribers.size() && linear.size() == subscribers.size());
        for (size_t i = 0; i < batch.size(); ++i) {
            std::vector<uint32_t> expected;
            for (const auto& [id, blob] : subscribers)
                if (wants(blob, batch[i].message)) expected.push_back(id);
            CHECK(ids_of(i, found.offsets, found.ids) == expected);
            CHECK(ids_of(i, plain.offsets, plain.ids) == expected);
        }
        return found.ids.size();
    }
};

}  // namespace

TEST(matchers_agree_while_subscribers_come_and_go) {
    Random random(3);
    Matchers matchers;
    std::vector<std::pair<uint32_t, std::string>> removed;
    size_t matches = 0, readded = 0;
    for (int round = 0; round < 24; ++round) {
        const bool grows = round % 8 < 5;
        for (int i = 0; i < (grows ? 80 : 10); ++i) {
            // Large ids get an alias in the matcher.
            const auto id = static_cast<uint32_t>(random() % 4 ? random() % 5000 : UINT32_MAX - random() % 5000);
            if (!matchers.subscribers.contains(id)) matchers.add(id, predicate(random));
        }
        for (int i = 0; i < (grows ? 20 : 110) && !matchers.subscribers.empty(); ++i) {
            const auto gone = std::next(matchers.subscribers.begin(),
                                        static_cast<ptrdiff_t>(random() % matchers.subscribers.size()));
            removed.emplace_back(*gone);
            matchers.remove(gone->first);
        }
        for (; removed.size() > 40; removed.pop_back()) {
            const auto& [id, blob] = removed.back();
            if (matchers.subscribers.contains(id) || random() % 2) continue;
            matchers.add(id, blob);
            ++readded;
        }
        matches += matchers.compare(random, 12);
    }
    CHECK(matches > 2000 && readded > 50);
    while (!matchers.subscribers.empty()) matchers.remove(matchers.subscribers.begin()->first);
    CHECK(matchers.compare(random, 5) == 0);
    CHECK(matchers.indexed.conjunctions() == 0 && matchers.linear.conjunctions() == 0);
    CHECK(matchers.indexed.derived() == 0);
}

TEST(matcher_refuses_what_it_cannot_do_and_stays_as_it_was) {
    Random random(4);
    Matchers matchers;
    matchers.add(7, seeds::everything);
    const auto code = [&](auto&& action) { return units::code_of(action); };
    CHECK(code([&] { matchers.indexed.add(7, seeds::everything); }) == "E_MATCHER_ID");
    CHECK(code([&] { matchers.linear.add(7, seeds::everything); }) == "E_MATCHER_ID");
    CHECK(code([&] { matchers.indexed.remove(8); }) == "E_MATCHER_ID");
    CHECK(code([&] { matchers.linear.remove(8); }) == "E_MATCHER_ID");
    CHECK(code([&] { matchers.indexed.add(8, "\x01"); }) == "E_CODEC_TRUNCATED");
    CHECK(code([&] { matchers.linear.add(8, "\x01"); }) == "E_CODEC_TRUNCATED");
    CHECK(matchers.compare(random, 3) == 3);
}
