// Any bytes as a Bloom filter. What is accepted is written back byte for byte, and can be asked, filled and united.
#include "target.hpp"

#include "tidings/tracking/bloom.hpp"

using namespace tidings;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        Bloom filter = Bloom::parse({reinterpret_cast<const char*>(data), size});
        std::vector<uint8_t> out(filter.serialised_bytes());
        filter.serialise(out.data());
        FUZZ_CHECK(out.size() == size && std::equal(out.begin(), out.end(), data));
        uint8_t found = 0;
        filter.contains(data, 1, &found);
        filter.add(data, 1);
        filter.contains(data, 1, &found);
        FUZZ_CHECK(found == 1);
        Bloom other(filter.bits(), filter.hashes());
        other.unite(filter);
        FUZZ_CHECK(other.fill() == filter.fill() && other.count() == filter.count());
    } catch (const CodecError& error) {
        FUZZ_CHECK(error.position <= size);
    }
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    std::vector<std::string> seeds;
    for (const auto& [bits, hashes] : {std::pair{64u, 1u}, std::pair{128u, 16u}, std::pair{1024u, 64u}}) {
        Bloom filter(bits, hashes);
        filter.add(reinterpret_cast<const uint8_t*>("sixteen bytes id"), 1);
        std::string& seed = seeds.emplace_back(filter.serialised_bytes(), '\0');
        filter.serialise(reinterpret_cast<uint8_t*>(seed.data()));
    }
    return seeds;
}
