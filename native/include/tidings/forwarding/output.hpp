// Bytes on their way to or from a socket: appended at the end, taken from the front, one block that is reused.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "tidings/support/simd.hpp"

namespace tidings {

class Output {
public:
    size_t size() const { return end_ - start_; }
    bool empty() const { return start_ == end_; }
    size_t capacity() const { return capacity_; }

    // Room for `bytes` more at the end; the caller fills it.
    char* grow(size_t bytes) {
        if (end_ + bytes > capacity_) make_room(bytes);
        char* const place = block_.get() + end_;
        end_ += bytes;
        return place;
    }

    void append(std::string_view bytes) {
        if (!bytes.empty()) std::memcpy(grow(bytes.size()), bytes.data(), bytes.size());
    }

    // As much will follow, after something has been written to many others: memory brings the place meanwhile. Inlined
    // by force, or gcc takes it for a function without effect.
    TIDINGS_INLINE void expect(size_t bytes) const {
        __builtin_prefetch(block_.get() + std::min(end_ + bytes / 2, capacity_), 1);
        __builtin_prefetch(block_.get() + std::min(end_ + bytes, capacity_), 1);
    }

    char* begin() { return block_.get() + start_; }
    std::string_view front(size_t bytes_max = SIZE_MAX) const {
        return {block_.get() + start_, std::min(bytes_max, size())};
    }

    void drop(size_t bytes) {
        most_ = std::max(most_, end_);
        start_ += bytes;
        if (start_ == end_) start_ = end_ = 0;
    }

    // To be called every now and then: ten thousand quiet connections must not keep what one burst needed, nor must
    // busy ones.
    void rest() {
        const size_t needed = std::max(most_, end_);
        if (!needed && capacity_) release();
        if (needed < capacity_ / 4 && capacity_ > small_bytes) move_to(capacity_ / 2);
        most_ = 0;
    }

    void release() {
        block_.reset();
        start_ = end_ = capacity_ = 0;
    }

private:
    static constexpr size_t small_bytes = 1 << 16;  // so much a busy connection may keep

    void make_room(size_t bytes) {
        const size_t held = size();
        if (held + bytes <= capacity_ && start_ >= held) {
            std::memmove(block_.get(), block_.get() + start_, held);
            start_ = 0;
            end_ = held;
        } else {
            move_to(std::max(capacity_ * 2, held + bytes + 512));
        }
    }

    void move_to(size_t capacity) {
        const size_t held = size();
        std::unique_ptr<char[]> block(new char[capacity]);
        if (held) std::memcpy(block.get(), block_.get() + start_, held);
        block_ = std::move(block);
        capacity_ = capacity;
        start_ = 0;
        end_ = held;
    }

    std::unique_ptr<char[]> block_;
    size_t start_ = 0, end_ = 0, capacity_ = 0;
    size_t most_ = 0;  // bytes that were in use at once since the last `rest`
};

}  // namespace tidings
