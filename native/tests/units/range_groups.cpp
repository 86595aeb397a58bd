// Rows of bounds on the same lines, with vector instructions or without, against plain comparison.
#include "tidings/matching/range_groups.hpp"

#include <map>
#include <set>

#include "check.hpp"

using namespace tidings;
using units::Random;

namespace {

constexpr uint32_t lines = 4;
using Intervals = std::vector<RangeGroups::Interval>;

struct Row {
    Intervals intervals;
    uint32_t place;
};

Intervals random_intervals(Random& random) {
    Intervals intervals;
    for (uint32_t line = 1; line < lines; ++line) {
        if (random() % 4 == 0 && (line > 1 || random() % 2)) continue;
        // Also beyond 2^31: positions have no sign.
        const auto a = static_cast<uint32_t>(random() % 64) << 26, b = static_cast<uint32_t>(random() % 64) << 26;
        intervals.push_back({line, std::min(a, b), std::max(a, b)});
    }
    if (intervals.empty()) intervals.push_back({1, 0, 1u << 31});
    return intervals;
}

}  // namespace

TEST(range_groups_find_the_rows_that_plain_comparison_finds) {
    Random random(9);
    RangeGroups groups;
    std::map<uint32_t, Row> rows;  // by number; the token of row n is n + 7
    uint32_t next = 0;
    size_t hits = 0;
    for (int round = 0; round < 30; ++round) {
        for (int i = 0; i < 150; ++i, ++next) {
            const Intervals intervals = random_intervals(random);
            const bool rest = random() % 8 == 0;
            const uint32_t number = next | (rest ? RangeGroups::check_rest : 0);
            rows[next] = {intervals, groups.add(intervals, next + 7, number)};
        }
        for (int i = 0; i < 100; ++i) {
            const auto gone = std::next(rows.begin(), static_cast<ptrdiff_t>(random() % rows.size()));
            groups.remove(gone->second.intervals, gone->second.place,
                          [&](uint32_t row, uint32_t place) { rows.at(row).place = place; });
            rows.erase(gone);
        }
        for (int i = 0; i < 20; ++i) {
            std::vector<uint32_t> at(lines);
            uint64_t present = 0;
            for (uint32_t line = 1; line < lines; ++line) {
                at[line] = static_cast<uint32_t>(random() % 64) << 26;
                present |= RangeGroups::line_bit(line);
            }
            std::multiset<uint32_t> found, expected;
            for (uint32_t line = 1; line < lines; ++line)
                groups.match(
                    line, present, at.data(), at.data(),
                    [&](const uint32_t* tokens, size_t count) { found.insert(tokens, tokens + count); },
                    [&](uint32_t token, uint32_t row) {
                        CHECK(token == row + 7);
                        found.insert(token);
                    });
            for (const auto& [number, row] : rows)
                if (std::ranges::all_of(row.intervals, [&](const RangeGroups::Interval& one) {
                        return one.low <= at[one.line] && at[one.line] <= one.high;
                    }))
                    expected.insert(number + 7);
            CHECK(found == expected);
            hits += found.size();
        }
    }
    CHECK(hits > 1000);
}
