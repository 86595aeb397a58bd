// Values of AMQP as a session of ours reads them: every byte that Proton says is there is looked at.
#pragma once
#include <proton/codec.h>

#include <cstring>
#include <memory>
#include <string_view>

#include "target.hpp"

namespace amqp_fuzz {

constexpr int depth_max = 300;  // where Python refuses to go deeper
inline volatile uint8_t seen;

inline void look_at(pn_bytes_t bytes) {
    for (size_t i = 0; i < bytes.size; ++i) seen = static_cast<uint8_t>(seen + bytes.start[i]);
}

// The value at the cursor.
inline void look_at(pn_data_t* data, int depth = depth_max) {
    switch (pn_data_type(data)) {
        case PN_BINARY: look_at(pn_data_get_binary(data)); break;
        case PN_STRING: look_at(pn_data_get_string(data)); break;
        case PN_SYMBOL: look_at(pn_data_get_symbol(data)); break;
        case PN_ARRAY:
            seen = static_cast<uint8_t>(pn_data_get_array(data) + pn_data_get_array_type(data));
            [[fallthrough]];
        case PN_DESCRIBED:
        case PN_LIST:
        case PN_MAP:
            if (depth == 0 || !pn_data_enter(data)) break;
            while (pn_data_next(data)) look_at(data, depth - 1);
            pn_data_exit(data);
            break;
        default: seen = static_cast<uint8_t>(pn_data_get_atom(data).u.as_ulong);
    }
}

// The first of what a field holds; false: nothing.
inline bool look_at_first(pn_data_t* data) {
    pn_data_rewind(data);
    const bool any = pn_data_next(data);
    if (any) look_at(data);
    pn_data_rewind(data);
    return any;
}

// True if Proton can send it.
inline bool encodable(pn_data_t* data) {
    char encoded[8192];
    return pn_data_size(data) == 0 || pn_data_encode(data, encoded, sizeof encoded) >= 0;
}

// Decodes `count` values one after the other, or all; false: they cannot be read.
inline bool decode_values(std::string_view content, size_t count = SIZE_MAX) {
    const auto exact = std::make_unique<char[]>(content.size());  // so that AddressSanitizer sees one byte too far
    std::memcpy(exact.get(), content.data(), content.size());
    const std::unique_ptr<pn_data_t, void (*)(pn_data_t*)> data(pn_data(16), pn_data_free);
    for (size_t at = 0; at < content.size() && count > 0; --count) {
        pn_data_clear(data.get());
        const ssize_t used = pn_data_decode(data.get(), exact.get() + at, content.size() - at);
        if (used <= 0 || !look_at_first(data.get())) return false;
        FUZZ_CHECK(static_cast<size_t>(used) <= content.size() - at);
        at += static_cast<size_t>(used);
    }
    return true;
}

}  // namespace amqp_fuzz
