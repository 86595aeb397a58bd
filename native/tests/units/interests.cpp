// Filters of routers against predicates evaluated one after the other, while they come, are counted, and go.
#include "tidings/encoding/filter_rows.hpp"

#include "../../fuzz/plain_interests.hpp"
#include "../../fuzz/seeds.hpp"
#include "check.hpp"
#include "tidings/codec/batch.hpp"

using namespace tidings;
using units::Random;

namespace {

std::string row_of(const std::string& predicate) {
    const bool zero = (predicate.size() + 1) % 8 == 0;
    return std::string(1, static_cast<char>(zero)) + predicate + std::string(zero, '\0');
}

std::string random_row(Random& random) {
    constexpr Op ops[] = {Op::Eq, Op::Lt, Op::Ge};
    std::set<std::string> constraints;
    for (uint64_t i = random() % 3 + 1; i > 0; --i) {
        const std::string name(1, static_cast<char>('a' + random() % 3));
        const auto bound = Value::integer(static_cast<int64_t>(random() % 6));
        constraints.insert(seeds::constraint(ops[random() % 3], name, bound));
    }
    std::string out("\x01");
    Writer(out).varint(constraints.size());
    for (const std::string& one : constraints) out += one;
    return row_of(out + '\0');
}

std::string random_messages(Random& random, int count) {
    std::string all;
    for (int i = 0; i < count; ++i) {
        std::string out;
        MessageWriter writer(out);
        writer.begin(0, 4, "0123456789abcdef", "t");
        for (const std::string_view name : {"a", "b", "c"})
            if (random() % 4) writer.attribute(name, Value::integer(static_cast<int64_t>(random() % 6)));
        writer.finish("");
        Writer(all).fixed(static_cast<uint32_t>(out.size()));
        all += out;
    }
    return all;
}

}  // namespace

TEST(filter_rows_send_messages_where_predicates_want_them) {
    Random random(11);
    FilterRows rows(5);
    plain::Rows known;
    std::vector<std::pair<uint32_t, std::string>> given;
    size_t routers = 0, counted = 0;
    for (int round = 0; round < 40; ++round) {
        for (int i = 0; i < 30; ++i) {
            const bool again = !given.empty() && random() % 4 == 0;
            const auto one = again ? given[random() % given.size()]
                                   : std::pair{static_cast<uint32_t>(random() % 5 * 7 + 2), random_row(random)};
            counted += again;
            rows.add(one.first, one.second);
            known.add(one.first, one.second);
            given.push_back(one);
        }
        for (int i = 0; i < 25; ++i) {
            const auto& [router, row] = given[random() % given.size()];  // perhaps gone already
            CHECK(rows.remove(router, row) == known.remove(router, row));
        }
        if (round % 10 == 9) CHECK(rows.drop(9) == known.drop(9));
        CHECK(rows.size() == known.size());
        const std::string messages = random_messages(random, 10);
        MessageBatch batch;
        batch.decode_messages(messages, {});
        for (const Entry& entry : batch) {
            std::vector<uint32_t> found;
            rows.match(entry.message, found);
            CHECK(found == known.match(entry.message));
            routers += found.size();
        }
    }
    CHECK(routers > 200 && counted > 100);
    for (uint32_t router = 2; router < 40; router += 7) {
        rows.drop(router);
        CHECK(!rows.drop(router) || router == 2);
    }
    CHECK(rows.empty() && rows.derived() == 0);
}

TEST(filter_rows_refuse_what_is_no_filter_and_stay_as_they_were) {
    FilterRows rows(1);
    const std::string good = row_of(seeds::everything);
    rows.add(3, good);
    const auto code = [&](const std::string& row) { return units::code_of([&] { rows.add(3, row); }); };
    CHECK(code(std::string("\x02", 1) + "abc") == "E_INTEREST_ROW");
    CHECK(code(std::string("\x01", 1) + "abcd") == "E_INTEREST_ROW");
    CHECK(code(std::string("\x00\x01", 2)) == "E_CODEC_TRUNCATED");
    CHECK(rows.size() == 1 && !rows.remove(4, good) && !rows.remove(3, row_of("x")) && rows.remove(3, good));
    CHECK(rows.empty() && !rows.remove(3, good));
}
