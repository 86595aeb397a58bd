// Any bytes as changes of the filters of routers, and messages between them. No router with a filter that matches is
// missed, and what is no filter changes nothing.
#include "plain_interests.hpp"
#include "seeds.hpp"
#include "target.hpp"
#include "tidings/codec/batch.hpp"

using namespace tidings;

namespace {

std::string row_of(std::string_view predicate) {
    const bool zero = (predicate.size() + 1) % 8 == 0;
    return std::string(1, static_cast<char>(zero)) + std::string(predicate) + std::string(zero, '\0');
}

struct Run {
    FilterRows rows{7};
    plain::Rows known;
    MessageBatch batch;
    std::string messages;

    Run() {
        for (const std::string& one : {seeds::message(true), seeds::message(false), seeds::many_attributes()}) {
            Writer(messages).fixed(static_cast<uint32_t>(one.size()));
            messages += one;
        }
        batch.decode_messages(messages, {});
        FUZZ_CHECK(batch.size() == 3 && batch.broken() == 0);
    }

    void add(uint32_t router, const std::string& row) {
        try {
            FilterRows::check(row);
            rows.add(router, row);
        } catch (const CodecError&) {
            return;
        } catch (const UsageError&) {
            return;
        }
        known.add(router, row);
    }

    void compare() {
        FUZZ_CHECK(rows.size() == known.size());
        for (const Entry& entry : batch) {
            std::vector<uint32_t> found;
            rows.match(entry.message, found);
            const std::vector<uint32_t> wanted = known.match(entry.message);
            FUZZ_CHECK(std::ranges::is_sorted(found) && std::ranges::includes(found, wanted));
            FUZZ_CHECK(std::ranges::adjacent_find(found) == found.end());
            // More only where a filter was given up for its cost.
            FUZZ_CHECK(std::ranges::all_of(found, [&](uint32_t router) { return known.has(router); }));
        }
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Run run;
    std::vector<std::string> given;
    for (size_t at = 0; at + 2 <= size && given.size() < 32;) {
        const uint8_t choice = data[at];
        const size_t length = std::min<size_t>(data[at + 1], size - at - 2);
        given.push_back(row_of({reinterpret_cast<const char*>(data) + at + 2, length}));
        at += 2 + length;
        const uint32_t router = choice & 3;
        const std::string& row = given[(choice >> 4) % given.size()];
        switch (choice >> 2 & 3) {
            case 0:
            case 1: run.add(router, given.back()); break;
            case 2: FUZZ_CHECK(run.rows.remove(router, row) == run.known.remove(router, row)); break;
            default: run.rows.drop(router), run.known.drop(router);
        }
    }
    run.compare();
    for (uint32_t router = 0; router < 4; ++router) run.rows.drop(router), run.known.drop(router);
    run.compare();
    FUZZ_CHECK(run.rows.empty() && run.rows.derived() == 0);
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    const auto step = [](uint8_t choice, const std::string& predicate) {
        return std::string{static_cast<char>(choice), static_cast<char>(predicate.size())} + predicate;
    };
    const auto one = [](const std::string& constraint) { return "\x01\x01" + constraint + std::string(1, '\0'); };
    const std::string over = one(seeds::constraint(Op::Lt, "b", Value::integer(20)));
    const std::string same = one(seeds::constraint(Op::Eq, "n7", Value::integer(7)));
    const std::string list = one(seeds::list_constraint());
    const std::string text = one(seeds::constraint(Op::Like, "a", Value::string("a%_")));
    return {step(0, over) + step(1, same) + step(2, list) + step(3, text),
            step(0, over) + step(0, over) + step(8, over) + step(1, seeds::everything),
            step(1, text) + step(1, list) + step(13, text) + step(2, same)};
}
