// Any bytes as the header of a FORWARD frame. What is accepted says the same when it is written and read again.
#include "target.hpp"

#include "tidings/codec/batch.hpp"
#include "tidings/codec/forward_frame.hpp"

using namespace tidings;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    ForwardHeader first, second;
    try {
        first.decode(bytes);
    } catch (const CodecError& error) {
        FUZZ_CHECK(error.position <= size);
        return 0;
    }
    FUZZ_CHECK(first.routers.size() <= ForwardHeader::routers_max);
    FUZZ_CHECK(std::adjacent_find(first.routers.begin(), first.routers.end(), std::greater_equal<>()) ==
               first.routers.end());
    std::string out;
    first.encode(out);
    second.decode(std::string_view(out).substr(4));
    FUZZ_CHECK(first.hops == second.hops && first.broadcast == second.broadcast && first.origin == second.origin);
    FUZZ_CHECK(first.tagged == second.tagged && first.tag == second.tag && first.routers == second.routers);
    FUZZ_CHECK(first.repeated == second.repeated && first.epoch == second.epoch && first.numbers == second.numbers);
    FUZZ_CHECK(first.numbers.size() == (first.tagged ? first.routers.size() : 0));
    FUZZ_CHECK(first.event_type == second.event_type);
    FUZZ_CHECK(first.event_type.empty() ||
               (first.event.by_type == second.event.by_type && first.event.by_filter == second.event.by_filter &&
                first.event.rising == second.event.rising));
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    std::vector<std::string> seeds;
    for (const std::vector<uint32_t>& routers : {std::vector<uint32_t>{}, {1, 2, 3, 9}, {7, 100'000}, {UINT32_MAX}}) {
        ForwardHeader header;
        header.hops = 5;
        header.routers = routers;
        header.tagged = !routers.empty();
        header.tag = header.tagged ? 300 : 0;
        header.repeated = routers.size() == 4;
        header.origin = header.tagged ? 80'000 : 0;
        header.epoch = header.tagged ? uint64_t{3} << 40 : 0;
        header.numbers.assign(routers.size(), 200);
        std::string out;
        header.encode(out);
        seeds.push_back(out.substr(4));
    }
    ForwardHeader broadcast;
    broadcast.broadcast = true;
    broadcast.origin = 70'000;
    std::string out;
    broadcast.encode(out);
    seeds.push_back(out.substr(4));
    ForwardHeader event;
    event.hops = 31;
    event.event_type = "Sale";
    event.event = {true, false, true};
    out.clear();
    event.encode(out);
    seeds.push_back(out.substr(4));
    return seeds;
}
