// The kernel's exceptions. native/bindings/module.cpp turns each into the class of the same name in tidings.errors.
#pragma once
#include <cstddef>
#include <string>

namespace tidings {

inline constexpr size_t no_position = static_cast<size_t>(-1);

// Bytes that are not what they claim to be. Both texts are literals: a refused message costs no allocation of ours.
struct CodecError {
    const char* code;
    const char* reason;
    size_t position;  // offset of the offending byte
};

// The caller passed something that cannot be right.
struct UsageError {
    const char* code;
    std::string reason;
    size_t position = no_position;
};

}  // namespace tidings
