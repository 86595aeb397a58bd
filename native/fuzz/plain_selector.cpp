// Any text as a plain selector: what is translated is a predicate, with the destination among its constraints.
#include "tidings/codec/plain_selector.hpp"

#include "target.hpp"

using namespace tidings;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::string destination("\x01\x06@topic\x04\x01t", 11);
    std::string out;
    if (!PlainSelector().translate(text, destination, out)) return 0;
    for (const char one : text)
        if (static_cast<unsigned char>(one) >= 0x80) return 0;  // what comes from Python is UTF-8
    const Predicate predicate = read_predicate(out);
    FUZZ_CHECK(predicate.conjunctions.size() == 1 && predicate.program.empty());
    const auto& constraints = predicate.conjunctions[0].constraints;
    FUZZ_CHECK(std::ranges::any_of(constraints,
                                   [&](const Constraint& constraint) { return constraint.bytes == destination; }));
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    return {"a = 1 AND price >= -2.5e3", "sym IN ('a', 'b', 3) AND n NOT LIKE '%x_'",
            "lat BETWEEN 1 AND 2.0 AND c IS NOT NULL AND d IS NULL"};
}
