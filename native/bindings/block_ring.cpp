// The binding of what a load generator sends.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "structure.hpp"
#include "tidings/forwarding/block_ring.hpp"

namespace nb = nanobind;
using namespace tidings;

namespace {

std::vector<MessageBlock> copied(const std::vector<std::pair<nb::bytes, int64_t>>& given) {
    std::vector<MessageBlock> blocks;
    for (const auto& [bytes, messages] : given) blocks.push_back({std::string(bytes.c_str(), bytes.size()), messages});
    return blocks;
}

int64_t send_blocks(BlockRing& self, int socket, int64_t messages_max) {
    std::optional<int> failed;
    int64_t sent = 0;
    {
        nb::gil_scoped_release release;
        try {
            sent = self.send(socket, messages_max);
        } catch (const std::system_error& error) {
            failed = error.code().value();
        }
    }
    if (failed) {
        errno = *failed;
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
    return sent;
}

}  // namespace

static void bind_block_ring(nb::module_& m) {
    nb::class_<BlockRing>(m, "BlockRing",
                          "Blocks of messages, sent in turn again and again, each with a system call of its own.")
        .def(
            "__init__",
            [](BlockRing* self, const std::vector<std::pair<nb::bytes, int64_t>>& blocks) {
                new (self) BlockRing(copied(blocks));
            },
            nb::arg("blocks"), "Each with the number of its messages.")
        .def("send", &send_blocks, nb::arg("socket"), nb::arg("messages_max"),
             "Sends the rest of what was begun, then blocks of at most `messages_max` messages together, as far as the "
             "socket takes them; "
             "returns the messages of those begun. OSError if the connection is gone.")
        .def_prop_ro("busy", &BlockRing::busy, "A block is begun and not finished.")
        .def_prop_ro("messages", &BlockRing::messages, "Of the block that is sent next, or is under way.");
}

static const tidings::Structure structure{"block_ring", bind_block_ring};
