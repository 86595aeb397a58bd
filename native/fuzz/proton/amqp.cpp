// Any bytes as what an AMQP client sends, cut anywhere, into the engine of Qpid Proton. The engine is used call by call
// as src/tidings/protocols/amqp*.py use it, with a broker that says yes to everything and sends back what it gets. No
// bytes are read beyond those that came, nothing is used after it was freed or never freed, and what the client is sent
// is frames.
//
// scripts/fuzz-amqp builds and runs it; the seeds are files in the folder that AMQP_SEEDS names
// (hardening.fuzz.amqp_streams).
#include <filesystem>
#include <fstream>
#include <iterator>

#include "session.hpp"
#include "target.hpp"

namespace {

using namespace amqp_fuzz;

constexpr std::string_view amqp_header("AMQP\0\1\0\0", 8), sasl_header("AMQP\3\1\0\0", 8);
constexpr size_t sasl_frame_bytes_max = 512;

uint32_t big_endian(std::string_view bytes) {
    uint32_t value = 0;
    for (const char c : bytes.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(c);
    return value;
}

// Sizes as long as their frames are: what was cut out of one or put into it then gets further than to the next frame's
// header.
void mend_sizes(std::string& stream) {
    size_t last = std::string::npos;
    const auto end = [&](size_t at) {
        for (int i = 0; last != std::string::npos && i < 4; ++i)
            stream[last + i] = static_cast<char>((at - last) >> (24 - 8 * i));
    };
    for (size_t at = 0; at + 11 <= stream.size(); ++at) {
        const bool starts = stream[at + 4] == 2 && stream[at + 5] == 0 && stream[at + 8] == 0 && stream[at + 9] == 0x53;
        if (!starts || static_cast<uint8_t>(stream[at + 10]) >> 4 != 1) continue;
        end(at);
        last = at;
    }
    end(stream.size());
}

// The login, which a session of ours reads itself: the values of its frames are Proton's to decode. Returns whether to
// go on.
bool log_in(std::string_view& stream) {
    if (!stream.starts_with(sasl_header)) return true;
    stream.remove_prefix(sasl_header.size());
    while (!stream.starts_with(amqp_header)) {
        if (stream.size() < 8) return false;
        const size_t size = big_endian(stream), start = size_t{4} * static_cast<uint8_t>(stream[4]);
        if (stream[5] != 1 || start < 8 || start > size || size > sasl_frame_bytes_max || size > stream.size())
            return false;
        if (!decode_values(stream.substr(start, size - start), 1)) return false;
        stream.remove_prefix(size);
    }
    return true;
}

void check_frames(std::string_view output) {
    if (output.empty()) return;
    FUZZ_CHECK(output.starts_with(amqp_header));
    output.remove_prefix(amqp_header.size());
    while (!output.empty()) {
        FUZZ_CHECK(output.size() >= 8);
        const size_t size = big_endian(output);
        FUZZ_CHECK(size >= 8 && size <= output.size());
        output.remove_prefix(size);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const uint8_t choice = data[0];
    const size_t piece = 4 * (data[1] + size_t{1});
    std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
    if (choice & 1) mend_sizes(bytes);
    std::string_view stream = bytes;
    if (!log_in(stream) || !stream.starts_with(amqp_header)) return 0;
    Session session(choice);
    for (; !stream.empty() && session.open(); stream.remove_prefix(std::min(piece, stream.size())))
        session.receive(stream.substr(0, piece));
    check_frames(session.finish());
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    const char* folder = std::getenv("AMQP_SEEDS");
    FUZZ_CHECK(folder);
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> seeds;
    for (const auto& path : paths) {
        std::ifstream file(path, std::ios::binary);
        seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    FUZZ_CHECK(!seeds.empty());
    return seeds;
}
