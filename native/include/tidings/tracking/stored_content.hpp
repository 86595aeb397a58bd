// What a tracker hands out to be stored: the content of a volume in its smallest form.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tidings/tracking/filter_volume.hpp"
#include "tidings/tracking/line_filter.hpp"
#include "tidings/tracking/run_codec.hpp"

namespace tidings {

// (B, R, S) on its way to the disk.
struct TrackedFilter {
    uint8_t kind = 0;
    uint32_t origin = 0, peer = 0;
    uint64_t sequence = 0, count = 0;
    bool full = false, has_range = false;
    int64_t first_ms = 0, last_ms = 0, opened_ms = 0, stored_ms = 0;
    std::vector<int64_t> singles;
    enum class Form : uint8_t { Bloom, Ids, Runs, Lines } form = Form::Bloom;
    std::shared_ptr<const std::string> data;  // the same for all histories that have taken the same ids
};

struct StoredContent {
    TrackedFilter::Form form;
    std::shared_ptr<const std::string> data;
};

// What is handed out for the owners of a volume: the same for all of them, or, of filters, for all of one kind.
class StoredContents {
public:
    using Form = TrackedFilter::Form;

    StoredContents(FilterVolume& volume, const VolumeShape& shape, std::span<const uint64_t> seeds)
        : volume_(volume),
          seeds_(seeds),
          kinds_(seeds.size()) {
        if (!shape.runs) {
            const Form form = volume.filter ? Form::Bloom : Form::Ids;
            set(form, volume.filter ? volume.filter->to_string() : volume.ids);
            return;
        }
        volume.runs.sort();
        std::string runs = RunCodec::encode(volume.runs);
        filtered_ = volume.count >= filter_ids_min && 3 * runs.size() > 4 * LineFilter::bytes_for(volume.count);
        if (!filtered_) set(Form::Runs, std::move(runs));
    }

    // For a history of this kind.
    const StoredContent& of(size_t kind) {
        if (!filtered_) return same_;
        StoredContent& content = kinds_[kind];
        if (content.data) return content;
        LineFilter filter(volume_.count, seeds_[kind]);
        std::vector<RunList::Id> ids;
        ids.reserve(volume_.count);
        volume_.runs.each([&](const RunList::Id& id) { ids.push_back(id); });
        filter.add(reinterpret_cast<const uint8_t*>(ids.data()), ids.size());
        return content = {Form::Lines, std::make_shared<const std::string>(filter.encode())};
    }

private:
    void set(Form form, std::string data) { same_ = {form, std::make_shared<const std::string>(std::move(data))}; }

    static constexpr size_t filter_ids_min = 4096;  // below it a list of runs is small enough, and exact

    FilterVolume& volume_;
    std::span<const uint64_t> seeds_;  // by kind
    bool filtered_ = false;            // a filter is smaller than runs by a quarter
    StoredContent same_{};
    std::vector<StoredContent> kinds_;
};

}  // namespace tidings
