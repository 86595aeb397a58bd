// Routing tables of events of types (Hermes, docs/hermes.md): one tree of brokers for each type, and at each broker the
// hops that want its events, all of them or those that a filter lets through. Python keeps them right
// (src/tidings/routing/hermes); what happens to an event by them is the same as in `Hermes._ways` there:
//
//   event in the tree of its type ─┬─ for all: neighbours that want all; the next hop towards the rendezvous node
//                                  ├─ by filter: neighbours whose filters match
//                                  └─ at the rendezvous node: on in the tree of the parent, if that is asked for it
//
// One matcher has the filters of all trees that have few: each also asks for the name of its tree, which an event carries
// in an attribute that no message has. So ten thousand types cost what as many subscriptions cost. A tree that has many
// gets a matcher of its own, where bounds are found without that name.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
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
    static constexpr size_t many = 64;        // filters of one tree

    using Flags = EventFlags;

    struct Copy {
        uint32_t neighbour;
        Flags flags;
    };

    // Where events go that match, and the filter in both forms: with the name of its tree, and without.
    struct Filter {
        uint32_t neighbour = 0;  // 0: on in the tree of the parent, for which this broker is asked
        std::string parent, placed, plain;
    };

    EventTrees() { few_.limit(Budget::message_steps, true); }

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
        if (tree.filters.empty()) trees_.erase(found);
        else tree.up = 0, tree.calls = tree.set = false, tree.neighbours.clear(), tree.parents.clear();
    }

    // Returns its number.
    uint32_t add_filter(std::string_view name, Filter filter) {
        Tree& tree = at(name);
        const uint32_t number = free_.empty() ? static_cast<uint32_t>(wants_.size()) : free_.back();
        try {
            if (tree.own) tree.own->add(number, filter.plain), derived_ |= tree.own->derived();
            else few_.add(number, filter.placed);
        } catch (...) {  // malformed, or beyond the limits: nothing has changed then
            maybe_erase(tree);
            throw;
        }
        if (free_.empty()) wants_.emplace_back();
        else free_.pop_back();
        wants_[number] = {std::move(filter), &tree, tree.filters.size()};
        tree.filters.push_back(number);
        if (!tree.own && tree.filters.size() >= many) move_out(tree);
        return number;
    }

    void remove_filter(uint32_t number) {
        if (number >= wants_.size() || !wants_[number].tree) throw UsageError{"E_NO_FILTER", "no such filter"};
        Want gone = std::move(wants_[number]);
        wants_[number] = {};
        Tree& tree = *gone.tree;
        (tree.own ? *tree.own : few_).remove(number);
        wants_[tree.filters.back()].place = gone.place;
        tree.filters[gone.place] = tree.filters.back();
        tree.filters.pop_back();
        free_.push_back(number);
        if (tree.filters.empty()) tree.own.reset();
        maybe_erase(tree);
    }

    size_t size() const { return trees_.size(); }
    uint8_t derived() const { return derived_ | few_.derived(); }

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
            if (step.flags.by_filter && !step.tree->filters.empty()) want_some(*step.tree, event);
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
        std::vector<uint32_t> filters;     // their numbers
        std::unique_ptr<Matcher> own;      // of a tree that has had many
    };

    struct Want {
        Filter filter;
        Tree* tree = nullptr;
        size_t place = 0;  // in the tree's list
    };

    struct Step {
        Tree* tree;
        Flags flags;
    };

    Tree& at(std::string_view name) {
        const auto found = trees_.find(name);
        if (found != trees_.end()) return found->second;
        Tree& tree = trees_[std::string(name)];
        tree.name = name;
        return tree;
    }

    void maybe_erase(const Tree& tree) {
        if (tree.filters.empty() && !tree.set) trees_.erase(trees_.find(tree.name));
    }

    void move_out(Tree& tree) {
        tree.own = std::make_unique<Matcher>();
        tree.own->limit(Budget::message_steps, true);
        for (const uint32_t number : tree.filters) {
            tree.own->add(number, wants_[number].filter.plain);
            few_.remove(number);
        }
        derived_ |= tree.own->derived();
    }

    void want_all(const Tree& tree, const Flags& flags) {
        for (const uint32_t neighbour : tree.neighbours) note(neighbour).flags.by_type = true;
        if (tree.up && (tree.calls || flags.rising)) note(tree.up).flags.by_type = true;
        for (const std::string& parent : tree.parents) go_on(parent, {true, false, false});
    }

    void want_some(Tree& tree, const MessageView& event) {
        if (tree.own) tree.own->match(event, matched_);
        else match_few(tree, event);
        for (const uint32_t number : matched_) {
            const Filter& filter = wants_[number].filter;
            if (filter.neighbour) note(filter.neighbour).flags.by_filter = true;
            else go_on(filter.parent, {false, true, false});
        }
    }

    void match_few(const Tree& tree, const MessageView& event) {
        attributes_.assign(event.attributes.begin(), event.attributes.end());
        const Value name = Value::string(tree.name);
        attributes_.push_back({tree_attribute, name, tree_hash_, hash_value(name, tree_hash_)});
        MessageView placed = event;
        placed.attributes = attributes_;
        few_.match(placed, matched_);
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
    Matcher few_;              // filters of trees that have no matcher of their own
    uint8_t derived_ = 0;      // what matchers of trees need
    std::vector<Want> wants_;  // by number
    std::vector<uint32_t> free_;
    std::vector<Step> steps_;
    std::vector<Copy> copies_;
    std::vector<Attribute> attributes_;
    Column<uint32_t> matched_;
};

}  // namespace tidings
