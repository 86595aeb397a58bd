// A list of numbers in no order. Up to two need no memory of their own.
#pragma once
#include <cstdint>
#include <cstring>

namespace tidings {

class IdList {
public:
    IdList() = default;
    IdList(IdList&& other) noexcept { swap(other); }
    IdList& operator=(IdList&& other) noexcept {
        swap(other);
        return *this;
    }
    ~IdList() {
        if (capacity_ > inline_max) delete[] heap;
    }

    uint32_t size() const { return count_; }
    const uint32_t* begin() const { return capacity_ > inline_max ? heap : own; }
    const uint32_t* end() const { return begin() + count_; }
    uint32_t operator[](uint32_t place) const { return begin()[place]; }

    void push(uint32_t id) {
        if (count_ == capacity_) grow();
        items()[count_++] = id;
    }

    void remove(uint32_t id) {
        uint32_t place = 0;
        while ((*this)[place] != id) ++place;
        take_out(place);
    }

    // The last one takes the place.
    void take_out(uint32_t place) { items()[place] = items()[--count_]; }

    size_t heap_bytes() const { return capacity_ > inline_max ? capacity_ * 4 : 0; }

private:
    static constexpr uint32_t inline_max = 2;

    uint32_t* items() { return capacity_ > inline_max ? heap : own; }

    void grow() {
        uint32_t* larger = new uint32_t[capacity_ * 2];
        std::memcpy(larger, items(), count_ * 4);
        if (capacity_ > inline_max) delete[] heap;
        heap = larger;
        capacity_ *= 2;
    }

    void swap(IdList& other) {
        char bytes[sizeof(IdList)];
        std::memcpy(bytes, static_cast<void*>(this), sizeof bytes);
        std::memcpy(static_cast<void*>(this), static_cast<void*>(&other), sizeof bytes);
        std::memcpy(static_cast<void*>(&other), bytes, sizeof bytes);
    }

    uint32_t count_ = 0;
    uint32_t capacity_ = inline_max;
    union {
        uint32_t own[inline_max] = {0, 0};
        uint32_t* heap;
    };
};

}  // namespace tidings
