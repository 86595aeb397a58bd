// The matcher without an index: every conjunction of every subscriber is evaluated for every message, up to its first
// constraint that fails. Simple enough to be believed; what the index is held to and measured against.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "tidings/matcher.hpp"

namespace tidings {

class LinearMatcher {
public:
    void add(uint32_t id, std::string_view blob) {
        if (subscribers_.contains(id)) throw UsageError{"E_MATCHER_ID", "id " + std::to_string(id) + " is already in the matcher"};
        auto subscriber = std::make_unique<Subscriber>(blob);
        conjunctions_ += subscriber->predicate.conjunctions.size();
        bytes_ += subscriber->bytes();
        subscribers_.emplace(id, std::move(subscriber));
    }

    void remove(uint32_t id) {
        const auto found = subscribers_.find(id);
        if (found == subscribers_.end()) throw UsageError{"E_MATCHER_ID", "id " + std::to_string(id) + " is not in the matcher"};
        conjunctions_ -= found->second->predicate.conjunctions.size();
        bytes_ -= found->second->bytes();
        subscribers_.erase(found);
    }

    void match(const MessageBatch& batch, Matches& matches) {
        matches.offsets.clear();
        matches.offsets.push_back(0);
        matches.ids.clear();
        for (const Entry& entry : batch) {
            if (entry.status == Entry::Status::Message)
                for (const auto& [id, subscriber] : subscribers_)
                    if (subscriber->wants(entry.message)) matches.ids.push_back(id);
            matches.offsets.push_back(matches.ids.size());
        }
    }

    size_t size() const { return subscribers_.size(); }
    size_t conjunctions() const { return conjunctions_; }
    size_t bytes() const { return bytes_; }

    uint8_t derived() const {
        uint8_t mask = 0;
        for (const auto& [id, subscriber] : subscribers_) mask |= subscriber->derived();
        return mask;
    }

private:
    struct Subscriber {
        std::string blob;  // what the predicate points into
        Predicate predicate;
        std::vector<uint64_t> name_hashes;  // of all constraints, in order
        std::unique_ptr<Program> program;

        explicit Subscriber(std::string_view bytes) : blob(bytes), predicate(read_predicate(blob)) {
            if (!predicate.program.empty()) program = std::make_unique<Program>(predicate.program);
            for (const Conjunction& conjunction : predicate.conjunctions)
                for (const Constraint& constraint : conjunction.constraints) name_hashes.push_back(hash_name(constraint.name));
        }

        bool wants(const MessageView& message) const {
            const uint64_t* hashes = name_hashes.data();
            for (const Conjunction& conjunction : predicate.conjunctions) {
                if (satisfied(conjunction, hashes, message)) return !program || program->evaluate(message) == Truth::True;
                hashes += conjunction.constraints.size();
            }
            return false;
        }

        static bool satisfied(const Conjunction& conjunction, const uint64_t* hashes, const MessageView& message) {
            for (const Constraint& constraint : conjunction.constraints) {
                const Attribute* const attribute = message.find(constraint.name, *hashes++);
                if (!holds(constraint, attribute ? &attribute->value : nullptr)) return false;
            }
            return true;
        }

        uint8_t derived() const {
            uint8_t mask = program ? program->derived() : 0;
            for (const Conjunction& conjunction : predicate.conjunctions)
                for (const Constraint& constraint : conjunction.constraints) mask |= derived_bit(constraint.name);
            return mask;
        }

        size_t bytes() const {
            size_t sum = sizeof *this + blob.capacity() + name_hashes.capacity() * 8;
            for (const Conjunction& one : predicate.conjunctions) sum += sizeof one + one.constraints.capacity() * sizeof(Constraint);
            return sum;
        }
    };

    std::map<uint32_t, std::unique_ptr<Subscriber>> subscribers_;
    size_t conjunctions_ = 0, bytes_ = 0;
};

}  // namespace tidings
