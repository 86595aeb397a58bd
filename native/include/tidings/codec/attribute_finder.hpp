// Finds a message's attributes by name. Few are looked through; of many an index is made when the first is asked for,
// so that a program that names thousands of attributes of a message that has thousands does not multiply the two.
#pragma once
#include <algorithm>
#include <bit>
#include <vector>

#include "tidings/codec/message.hpp"

namespace tidings {

class AttributeFinder {
public:
    void set(const MessageView& message) {
        message_ = &message;
        indexed_ = false;
    }

    // The first of this name, as MessageView::find has it.
    const Attribute* find(std::string_view name, uint64_t name_hash) const {
        return message_->attributes.size() <= few ? message_->find(name, name_hash) : find_indexed(name, name_hash);
    }

private:
    static constexpr size_t few = 64;

    [[gnu::noinline]] const Attribute* find_indexed(std::string_view name, uint64_t name_hash) const {
        if (!indexed_) index();
        for (size_t i = name_hash & mask();; i = (i + 1) & mask()) {
            if (slots_[i] == 0) return nullptr;
            const Attribute& one = message_->attributes[slots_[i] - 1];
            if (one.name_hash == name_hash && one.name == name) return &one;
        }
    }

    size_t mask() const { return slots_.size() - 1; }

    // Later ones of the same name stand behind the first.
    void index() const {
        const size_t count = message_->attributes.size();
        slots_.assign(std::bit_ceil(2 * count), 0);
        for (uint32_t number = 1; number <= count; ++number) {
            size_t i = message_->attributes[number - 1].name_hash & mask();
            while (slots_[i] != 0) i = (i + 1) & mask();
            slots_[i] = number;
        }
        indexed_ = true;
    }

    const MessageView* message_ = nullptr;
    mutable std::vector<uint32_t> slots_;  // one more than an attribute's place; 0: free
    mutable bool indexed_ = false;
};

}  // namespace tidings
