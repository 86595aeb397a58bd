// Text that is made again and again: appended without a call, in a block that is kept.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

namespace tidings {

class Scratch {
public:
    void clear() { size_ = 0; }
    void cut(size_t size) { size_ = size; }
    size_t size() const { return size_; }
    const char* data() const { return block_.get(); }
    char* data() { return block_.get(); }
    operator std::string_view() const { return {block_.get(), size_}; }

    char* grow(size_t bytes) {
        if (size_ + bytes > capacity_) [[unlikely]]
            widen(bytes);
        char* const place = block_.get() + size_;
        size_ += bytes;
        return place;
    }
    void put(std::string_view text) {
        if (!text.empty()) std::memcpy(grow(text.size()), text.data(), text.size());
    }
    void put(char c) { *grow(1) = c; }

private:
    [[gnu::noinline]] void widen(size_t bytes) {
        const size_t wanted = std::max(2 * capacity_, size_ + bytes + 512);
        std::unique_ptr<char[]> larger(new char[wanted]);
        if (size_) std::memcpy(larger.get(), block_.get(), size_);
        block_ = std::move(larger);
        capacity_ = wanted;
    }

    std::unique_ptr<char[]> block_;
    size_t size_ = 0, capacity_ = 0;
};

}  // namespace tidings
