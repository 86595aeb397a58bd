// Runs every test, or those whose names are given.
#include "check.hpp"

using units::Test;

namespace {

bool passes(const Test& test) {
    try {
        test.run();
        return true;
    } catch (const units::Failed&) {
    } catch (const tidings::CodecError& error) {
        std::fprintf(stderr, "%s: unexpected %s: %s\n", test.name, error.code, error.reason);
    } catch (const tidings::UsageError& error) {
        std::fprintf(stderr, "%s: unexpected %s: %s\n", test.name, error.code, error.reason.c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: unexpected exception: %s\n", test.name, error.what());
    }
    std::fprintf(stderr, "%s failed\n", test.name);
    return false;
}

bool chosen(const Test& test, int count, char** names) {
    for (int i = 1; i < count; ++i)
        if (std::string_view(names[i]) == test.name) return true;
    return count == 1;
}

}  // namespace

int main(int count, char** names) {
    int tests = 0, failures = 0;
    for (const Test* test = Test::first; test; test = test->next) {
        if (!chosen(*test, count, names)) continue;
        ++tests;
        failures += !passes(*test);
    }
    std::printf("%d tests, %llu checks, %d failures\n", tests, static_cast<unsigned long long>(Test::checks), failures);
    return failures > 0 || tests == 0 ? 1 : 0;
}
