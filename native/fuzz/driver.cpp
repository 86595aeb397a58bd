// A small coverage-guided fuzzer: g++ has no libFuzzer, and Tidings is built with g++. The targets are compiled with
// -fsanitize-coverage=trace-pc, which calls __sanitizer_cov_trace_pc at every edge; an input that reaches an edge no other
// did joins the corpus. Deterministic: the same seed and count run the same inputs (the kernel's random hash seed
// apart).
//
//   driver [seed [count [seconds]]]     0 means: no such bound
//
// When a target dies, the input is printed in hexadecimal. `driver --replay HEX` runs one input.
#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>

#include "target.hpp"

extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace {

constexpr size_t input_bytes_max = 4096, edge_slots = 1 << 16;
constexpr double input_seconds_max = 1;
uint8_t edges[edge_slots];
bool news;
std::string current;

void print_input() {
    std::fprintf(stderr, "input: ");
    for (const char c : current) std::fprintf(stderr, "%02x", static_cast<unsigned char>(c));
    std::fprintf(stderr, "\n");
}

void on_abort(int) {
    print_input();
    std::_Exit(1);
}

// An exact copy on the heap, so that AddressSanitizer sees one byte too far.
void run(const std::string& input) {
    current = input;
    const auto copy = std::make_unique<uint8_t[]>(input.size());
    std::memcpy(copy.get(), input.data(), input.size());
    LLVMFuzzerTestOneInput(copy.get(), input.size());
}

class Mutator {
public:
    explicit Mutator(uint64_t seed) : chance_(seed) {}

    size_t below(size_t n) { return n ? chance_() % n : 0; }

    std::string mutate(std::string input, const std::vector<std::string>& corpus) {
        for (size_t steps = 1 + below(4); steps > 0; --steps) step(input, corpus);
        if (input.size() > input_bytes_max) input.resize(input_bytes_max);
        return input;
    }

private:
    void step(std::string& input, const std::vector<std::string>& corpus) {
        static constexpr uint8_t borders[] = {0,    1,    2,    3,    4,    5,    6,    9,    10,   0x1F,
                                              0x20, 0x7F, 0x80, 0x81, 0xBF, 0xC0, 0xED, 0xF4, 0xFE, 0xFF};
        const size_t at = below(input.size() + 1), length = std::min(input.size() - at, below(16));
        const char border = static_cast<char>(borders[below(sizeof borders)]);
        switch (below(9)) {
            case 0:
                if (at < input.size()) input[at] = static_cast<char>(input[at] ^ 1 << below(8));
                break;
            case 1:
                if (at < input.size()) input[at] = static_cast<char>(below(256));
                break;
            case 2:
                if (at < input.size()) input[at] = border;
                break;
            case 3: input.insert(at, 1 + below(3), border); break;
            case 4: input.erase(at, length); break;
            case 5: input.insert(at, input.substr(below(input.size()), below(32))); break;
            case 6: input.resize(at); break;
            case 7:
                if (at < input.size()) input[at] = static_cast<char>(input[at] + (below(2) ? 1 : -1));
                break;
            default: {
                const std::string& other = corpus[below(corpus.size())];
                const size_t from = below(other.size());
                input.replace(at, length, other.substr(from, below(64)));
            }
        }
    }

    std::mt19937_64 chance_;
};

std::string from_hex(const char* text) {
    std::string bytes;
    for (; text[0] && text[1]; text += 2) {
        const char pair[] = {text[0], text[1], 0};
        bytes.push_back(static_cast<char>(std::strtoul(pair, nullptr, 16)));
    }
    return bytes;
}

double seconds_now(clockid_t clock = CLOCK_MONOTONIC) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// CPU time, so that a process that was stopped meanwhile does not count as hanging.
double timed(const std::string& input) {
    const double start = seconds_now(CLOCK_THREAD_CPUTIME_ID);
    run(input);
    const double took = seconds_now(CLOCK_THREAD_CPUTIME_ID) - start;
    if (took > input_seconds_max) {
        std::fprintf(stderr, "one input took %.1f s\n", took);
        std::abort();
    }
    return took;
}

}  // namespace

// Called at every edge: it takes as much time as all else if it is itself watched over, or writes what is written.
extern "C" __attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc() {
    const auto from = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
    const size_t slot = (from ^ from >> 16) % edge_slots;
    if (edges[slot]) return;
    edges[slot] = 1;
    news = true;
}

int main(int argc, char** argv) {
    __sanitizer_set_death_callback(print_input);
    std::signal(SIGABRT, on_abort);
    if (argc == 3 && std::strcmp(argv[1], "--replay") == 0) {
        run(from_hex(argv[2]));
        return 0;
    }
    const auto argument = [&](int i) { return argc > i ? std::strtoull(argv[i], nullptr, 10) : 0; };
    const uint64_t seed = argument(1), count = argument(2);
    const double start = seconds_now(), seconds = static_cast<double>(argument(3));
    Mutator mutator(seed);
    std::vector<std::string> corpus = fuzz_seeds();
    for (const std::string& input : corpus) run(input);
    uint64_t done = 0;
    double slowest = 0;
    while ((count == 0 || done < count) && (seconds == 0 || done % 256 || seconds_now() - start < seconds)) {
        news = false;
        slowest = std::max(slowest, timed(mutator.mutate(corpus[mutator.below(corpus.size())], corpus)));
        if (news) corpus.push_back(current);
        ++done;
    }
    const double took = seconds_now() - start;
    std::printf("%llu inputs, %zu in the corpus, %.0f inputs/s, the slowest %.1f ms\n",
                static_cast<unsigned long long>(done), corpus.size(), static_cast<double>(done) / took, slowest * 1e3);
}
