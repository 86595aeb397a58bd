// A tree of boxes that finds those that may contain, lie within, or meet a given one, without looking at them all.
//
// A conjunction is a box: for each attribute it names the span [low, high) of what it allows, or a loose one where text
// tests or several kinds say more than its hull does. Ends are bytes in the order of the values
// (src/tidings/model/value_set.py). All three questions bound the lows and the highs of the boxes they ask for
// (f contains g if f.low <= g.low and f.high >= g.high), so boxes are points in the space of lows and highs, and the
// tree is a k-d tree over it (Bentley 1975): a branch divides by the low or the high of one attribute, whichever halves
// best. Two things differ from the textbook. Boxes that do not name the attribute stand apart, since all of them agree
// with some questions and none with others. And a branch knows the least and the greatest low and high on each of its
// sides: what is asked for one value (`stock = 'XYZ'`, low and high next to each other) then goes down one path, though
// lows alone would exclude nothing.
//
// Boxes that come in order would make a chain of branches. A subtree that has doubled since it was built, and of which
// one side has most, is therefore built again from a sample that halves it: depth stays logarithmic in any order of
// insertion, and a box is moved about log n times in all (a scapegoat tree: Galperin and Rivest, SODA 1993).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tidings/support/error.hpp"

namespace tidings {

class BoxTree {
public:
    struct Side {
        std::string name;
        bool loose;
        std::string low, high;
    };

    size_t size() const { return live_; }

    void add(uint32_t id, const std::vector<Side>& sides) {
        if (id < items_.size() && items_[id].leaf)
            throw UsageError{"E_BOX_ID", "box " + std::to_string(id) + " is already in the tree"};
        if (id >= items_.size()) items_.resize(std::max<size_t>(id + 1, items_.size() * 2));
        for (const Side& side : sides) names_.try_emplace(side.name, static_cast<uint32_t>(names_.size()));
        items_[id].spans = spans_of(sides);
        insert(id);
        ++live_;
    }

    void remove(uint32_t id) {
        if (id >= items_.size() || !items_[id].leaf)
            throw UsageError{"E_BOX_ID", "box " + std::to_string(id) + " is not in the tree"};
        Node* node = items_[id].leaf;
        const uint32_t last = node->boxes.back();
        node->boxes[items_[id].place] = last;
        items_[last].place = items_[id].place;
        node->boxes.pop_back();
        items_[id] = Item();
        for (; node; node = node->parent) --node->size;
        --live_;
        if (++removed_ > 2 * live_ + leaf_max) {  // what is left, without empty places and with narrow bounds
            removed_ = 0;
            rebuild(root_.get());
        }
    }

    // Appends the boxes that may contain this one: they name no attribute that it does not name.
    void containing(const std::vector<Side>& sides, std::vector<uint32_t>& out) const {
        const Spans box = spans_of(sides);
        walk(
            out, [&](const Spans& other) { return may_contain(other, box); },
            [&](const Node& node, auto&& push) {
                push(absent);
                const Span* span = find(box, node.name);
                if (!span) return;
                push(loose);
                for (const int slot : {below, above}) {
                    const Bounds& bounds = node.bounds[slot - below];
                    if (bounds.any && (span->loose || (bounds.low_min <= span->low && bounds.high_max >= span->high)))
                        push(slot);
                }
            });
    }

    // Appends the boxes that may lie within this one: they name every attribute that it names.
    void within(const std::vector<Side>& sides, std::vector<uint32_t>& out) const {
        const Spans box = spans_of(sides);
        walk(
            out, [&](const Spans& other) { return may_contain(box, other); },
            [&](const Node& node, auto&& push) {
                const Span* span = find(box, node.name);
                if (!span) return push_all(push);
                push(loose);
                for (const int slot : {below, above}) {
                    const Bounds& bounds = node.bounds[slot - below];
                    if (bounds.any && (span->loose || (bounds.low_max >= span->low && bounds.high_min <= span->high)))
                        push(slot);
                }
            });
    }

    // Appends the boxes that may have something in common with this one.
    void meeting(const std::vector<Side>& sides, std::vector<uint32_t>& out) const {
        const Spans box = spans_of(sides);
        walk(
            out, [&](const Spans& other) { return may_meet(other, box); },
            [&](const Node& node, auto&& push) {
                const Span* span = find(box, node.name);
                if (!span || span->loose) return push_all(push);
                push(absent);
                push(loose);
                for (const int slot : {below, above}) {
                    const Bounds& bounds = node.bounds[slot - below];
                    if (!bounds.any) continue;
                    const bool several = kind(bounds.low_min) != kind(span->low) ||
                                         kind(bounds.low_max) != kind(span->low) || beyond(bounds.high_min, *span) ||
                                         beyond(bounds.high_max, *span) || beyond(span->high, *span);
                    if (several || (bounds.low_min < span->high && bounds.high_max > span->low)) push(slot);
                }
            });
    }

