// A decoded batch as Python holds it, shared by the bindings that take one. Immutable once made, so any number of
// threads may read it without the GIL.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "python_values.hpp"
#include "tidings/codec/batch.hpp"

namespace tidings {

// Storage of batches that are freed, for the next ones: fresh memory would cost more in page faults than decoding does.
class BatchPool {
public:
    std::unique_ptr<MessageBatch> take() {
        const std::lock_guard lock(mutex_);
        if (spare_.empty()) return std::make_unique<MessageBatch>();
        std::unique_ptr<MessageBatch> batch = std::move(spare_.back());
        spare_.pop_back();
        return batch;
    }

    void give(std::unique_ptr<MessageBatch> batch) {
        const std::lock_guard lock(mutex_);
        if (spare_.size() < spare_max && batch->capacity_bytes() <= capacity_bytes_max)
            spare_.push_back(std::move(batch));
    }

    static BatchPool& instance() {
        static BatchPool pool;
        return pool;
    }

private:
    static constexpr size_t spare_max = 8, capacity_bytes_max = 4 << 20;

    std::mutex mutex_;
    std::vector<std::unique_ptr<MessageBatch>> spare_;
};

class PyBatch {
public:
    enum class Form { Frames, Messages };

    PyBatch(nb::handle data, Form form, const MessageBatch::Options& options)
        : buffer_(data),
          batch_(BatchPool::instance().take()) {
        nb::gil_scoped_release release;
        if (form == Form::Frames) batch_->decode_frames(buffer_.view(), options);
        else batch_->decode_messages(buffer_.view(), options);
    }
    PyBatch(nb::handle data, std::span<const uint64_t> ends, const MessageBatch::Options& options)
        : buffer_(data),
          batch_(BatchPool::instance().take()) {
        nb::gil_scoped_release release;
        batch_->decode_column(buffer_.view(), ends, options);
    }
    ~PyBatch() { BatchPool::instance().give(std::move(batch_)); }

    const MessageBatch& batch() const { return *batch_; }

    const Entry& entry(Py_ssize_t i) const {
        if (i < 0 || static_cast<size_t>(i) >= batch_->size()) throw nb::index_error("no such entry in the batch");
        return (*batch_)[static_cast<size_t>(i)];
    }

    const MessageView& message(Py_ssize_t i) const {
        const Entry& one = entry(i);
        if (one.status == Entry::Status::Broken) throw one.error;
        if (one.status == Entry::Status::Control) throw UsageError{"E_NO_MESSAGE", "this entry is a control frame"};
        return one.message;
    }

private:
    Buffer buffer_;
    std::unique_ptr<MessageBatch> batch_;
};

}  // namespace tidings
