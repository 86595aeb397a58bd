// The checks of the kernel's unit tests, which scripts/native-tests builds and runs. A check that fails prints its file
// and line and ends its test; the program then ends with status 1.
#pragma once
#include <cstdint>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tidings/support/error.hpp"

namespace units {

struct Failed {};  // thrown once the failure is printed

struct Test {
    const char* name;
    void (*run)();
    Test* next;
    static inline Test* first = nullptr;
    static inline uint64_t checks = 0;

    Test(const char* name, void (*run)()) : name(name), run(run), next(first) { first = this; }
};

inline void check(bool holds, const char* file, int line, const char* text) {
    ++Test::checks;
    if (holds) return;
    std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, text);
    throw Failed{};
}

// The code of the error that `action` throws; empty: it throws none.
template <class Action>
std::string code_of(Action&& action) {
    try {
        action();
    } catch (const tidings::CodecError& error) {
        return error.code;
    } catch (const tidings::UsageError& error) {
        return error.code;
    }
    return {};
}

using Random = std::mt19937_64;

inline bool chance(Random& random, uint32_t percent) { return random() % 100 < percent; }

}  // namespace units

#define CHECK(condition) units::check(static_cast<bool>(condition), __FILE__, __LINE__, #condition)
#define TEST(name)                                            \
    static void test_##name();                                \
    static units::Test registered_##name(#name, test_##name); \
    static void test_##name()
