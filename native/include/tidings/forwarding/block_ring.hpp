// Blocks of messages that a load generator sends again and again, each with a system call of its own.
#pragma once

#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tidings/support/error.hpp"

namespace tidings {

struct MessageBlock {
    std::string bytes;
    int64_t messages;
};

class BlockRing {
public:
    explicit BlockRing(std::vector<MessageBlock> blocks) : blocks_(std::move(blocks)) {
        if (blocks_.empty()) throw UsageError{"E_RING_EMPTY", "there is no block to send"};
        for (const MessageBlock& block : blocks_)
            if (block.bytes.empty()) throw UsageError{"E_RING_EMPTY", "a block without bytes can never be sent"};
    }

    // Sends the rest of the block that was begun, then blocks of at most `messages_max` messages together, as far as
    // the socket takes them without waiting. Returns the messages of those begun.
    int64_t send(int socket, int64_t messages_max) {
        int64_t left = messages_max;
        while (busy() || next().messages <= left) {
            const MessageBlock& block = next();
            const ssize_t taken = ::send(socket, block.bytes.data() + offset_, block.bytes.size() - offset_,
                                         MSG_DONTWAIT | MSG_NOSIGNAL);
            if (taken < 0) {
                if (errno == EINTR) continue;
                if (errno == EAGAIN || errno == EWOULDBLOCK) break;
                throw std::system_error(errno, std::generic_category(), "send");
            }
            if (!busy()) left -= block.messages;
            offset_ += static_cast<size_t>(taken);
            if (offset_ < block.bytes.size()) break;
            offset_ = 0;
            at_ = (at_ + 1) % blocks_.size();
        }
        return messages_max - left;
    }

    // A block is begun and not finished.
    bool busy() const { return offset_ > 0; }
    // Of the block that is sent next, or is under way.
    int64_t messages() const { return next().messages; }

private:
    const MessageBlock& next() const { return blocks_[at_]; }

    std::vector<MessageBlock> blocks_;
    size_t at_ = 0;
    size_t offset_ = 0;
};

}  // namespace tidings
