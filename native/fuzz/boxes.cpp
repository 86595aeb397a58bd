// Any bytes as boxes that come and go, and questions between them: the tree finds what a look at every box finds.
#include "plain_interests.hpp"
#include "target.hpp"

using namespace tidings;

namespace {

// Sides on at most three attributes, of few values of two kinds.
plain::Boxes::Sides sides_of(const uint8_t* data) {
    plain::Boxes::Sides sides;
    for (int i = 0; i < 3; ++i) {
        const uint8_t low = data[i] & 15, width = data[i] >> 4 & 3;
        if (data[i] >> 6 == 3) continue;
        BoxTree::Side side{std::string(1, static_cast<char>('a' + i)), data[i] >> 6 == 2, {}, {}};
        if (!side.loose) {
            side.low = {2, static_cast<char>(low)};
            side.high = width == 3 ? std::string(1, '\x03') : std::string{2, static_cast<char>(low + width + 1)};
        }
        sides.push_back(side);
    }
    return sides;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    BoxTree tree;
    plain::Boxes known;
    for (size_t at = 0; at + 4 <= size && at < 4000; at += 4) {
        const uint32_t id = data[at] & 127;
        const plain::Boxes::Sides sides = sides_of(data + at + 1);
        if (known.boxes.contains(id)) {
            tree.remove(id);
            known.boxes.erase(id);
        } else {
            tree.add(id, sides);
            known.boxes[id] = sides;
        }
        if (data[at] < 128 && at + 8 <= size) continue;
        FUZZ_CHECK(tree.size() == known.boxes.size());
        std::vector<uint32_t> containing, within, meeting;
        tree.containing(sides, containing);
        tree.within(sides, within);
        tree.meeting(sides, meeting);
        FUZZ_CHECK(plain::sorted(containing) == known.containing(sides));
        FUZZ_CHECK(plain::sorted(within) == known.within(sides));
        FUZZ_CHECK(plain::sorted(meeting) == known.meeting(sides));
    }
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    std::string ascending, mixed;
    for (int i = 0; i < 120; ++i) {
        ascending += {static_cast<char>(i % 8 ? i : i | 128), static_cast<char>(i % 16), '\x10', '\xC0'};
        mixed += {static_cast<char>(i * 37), static_cast<char>(i * 11), static_cast<char>(i * 7), static_cast<char>(i)};
    }
    return {ascending, mixed + mixed};
}
