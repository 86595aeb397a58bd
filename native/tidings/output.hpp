// Bytes on their way to a socket: appended at the end, taken from the front, one block that is reused.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

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

    void append(std::string_view bytes) { std::memcpy(grow(bytes.size()), bytes.data(), bytes.size()); }

    std::string_view front(size_t bytes_max) const { return {block_.get() + start_, std::min(bytes_max, size())}; }

    void drop(size_t bytes) {
        start_ += bytes;
        if (start_ == end_) {
            start_ = end_ = 0;
            if (capacity_ > idle_bytes_max) release();  // ten thousand quiet connections must not keep what one burst needed
        }
    }

private:
    static constexpr size_t idle_bytes_max = 256 * 1024;

    void make_room(size_t bytes) {
        const size_t held = size();
        if (held + bytes <= capacity_ && start_ >= held) {
            std::memmove(block_.get(), block_.get() + start_, held);
        } else {
            const size_t wanted = std::max(capacity_ * 2, held + bytes + 512);
            std::unique_ptr<char[]> larger(new char[wanted]);
            if (held) std::memcpy(larger.get(), block_.get() + start_, held);
            block_ = std::move(larger);
            capacity_ = wanted;
        }
        start_ = 0;
        end_ = held;
    }

    void release() {
        block_.reset();
        capacity_ = 0;
    }

    std::unique_ptr<char[]> block_;
    size_t start_ = 0, end_ = 0, capacity_ = 0;
};

}  // namespace tidings
