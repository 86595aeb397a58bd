// The tree of boxes against a look at every box, in orders that make trees degenerate.
#include "tidings/matching/box_tree.hpp"

#include "../../fuzz/plain_interests.hpp"
#include "check.hpp"

using namespace tidings;
using units::Random;
using Sides = plain::Boxes::Sides;

namespace {

std::string end_of(uint32_t value) { return {2, static_cast<char>(value >> 8), static_cast<char>(value & 255)}; }

BoxTree::Side side(const std::string& name, uint32_t low, uint32_t high) {
    return {name, false, end_of(low), end_of(high)};
}

Sides random_sides(Random& random) {
    Sides sides;
    for (const char* name : {"a", "b", "c"}) {
        if (random() % 3 == 0) continue;
        const auto low = static_cast<uint32_t>(random() % 40);
        if (random() % 12 == 0) sides.push_back({name, true, {}, {}});
        else sides.push_back(side(name, low, low + 1 + static_cast<uint32_t>(random() % 9)));
    }
    return sides;
}

size_t compare(const BoxTree& tree, const plain::Boxes& known, const Sides& box) {
    std::vector<uint32_t> containing, within, meeting;
    tree.containing(box, containing);
    tree.within(box, within);
    tree.meeting(box, meeting);
    CHECK(plain::sorted(containing) == known.containing(box));
    CHECK(plain::sorted(within) == known.within(box));
    CHECK(plain::sorted(meeting) == known.meeting(box));
    return containing.size() + within.size() + meeting.size();
}

}  // namespace

TEST(box_tree_finds_what_a_look_at_every_box_finds) {
    Random random(21);
    BoxTree tree;
    plain::Boxes known;
    size_t found = 0;
    for (int round = 0; round < 30; ++round) {
        for (int i = 0; i < (round % 6 < 4 ? 120 : 20); ++i) {
            const auto id = static_cast<uint32_t>(random() % 3000);
            if (known.boxes.contains(id)) continue;
            known.boxes[id] = random_sides(random);
            tree.add(id, known.boxes[id]);
        }
        for (int i = 0; i < (round % 6 < 4 ? 20 : 250) && !known.boxes.empty(); ++i) {
            const auto gone = std::next(known.boxes.begin(), static_cast<ptrdiff_t>(random() % known.boxes.size()));
            tree.remove(gone->first);
            known.boxes.erase(gone);
        }
        CHECK(tree.size() == known.boxes.size());
        for (int i = 0; i < 10; ++i) found += compare(tree, known, random_sides(random));
    }
    CHECK(found > 10'000);
    while (!known.boxes.empty()) {
        tree.remove(known.boxes.begin()->first);
        known.boxes.erase(known.boxes.begin());
    }
    CHECK(tree.size() == 0 && compare(tree, known, random_sides(random)) == 0);
}

TEST(box_tree_stays_shallow_in_every_order) {
    for (const int order : {0, 1, 2}) {  // ascending, descending, from both ends
        BoxTree tree;
        constexpr uint32_t count = 20'000;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t value = order == 0 ? i : order == 1 ? count - i : i % 2 ? i : count - i;
            tree.add(i, {side("acct", value, value + 1)});
        }
        CHECK(tree.depth() < 40);
        std::vector<uint32_t> found;
        tree.containing({side("acct", 777, 778)}, found);
        CHECK(found.size() == 1);
    }
}

TEST(box_tree_refuses_ids_twice_and_unknown_ones) {
    BoxTree tree;
    tree.add(3, {});
    CHECK(units::code_of([&] { tree.add(3, {}); }) == "E_BOX_ID");
    CHECK(units::code_of([&] { tree.remove(4); }) == "E_BOX_ID");
    tree.remove(3);
    CHECK(units::code_of([&] { tree.remove(3); }) == "E_BOX_ID");
}
