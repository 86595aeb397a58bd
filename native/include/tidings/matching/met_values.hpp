// Matches of the current message so far: columns, each filled as far as its count says. A block is entered only where it
// has something, so that no loop is surprised by an empty one.
#pragma once
#include <cstdint>

#include "tidings/codec/value.hpp"
#include "tidings/matching/value_blocks.hpp"

namespace tidings {

struct MetValue {
    const Payload *satisfying, *reaching, *proposing;  // constraints, subscribers, candidates
    const Value* value;
    uint32_t attribute, equality, line, bounded;  // bounded: a line whose lone bounds no block has copied
};

struct MetCounts {
    uint32_t satisfying = 0, reaching = 0, proposing = 0, attributes = 0, equalities = 0, lines = 0, bounded = 0;
};

}  // namespace tidings
