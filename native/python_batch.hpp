// A decoded batch as Python holds it, shared by the bindings that take one. Immutable once made, so any number of threads may
// read it without the GIL.
#pragma once
#include <nanobind/nanobind.h>

#include "python_values.hpp"
#include "tidings/batch.hpp"

namespace tidings {

class PyBatch {
public:
    enum class Form { Frames, Messages };

    PyBatch(nb::handle data, Form form, const MessageBatch::Options& options) : buffer_(data) {
        nb::gil_scoped_release release;
        if (form == Form::Frames)
            batch_.decode_frames(buffer_.view(), options);
        else
            batch_.decode_messages(buffer_.view(), options);
    }

    const MessageBatch& batch() const { return batch_; }

    const Entry& entry(Py_ssize_t i) const {
        if (i < 0 || static_cast<size_t>(i) >= batch_.size()) throw nb::index_error("no such entry in the batch");
        return batch_[static_cast<size_t>(i)];
    }

    const MessageView& message(Py_ssize_t i) const {
        const Entry& one = entry(i);
        if (one.status == Entry::Status::Broken) throw one.error;
        if (one.status == Entry::Status::Control) throw UsageError{"E_NO_MESSAGE", "this entry is a control frame"};
        return one.message;
    }

private:
    Buffer buffer_;
    MessageBatch batch_;
};

}  // namespace tidings
