// Routing tables of events of types (Hermes, docs/hermes.md): one tree of brokers for each type, and at each broker the
// hops that want its events, all of them or those that a filter lets through. Python keeps them right
// (src/tidings/routing/hermes); what happens to an event by them is the same as in `Hermes._ways` there:
//
//   event in the tree of its type ─┬─ for all: neighbours that want all; the next hop towards the rendezvous node
//                                  ├─ by filter: neighbours whose filters match
//                                  └─ at the rendezvous node: on in the tree of the parent, if that is asked for it
//
// One matcher has the filters of all trees: each also asks for the name of its tree, which an event carries in an
// attribute that no message has. So ten thousand types cost what as many subscriptions cost.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tidings/codec/forward_frame.hpp"
#include "tidings/matching/matcher.hpp"

namespace tidings {

class EventTrees {
public:
    static constexpr std::string_view tree_attribute = "@tree";
    static constexpr size_t levels_max = 64;  // of a hierarchy of types

    using Flags = EventFlags;

    struct Copy {
        uint32_t neighbour;
        Flags flags;
    };

    EventTrees() { filters_.limit(Budget::message_steps, true); }

    // ---- tables

    // `up`: the next hop towards the rendezvous node; 0: this broker is it. `calls`: somebody there wants all events.
    void set(std::string_view name, uint32_t up, bool calls, std::vector<uint32_t> neighbours,
             std::vector<std::string> parents) {
        Tree& tree = at(name);
        tree.up = up;
        tree.calls = calls;
        tree.neighbours = std::move(neighbours);
        tree.parents = std::move(parents);
        tree.set = true;
    }

    void drop(std::string_view name) {
        const auto found = trees_.find(name);
        if (found == trees_.end()) return;
        Tree& tree = found->second;
        if (tree.filters == 0) trees_.erase(found);
        else tree.up = 0, tree.calls = tree.set = false, tree.neighbours.clear(), tree.parents.clear();
    }

    // The filter of a neighbour, or, if that is 0, of a type for which this broker is asked. Returns its number.
    uint32_t add_filter(std::string_view name, uint32_t neighbour, std::string parent, std::string_view predicate) {
        const uint32_t number = free_.empty() ? static_cast<uint32_t>(wants_.size()) : free_.back();
        filters_.add(number, predicate);  // throws if the predicate is malformed: nothing has changed then
        if (free_.empty()) wants_.emplace_back();
        else free_.pop_back();
        Tree& tree = at(name);
        ++tree.filters;
        wants_[number] = {&tree, neighbour, std::move(parent)};
        return number;
    }

    void remove_filter(uint32_t number) {
        if (number >= wants_.size() || !wants_[number].tree) throw UsageError{"E_NO_FILTER", "no such filter"};
        filters_.remove(number);
        Tree& tree = *std::exchange(wants_[number].tree, nullptr);
        free_.push_back(number);
        if (--tree.filters == 0 && !tree.set) trees_.erase(trees_.find(tree.name));
    }

    size_t size() const { return trees_.size(); }
    uint8_t derived() const { return filters_.derived(); }

    // ---- events

    // To whom an event goes from here: `send(tree's name, copies)`, for its own tree and for those of ancestors that
    // this broker is the rendezvous node of. Never back to where it came from. False: there is no such tree here.
    template <class Send>
    bool route(const MessageView& event, std::string_view name, Flags flags, uint32_t source, Send&& send) {
        const auto found = trees_.find(name);
        if (found == trees_.end()) return false;
        steps_.assign(1, {&found->second, flags});
        for (size_t i = 0; i < steps_.size(); ++i) {
            const Step step = steps_[i];
            copies_.clear();
            if (step.flags.by_type) want_all(*step.tree, step.flags);
            if (step.flags.by_filter && step.tree->filters) want_some(*step.tree, event);
            if (i == 0) std::erase_if(copies_, [&](const Copy& copy) { return copy.neighbour == source; });
            for (Copy& copy : copies_) copy.flags.rising = copy.neighbour == step.tree->up;
            if (!copies_.empty()) send(std::string_view(step.tree->name), copies_);
        }
        return true;
    }

    // Of a topic of events: the last name before ".event".
    static std::string_view type_of(std::string_view topic) {
        topic.remove_suffix(std::min(topic.size(), std::string_view(".event").size()));
        return topic.substr(topic.rfind('.') + 1);
    }

private:
    struct Tree {
        std::string name;
        uint32_t up = 0;
        bool calls = false, set = false;
        std::vector<uint32_t> neighbours;  // that want all events
        std::vector<std::string> parents;  // types that this broker is asked for, of which this is a subtype
        size_t filters = 0;
    };

    struct Want {
        Tree* tree = nullptr;
        uint32_t neighbour = 0;
        std::string parent;
    };

    struct Step {
        const Tree* tree;
        Flags flags;
    };

    Tree& at(std::string_view name) {
        const auto found = trees_.find(name);
        if (found != trees_.end()) return found->second;
        Tree& tree = trees_[std::string(name)];
        tree.name = name;
        return tree;
    }

    void want_all(const Tree& tree, const Flags& flags) {
        for (const uint32_t neighbour : tree.neighbours) note(neighbour).flags.by_type = true;
        if (tree.up && (tree.calls || flags.rising)) note(tree.up).flags.by_type = true;
        for (const std::string& parent : tree.parents) go_on(parent, {true, false, false});
    }

    void want_some(const Tree& tree, const MessageView& event) {
        attributes_.assign(event.attributes.begin(), event.attributes.end());
        const Value name = Value::string(tree.name);
        attributes_.push_back({tree_attribute, name, tree_hash_, hash_value(name, tree_hash_)});
        MessageView placed = event;
        placed.attributes = attributes_;
        filters_.match(placed, matched_);
        for (const uint32_t number : matched_) {
            const Want& want = wants_[number];
            if (want.neighbour) note(want.neighbour).flags.by_filter = true;
            else go_on(want.parent, {false, true, false});
        }
    }

    Copy& note(uint32_t neighbour) {
        for (Copy& copy : copies_)
            if (copy.neighbour == neighbour) return copy;
        return copies_.emplace_back(Copy{neighbour, {false, false, false}});
    }

    void go_on(const std::string& parent, const Flags& flags) {
        const auto found = trees_.find(parent);
        if (found == trees_.end()) return;
        for (size_t i = 0; i < steps_.size(); ++i)
            if (steps_[i].tree == &found->second) {
                steps_[i].flags.by_type |= flags.by_type;
                steps_[i].flags.by_filter |= flags.by_filter;
                return;
            }
        if (steps_.size() < levels_max) steps_.push_back({&found->second, flags});
    }

    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };

    const uint64_t tree_hash_ = hash_name(tree_attribute);
    std::unordered_map<std::string, Tree, Hash, std::equal_to<>> trees_;
    Matcher filters_;
    std::vector<Want> wants_;  // by number
    std::vector<uint32_t> free_;
    std::vector<Step> steps_;
    std::vector<Copy> copies_;
    std::vector<Attribute> attributes_;
    Column<uint32_t> matched_;
};

}  // namespace tidings
