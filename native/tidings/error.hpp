// What the kernel throws: whose fault, which code, where. The bindings turn it into tidings.errors.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

namespace tidings {

struct Error : std::runtime_error {
    enum class Fault { Codec, Usage };

    Fault fault;
    const char* code;
    int64_t position;  // -1: none

    Error(Fault whose, const char* rule, const std::string& reason, int64_t where)
        : std::runtime_error(reason), fault(whose), code(rule), position(where) {}

    static Error codec(const char* code, const std::string& reason, uint64_t position) {
        return Error(Fault::Codec, code, reason, static_cast<int64_t>(position));
    }
    static Error usage(const char* code, const std::string& reason) { return Error(Fault::Usage, code, reason, -1); }
};

}  // namespace tidings
