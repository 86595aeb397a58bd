// Names of destinations as STOMP clients write them; its twin in Python is protocols/stomp/destinations.py.
#pragma once
#include <string>
#include <string_view>

#include "tidings/codec/message_reader.hpp"
#include "tidings/codec/reader.hpp"

namespace tidings {

// Returns whether it is a queue; temporary ones get a name that begins with `own`, the connection's.
inline bool read_stomp_destination(std::string_view text, std::string_view own, std::string& name) {
    const auto take = [&](std::string_view prefix) {
        if (!text.starts_with(prefix)) return false;
        text.remove_prefix(prefix.size());
        return true;
    };
    bool queue = true, temporary = false;
    if (take("/topic/") || take("topic://") || take("topic:")) queue = false;
    else if (take("/temp-topic/")) queue = false, temporary = true;
    else if (take("/temp-queue/")) temporary = true;
    else if (!take("/queue/") && !take("queue://") && !take("queue:"))
        refuse("E_STOMP_DESTINATION", "a destination begins with /topic/, /queue/, /temp-topic/ or /temp-queue/", 0);
    name.assign(temporary ? own : std::string_view()).append(text);
    try {
        check_destination(name, 0);
    } catch (const CodecError& error) {
        refuse("E_STOMP_DESTINATION", error.reason, error.position);
    }
    return queue;
}

}  // namespace tidings
