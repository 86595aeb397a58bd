// The structures that the extension consists of. Each binding file registers its own and nothing else names it, so a
// new one is a new file: CMake takes every file of this folder.
#pragma once
#include <nanobind/nanobind.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace tidings {

class Structure {
public:
    using Bind = void (*)(nanobind::module_&);

    Structure(std::string_view name, Bind bind) { all().emplace_back(name, bind); }

    // In the order of their names, whatever the linker did.
    static void bind_all(nanobind::module_& m) {
        std::ranges::sort(all(), {}, &Entry::first);
        for (const auto& [name, bind] : all()) bind(m);
    }

private:
    using Entry = std::pair<std::string_view, Bind>;

    static std::vector<Entry>& all() {
        static std::vector<Entry> structures;
        return structures;
    }
};

}  // namespace tidings