    size_t depth() const { return root_ ? depth_of(*root_) : 0; }

private:
    static constexpr size_t leaf_max = 24, sample_max = 48;
    static constexpr int absent = 0, loose = 1, below = 2, above = 3;

    struct Span {
        uint32_t name = 0;
        bool loose = false;
        std::string low, high;
    };
    using Spans = std::vector<Span>;  // by name, ascending

    struct Bounds {
        bool any = false;
        std::string low_min, low_max, high_min, high_max;

        void widen(const Span& span) {
            if (!any) {
                low_min = low_max = span.low;
                high_min = high_max = span.high;
                any = true;
                return;
            }
            if (span.low < low_min) low_min = span.low;
            if (span.low > low_max) low_max = span.low;
            if (span.high < high_min) high_min = span.high;
            if (span.high > high_max) high_max = span.high;
        }
    };

    struct Node {
        Node* parent = nullptr;
        size_t size = 0, built = 0;   // boxes below it: now, and when it was built
        std::vector<uint32_t> boxes;  // of a leaf
        size_t limit = leaf_max;
        uint32_t name = 0;  // of a branch
        int end = 0;        // 0: divides by lows, 1: by highs
        std::string cut;
        std::array<std::unique_ptr<Node>, 4> children;
        std::array<Bounds, 2> bounds;  // of what is below and above

        bool is_leaf() const { return !children[0]; }
    };

    struct Item {
        Spans spans;
        Node* leaf = nullptr;
        uint32_t place = 0;
    };

    struct Division {
        size_t largest;  // part, of the sample
        uint32_t name;
        int end;
        std::string cut;
    };

    // ---- boxes

    static constexpr uint32_t unknown = UINT32_MAX;

