// A fuzz target: one function that must survive any bytes, and seeds to start from. The first has libFuzzer's name, so
// a target also links against -fsanitize=fuzzer; here native/fuzz/driver.cpp runs it. A new target is a new file beside
// these.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Valid inputs, made by code.
std::vector<std::string> fuzz_seeds();

// A broken promise of the code under test.
#define FUZZ_CHECK(condition)                                                            \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                \
        }                                                                                \
    } while (false)
