// Two containers of plain values that the matcher's tables are made of. `Column` is a vector of 16 bytes: there are
// many thousands of short ones. `Pages` never moves what it holds, so that growing to millions costs no pause.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace tidings {

template <class T>
class Column {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    Column() = default;
    Column(Column&& other) noexcept { swap(other); }
    Column& operator=(Column&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Column() { std::free(data_); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    uint32_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    T& back() { return data_[size_ - 1]; }
    size_t bytes() const { return size_t{capacity_} * sizeof(T); }

    void push_back(const T& value) {
        const T copy = value;
        reserve(size_ + 1);
        data_[size_++] = copy;
    }
    void insert(size_t at, const T& value) {
        const T copy = value;
        reserve(size_ + 1);
        std::memmove(data_ + at + 1, data_ + at, (size_ - at) * sizeof(T));
        data_[at] = copy;
        ++size_;
    }
    void erase(size_t at) {
        std::memmove(data_ + at, data_ + at + 1, (size_ - at - 1) * sizeof(T));
        --size_;
        shrink();
    }
    void pop_back() {
        --size_;
        shrink();
    }
    void append(const T* values, size_t count) {
        if (count == 0) return;
        reserve(size_ + count);
        std::memcpy(data_ + size_, values, count * sizeof(T));
        size_ += static_cast<uint32_t>(count);
    }
    void clear() { size_ = 0; }
    // For callers that write into reserved space.
    void set_size(size_t size) { size_ = static_cast<uint32_t>(size); }
    void reserve(size_t wanted) {
        if (wanted <= capacity_) return;
        size_t grown = capacity_ + capacity_ / 2;
        resize_storage(grown < wanted ? wanted : grown);
    }
    void swap(Column& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

private:
    void shrink() {
        if (size_ * 4 < capacity_) resize_storage(size_ * 2);
    }
    void resize_storage(size_t capacity) {
        if (capacity == 0) {
            std::free(data_);
            data_ = nullptr;
        } else {
            void* moved = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
            if (!moved) throw std::bad_alloc();
            data_ = static_cast<T*>(moved);
        }
        capacity_ = static_cast<uint32_t>(capacity);
    }

    T* data_ = nullptr;
    uint32_t size_ = 0, capacity_ = 0;
};

// Numbered records with a list of free numbers. References hold until the record is released.
template <class T, unsigned page_bits = 10>
class Pages {
public:
    uint32_t take() {
        if (!free_.empty()) {
            const uint32_t number = free_.back();
            free_.pop_back();
            return number;
        }
        if (used_ >> page_bits == pages_.size()) pages_.push_back(std::make_unique<T[]>(size_t{1} << page_bits));
        return used_++;
    }
    void release(uint32_t number) {
        (*this)[number] = T();
        free_.push_back(number);
    }

    T& operator[](uint32_t number) { return pages_[number >> page_bits][number & mask]; }
    const T& operator[](uint32_t number) const { return pages_[number >> page_bits][number & mask]; }
    uint32_t end() const { return used_; }  // every number is below
    size_t bytes() const { return pages_.size() * (sizeof(T) << page_bits) + free_.bytes(); }

private:
    static constexpr uint32_t mask = (1u << page_bits) - 1;

    std::vector<std::unique_ptr<T[]>> pages_;
    Column<uint32_t> free_;
    uint32_t used_ = 0;
};

}  // namespace tidings
