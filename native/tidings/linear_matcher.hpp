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
        dirty_ = true;
    }

    void remove(uint32_t id) {
        const auto found = subscribers_.find(id);
        if (found == subscribers_.end()) throw UsageError{"E_MATCHER_ID", "id " + std::to_string(id) + " is not in the matcher"};
        conjunctions_ -= found->second->predicate.conjunctions.size();
        bytes_ -= found->second->bytes();
        subscribers_.erase(found);
        dirty_ = true;
    }

    void match(const MessageBatch& batch, Matches& matches) {
        if (dirty_) lay_out();
        matches.offsets.clear();
        matches.offsets.push_back(0);
        matches.ids.clear();
        for (const Entry& entry : batch) {
            if (entry.status == Entry::Status::Message) match_one(entry.message, matches.ids);
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
        std::unique_ptr<Program> program;

        explicit Subscriber(std::string_view bytes) : blob(bytes), predicate(read_predicate(blob)) {
            if (!predicate.program.empty()) program = std::make_unique<Program>(predicate.program);
        }

        uint8_t derived() const {
            uint8_t mask = program ? program->derived() : 0;
            for (const Conjunction& conjunction : predicate.conjunctions)
                for (const Constraint& constraint : conjunction.constraints) mask |= derived_bit(constraint.name);
            return mask;
        }

        size_t bytes() const {
            size_t sum = sizeof *this + blob.capacity();
            for (const Conjunction& one : predicate.conjunctions)
                sum += sizeof one + one.constraints.capacity() * (sizeof(Constraint) + sizeof(Step));
            return sum;
        }
    };

    struct Step {
        uint64_t name_hash;
        const Constraint* constraint;
    };
    struct Row {  // a conjunction
        uint32_t first, count, id;
        const Subscriber* subscriber;
    };

    // All conjunctions one after the other, those of a subscriber together.
    void lay_out() {
        steps_.clear();
        rows_.clear();
        for (const auto& [id, subscriber] : subscribers_)
            for (const Conjunction& conjunction : subscriber->predicate.conjunctions) {
                rows_.push_back({static_cast<uint32_t>(steps_.size()), static_cast<uint32_t>(conjunction.constraints.size()), id,
                                 subscriber.get()});
                for (const Constraint& constraint : conjunction.constraints)
                    steps_.push_back({hash_name(constraint.name), &constraint});
            }
        dirty_ = false;
    }

    void match_one(const MessageView& message, Column<uint32_t>& ids) const {
        const Subscriber* last = nullptr;  // matched by an earlier conjunction of its own
        for (const Row& row : rows_) {
            if (row.subscriber == last || !satisfied(row, message)) continue;
            last = row.subscriber;
            if (!last->program || last->program->evaluate(message) == Truth::True) ids.push_back(row.id);
        }
    }

    bool satisfied(const Row& row, const MessageView& message) const {
        for (const Step* step = steps_.data() + row.first; step != steps_.data() + row.first + row.count; ++step) {
            const Attribute* const attribute = message.find(step->constraint->name, step->name_hash);
            if (!holds(*step->constraint, attribute ? &attribute->value : nullptr)) return false;
        }
        return true;
    }

    std::map<uint32_t, std::unique_ptr<Subscriber>> subscribers_;
    std::vector<Step> steps_;
    std::vector<Row> rows_;
    size_t conjunctions_ = 0, bytes_ = 0;
    bool dirty_ = false;
};

}  // namespace tidings