    Spans spans_of(const std::vector<Side>& sides) const {
        Spans spans;
        for (const Side& side : sides) {
            const auto found = names_.find(side.name);
            spans.push_back({found == names_.end() ? unknown : found->second, side.loose, side.low, side.high});
        }
        std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.name < b.name; });
        return spans;
    }

    static const Span* find(const Spans& spans, uint32_t name) {
        for (const Span& span : spans)
            if (span.name == name) return &span;
        return nullptr;
    }

    static uint8_t kind(const std::string& end) { return end.empty() ? 0 : static_cast<uint8_t>(end[0]); }

    // True if an end lies above all values of the kind in which the span begins: untyped text may be in two kinds.
    static bool beyond(const std::string& end, const Span& span) {
        return kind(end) > kind(span.low) + 1 || (kind(end) == kind(span.low) + 1 && end.size() > 1);
    }

    static bool may_contain(const Spans& wide, const Spans& narrow) {
        for (const Span& span : wide) {
            const Span* own = find(narrow, span.name);
            if (!own || own->name == unknown) return false;
            if (!span.loose && !own->loose && (span.low > own->low || span.high < own->high)) return false;
        }
        return true;
    }

    static bool may_meet(const Spans& one, const Spans& other) {
        for (const Span& span : one) {
            const Span* own = find(other, span.name);
            if (!own || span.loose || own->loose || (span.low < own->high && span.high > own->low)) continue;
            if (kind(span.low) == kind(own->low) && !beyond(span.high, span) && !beyond(own->high, span)) return false;
        }
        return true;
    }

    static int slot_of(const Node& branch, const Spans& spans) {
        const Span* span = find(spans, branch.name);
        if (!span) return absent;
        if (span->loose) return loose;
        return (branch.end ? span->high : span->low) < branch.cut ? below : above;
    }

    static void widen(Node& branch, int slot, const Spans& spans) {
        if (slot >= below) branch.bounds[slot - below].widen(*find(spans, branch.name));
    }

    // ---- questions

    template <class Push>
    static void push_all(Push&& push) {
        for (int slot = 0; slot < 4; ++slot) push(slot);
    }

    template <class Holds, class Descend>
    void walk(std::vector<uint32_t>& out, Holds&& holds, Descend&& descend) const {
        if (!root_) return;
        std::vector<const Node*> stack{root_.get()};
        while (!stack.empty()) {
            const Node& node = *stack.back();
            stack.pop_back();
            if (node.is_leaf()) {
                for (const uint32_t id : node.boxes)
                    if (holds(items_[id].spans)) out.push_back(id);
                continue;
            }
            descend(node, [&](int slot) {
                if (node.children[slot]->size) stack.push_back(node.children[slot].get());
            });
        }
    }

    // ---- changes

    void insert(uint32_t id) {
        if (!root_) root_ = std::make_unique<Node>();
        const Spans& spans = items_[id].spans;
        Node *node = root_.get(), *scapegoat = nullptr;
        while (true) {
            ++node->size;
            if (node->is_leaf()) break;
            if (!scapegoat && leans(*node)) scapegoat = node;
            const int slot = slot_of(*node, spans);
            widen(*node, slot, spans);
            node = node->children[slot].get();
        }
        put(*node, id);
        if (scapegoat) rebuild(scapegoat);
        else if (node->boxes.size() > node->limit) rebuild(node);
    }

    void put(Node& leaf, uint32_t id) {
        items_[id].leaf = &leaf;
        items_[id].place = static_cast<uint32_t>(leaf.boxes.size());
        leaf.boxes.push_back(id);
    }

    static bool leans(const Node& branch) {
        if (branch.size < 2 * branch.built) return false;
        size_t largest = 0;
        for (const auto& child : branch.children) largest = std::max(largest, child->size);
        return largest * 4 > branch.size * 3;
    }

    void rebuild(Node* old) {
        std::vector<uint32_t> ids;
        ids.reserve(old->size);
        collect(*old, ids);
        Node* const parent = old->parent;
        std::unique_ptr<Node>* place = &root_;
        if (parent)
            for (auto& child : parent->children)
                if (child.get() == old) place = &child;
        *place = build(parent, std::move(ids));
    }

    static void collect(const Node& node, std::vector<uint32_t>& ids) {
        if (node.is_leaf()) ids.insert(ids.end(), node.boxes.begin(), node.boxes.end());
        else
            for (const auto& child : node.children) collect(*child, ids);
    }

    std::unique_ptr<Node> build(Node* parent, std::vector<uint32_t> ids) {
        auto node = std::make_unique<Node>();
        node->parent = parent;
        node->size = node->built = ids.size();
        if (ids.size() > leaf_max && divide(*node, ids)) {
            std::array<std::vector<uint32_t>, 4> parts;
            for (const uint32_t id : ids) {
                const int slot = slot_of(*node, items_[id].spans);
                widen(*node, slot, items_[id].spans);
                parts[slot].push_back(id);
            }
            std::vector<uint32_t>().swap(ids);
            for (size_t slot = 0; slot < 4; ++slot) node->children[slot] = build(node.get(), std::move(parts[slot]));
            return node;
        }
        while (node->limit < ids.size()) node->limit *= 2;  // all alike: a longer list is all that helps
        for (const uint32_t id : ids) put(*node, id);
        return node;
    }

    // Chooses the division of a sample whose largest part is the smallest; of equals one that differs from the
    // parent's. False if none divides it.
    bool divide(Node& node, const std::vector<uint32_t>& ids) const {
        std::vector<const Spans*> sample;
        const size_t step = std::max<size_t>(1, ids.size() / sample_max);
        for (size_t i = 0; i < ids.size(); i += step) sample.push_back(&items_[ids[i]].spans);
        std::vector<uint32_t> names;
        for (const Spans* spans : sample)
            for (const Span& span : *spans) names.push_back(span.name);
        std::sort(names.begin(), names.end());
        names.erase(std::unique(names.begin(), names.end()), names.end());
        size_t best = 2 * sample.size();
        for (const uint32_t name : names)
            for (const int end : {0, 1}) {
                const Division found = division(sample, name, end);
                const bool again = node.parent && node.parent->name == name && node.parent->end == end;
                if (found.largest == sample.size() || 2 * found.largest + again >= best) continue;
                best = 2 * found.largest + again;
                node.name = name;
                node.end = end;
                node.cut = found.cut;
            }
        return best < 2 * sample.size();
    }

    static Division division(const std::vector<const Spans*>& sample, uint32_t name, int end) {
        std::vector<const std::string*> ends;
        size_t without = 0, slack = 0;
        for (const Spans* spans : sample) {
            const Span* span = find(*spans, name);
            if (!span) ++without;
            else if (span->loose) ++slack;
            else ends.push_back(end ? &span->high : &span->low);
        }
        Division found{std::max(without, slack), name, end, {}};
        if (ends.empty()) return found;
        std::sort(ends.begin(), ends.end(), [](const auto* a, const auto* b) { return *a < *b; });
        size_t middle = ends.size() / 2;
        while (middle < ends.size() && *ends[middle] == *ends[0]) ++middle;
        if (middle == ends.size()) middle = 0;
        found.cut = *ends[middle];
        const auto first = std::partition_point(ends.begin(), ends.end(),
                                                [&](const auto* a) { return *a < found.cut; });
        const auto under = static_cast<size_t>(first - ends.begin());
        found.largest = std::max({found.largest, under, ends.size() - under});
        return found;
    }

    static size_t depth_of(const Node& node) {
        size_t deepest = 0;
        if (!node.is_leaf())
            for (const auto& child : node.children) deepest = std::max(deepest, depth_of(*child));
        return deepest + 1;
    }

    std::unordered_map<std::string, uint32_t> names_;
    std::vector<Item> items_;  // by id
    std::unique_ptr<Node> root_;
    size_t live_ = 0, removed_ = 0;
};

}  // namespace tidings
