// Integers with their highest byte first, as protocols of others have them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tidings {

template <class T>
T load_big(const char* place) {
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value = value << 8 | static_cast<uint8_t>(place[i]);
    return static_cast<T>(value);
}

template <class T>
void store_big(char* place, T value) {
    for (size_t i = 0; i < sizeof(T); ++i) place[i] = static_cast<char>(value >> 8 * (sizeof(T) - 1 - i));
}

}  // namespace tidings
