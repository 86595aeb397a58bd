// Any bytes as a program, evaluated over a message if they are one.
#include "seeds.hpp"
#include "target.hpp"

using namespace tidings;

namespace {

// Decoded once: the text under its views must stay.
struct Sample {
    std::string bytes = seeds::message(true);
    MessageDecoder decoder;
    std::vector<Attribute> attributes;
    TextArena texts;
    MessageView view;

    Sample() { decoder.decode(bytes, DerivedAll, view, attributes, texts); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const Sample sample;
    try {
        const Program program({reinterpret_cast<const char*>(data), size});
        FUZZ_CHECK(program.derived() <= DerivedAll);
        FUZZ_CHECK(program.evaluate(sample.view) <= Truth::Unknown);
        FUZZ_CHECK(program.evaluate(sample.view) == program.evaluate(sample.view));
    } catch (const CodecError& error) {
        FUZZ_CHECK(error.position <= size);
    }
    return 0;
}

std::vector<std::string> fuzz_seeds() { return {seeds::program(), std::string("\x01\x01", 2)}; }
