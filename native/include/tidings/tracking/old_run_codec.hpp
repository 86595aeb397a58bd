// Reads run lists as they were written first, in varints (docs/wire.md, "Run list", form 1); they are not written any more.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>

#include "tidings/support/error.hpp"
#include "tidings/tracking/run_list.hpp"

namespace tidings {

// The numbers before the runs, in both forms.
struct RunInput {
    std::string_view data;
    size_t at;

    [[noreturn]] void fail(const char* code, const char* reason) const { throw CodecError{code, reason, at}; }

    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (at == data.size()) fail("E_RUNS_SHORT", "truncated run list");
            const auto byte = static_cast<uint8_t>(data[at++]);
            if (shift == 63 && byte > 1) break;
            value |= static_cast<uint64_t>(byte & 127) << shift;
            if (byte < 128) return value;
        }
        fail("E_RUNS_RANGE", "a number of more than 64 bits");
    }

    uint64_t word() {
        if (data.size() - at < 8) fail("E_RUNS_SHORT", "truncated run list");
        uint64_t value;
        std::memcpy(&value, data.data() + at, 8);
        at += 8;
        return value;
    }
};

class OldRunCodec {
public:
    static constexpr std::string_view magic = "TRL1";

    // Sorted. Everything else is a CodecError.
    static RunList decode(std::string_view data) {
        RunInput in{data, magic.size()};
        const uint64_t ids = in.varint(), sources = in.varint(), base_ms = in.varint();
        RunList list;
        uint64_t source = 0, found = 0;
        for (uint64_t s = 0; s < sources; ++s) {
            const uint64_t step = in.varint();
            if (s && step == 0) in.fail("E_RUNS_ORDER", "a source that was there before");
            if (source + step < source) in.fail("E_RUNS_RANGE", "a source of more than 64 bits");
            source += step;
            uint64_t runs = in.varint(), last_ms = base_ms;
            for (bool first = true; runs; --runs, first = false) found += run(in, list, source, last_ms, first);
        }
        if (in.at != data.size()) in.fail("E_RUNS_LONG", "bytes after the last run");
        if (found != ids) in.fail("E_RUNS_COUNT", "not as many ids as the header says");
        return list;
    }

private:
    static constexpr uint64_t moment_max = UINT64_MAX;

    // Returns how many ids it has.
    static uint64_t run(RunInput& in, RunList& list, uint64_t source, uint64_t& last_ms, bool first) {
        const uint64_t code = in.varint(), ms = last_ms + (code >> 2);
        const uint64_t counter = code & 2 ? in.varint() : 0;
        const uint64_t more = code & 1 ? in.varint() : 0;
        const uint64_t length = code & 1 ? more + 2 : 1;
        if (ms < last_ms || ms >> 48 || counter >> 16 || more >= moment_max - 2)
            in.fail("E_RUNS_RANGE", "a time of more than 48 bits, or a counter of more than 16");
        const uint64_t moment = ms << 16 | counter;
        if (length - 1 > moment_max - moment) in.fail("E_RUNS_RANGE", "a run that does not end");
        if (!first) {
            const RunList::Run& before = list.runs().back();
            if (moment <= before.first + (before.length - 1)) in.fail("E_RUNS_ORDER", "runs are not in order");
        }
        list.append(RunList::Run{source, moment, length});
        last_ms = (moment + (length - 1)) >> 16;
        return length;
    }
};

}  // namespace tidings
