// Loaded before the C library (LD_PRELOAD), this notes what a process writes to the files of one directory and what it
// syncs, in order, so that the disk after a power failure at any instant can be made from it:
// `hardening.kills.power_loss`.
//
//   DISK_LOG_DIR   the directory;  DISK_LOG   the file to note it in
//
// A note: u32 kind, u32 file, u64 offset, u64 length, and for names and writes `length` bytes.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

enum Kind : uint32_t { name = 0, written = 1, truncated = 2, synced = 3, removed = 4 };

template <class F>
F original(const char* symbol) {
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, symbol));
}

struct Log {
    std::mutex mutex;
    std::string directory;
    int out = -1;
    std::map<std::string, uint32_t> files;
    std::map<int, std::string> open;

    Log() {
        const char* where = std::getenv("DISK_LOG_DIR");
        const char* log = std::getenv("DISK_LOG");
        if (!where || !log) return;
        directory = where;
        out = ::open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }

    void put(Kind kind, uint32_t file, uint64_t offset, const void* data, uint64_t length, uint64_t stored) {
        static const auto write_now = original<ssize_t (*)(int, const void*, size_t)>("write");
        struct {
            uint32_t kind, file;
            uint64_t offset, length;
        } head{kind, file, offset, length};
        std::string note(reinterpret_cast<const char*>(&head), sizeof head);
        note.append(static_cast<const char*>(data ? data : ""), stored);
        (void)!write_now(out, note.data(), note.size());
    }

    uint32_t number(const std::string& path) {
        auto [place, fresh] = files.try_emplace(path, static_cast<uint32_t>(files.size()));
        if (fresh) put(name, place->second, 0, path.data(), path.size(), path.size());
        return place->second;
    }

    // The file behind a descriptor, if it is one of ours.
    const std::string* of(int fd) {
        if (out < 0 || fd == out) return nullptr;
        auto known = open.find(fd);
        if (known == open.end()) {
            char target[4096];
            const auto length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target);
            std::string path(target, length > 0 ? static_cast<size_t>(length) : 0);
            if (path.rfind(directory + "/", 0) != 0) path.clear();
            known = open.emplace(fd, path).first;
        }
        return known->second.empty() ? nullptr : &known->second;
    }

    void note(Kind kind, int fd, uint64_t offset, const void* data, ssize_t length) {
        const std::lock_guard lock(mutex);
        if (length < 0) return;
        if (const std::string* path = of(fd)) {
            const auto size = static_cast<uint64_t>(length);
            put(kind, number(*path), offset, data, size, data ? size : 0);
        }
    }
};

Log& log() {
    static Log* one = new Log;  // never ends: others write until the very end
    return *one;
}

}  // namespace

extern "C" {

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
    static const auto real = original<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
    const ssize_t done = real(fd, data, size, offset);
    log().note(written, fd, static_cast<uint64_t>(offset), data, done);
    return done;
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

ssize_t write(int fd, const void* data, size_t size) {
    static const auto real = original<ssize_t (*)(int, const void*, size_t)>("write");
    const off64_t offset = lseek64(fd, 0, SEEK_CUR);
    const ssize_t done = real(fd, data, size);
    if (offset >= 0) log().note(written, fd, static_cast<uint64_t>(offset), data, done);
    return done;
}

int ftruncate64(int fd, off64_t size) {
    static const auto real = original<int (*)(int, off64_t)>("ftruncate64");
    const int done = real(fd, size);
    if (done == 0) log().note(truncated, fd, static_cast<uint64_t>(size), nullptr, 0);
    return done;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fsync(int fd) {
    static const auto real = original<int (*)(int)>("fsync");
    const int done = real(fd);
    if (done == 0) log().note(synced, fd, 0, nullptr, 0);
    return done;
}

int fdatasync(int fd) {
    static const auto real = original<int (*)(int)>("fdatasync");
    const int done = real(fd);
    if (done == 0) log().note(synced, fd, 0, nullptr, 0);
    return done;
}

int close(int fd) {
    static const auto real = original<int (*)(int)>("close");
    {
        const std::lock_guard lock(log().mutex);
        log().open.erase(fd);
    }
    return real(fd);
}

int unlink(const char* path) {
    static const auto real = original<int (*)(const char*)>("unlink");
    const int done = real(path);
    const std::lock_guard lock(log().mutex);
    const std::string whole(path);
    if (done == 0 && log().out >= 0 && whole.rfind(log().directory + "/", 0) == 0)
        log().put(removed, log().number(whole), 0, nullptr, 0, 0);
    return done;
}
}
