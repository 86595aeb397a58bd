// The load generator of the lab's calibration: publishes ready-made messages, one a send, and counts what a subscriber
// gets of them. A client written in Python takes longer over a message than the broker does, and then measures itself.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "structure.hpp"
#include "tidings/support/error.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace tidings;

namespace {

constexpr size_t buffer_bytes = 1 << 18;
constexpr int sends_a_turn = 16;  // before it reads what has come
constexpr size_t stamp_digits = 16;
constexpr double spin_s = 100e-6;  // before a message is due: timers are not finer

double now_s() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A socket's epoll set, closed with its owner.
class Readiness {
public:
    Readiness() : set_(::epoll_create1(EPOLL_CLOEXEC)) {
        if (set_ < 0) throw UsageError{"E_LAB_SOCKETS", "epoll_create1 failed: no more files may be opened"};
    }
    Readiness(const Readiness&) = delete;
    Readiness& operator=(const Readiness&) = delete;
    ~Readiness() { ::close(set_); }

    void watch(int operation, int socket, uint32_t index, bool writable) {
        epoll_event event{};
        event.events = EPOLLIN | (writable ? uint32_t{EPOLLOUT} : 0U);
        event.data.u32 = index;
        if (::epoll_ctl(set_, operation, socket, &event) != 0)
            throw UsageError{"E_LAB_SOCKETS", "a socket of the load generator is not open"};
    }

    int wait(std::vector<epoll_event>& events, int milliseconds) {
        return std::max(0, ::epoll_wait(set_, events.data(), static_cast<int>(events.size()), milliseconds));
    }

private:
    int set_;
};

class LoadPump {
public:
    // Publishers, then the probe, then the other subscribers.
    LoadPump(std::vector<int> publishers, int probe, const std::vector<int>& others, std::vector<std::string> frames,
             std::string mark, int64_t number_at, int64_t stamp_at, uint64_t seed)
        : sockets_(std::move(publishers)),
          publishers_(sockets_.size()),
          frames_(std::move(frames)),
          mark_(std::move(mark)),
          number_at_(number_at),
          stamp_at_(stamp_at),
          pending_(publishers_),
          turns_(publishers_),
          events_(publishers_ + 1 + others.size()),
          buffer_(buffer_bytes),
          random_(seed) {
        if (publishers_ == 0 || frames_.empty() || mark_.empty())
            throw UsageError{"E_LAB_LOAD", "a load needs publishers, messages and what marks them"};
        for (const std::string& one : frames_) {
            check_room(one, number_at_, 4);
            check_room(one, stamp_at_, static_cast<int64_t>(stamp_digits));
        }
        sockets_.push_back(probe);
        sockets_.insert(sockets_.end(), others.begin(), others.end());
        for (size_t i = 0; i < sockets_.size(); ++i)
            readiness_.watch(EPOLL_CTL_ADD, sockets_[i], static_cast<uint32_t>(i), false);
    }

    // Until `seconds` are over and `least` messages sent: with `in_flight` on their way, or, if there is a rate, as a
    // Poisson process; then no publisher waits for another's messages.
    void run(double seconds, uint64_t in_flight, double rate, uint64_t least) {
        const double end = now_s() + seconds;
        const uint64_t target = sent + least;
        std::exponential_distribution<double> gap(rate > 0 ? rate : 1.0);
        double due = now_s() + (rate > 0 ? gap(random_) : 0);
        for (double now = now_s(); now < end || sent < target; now = now_s()) {
            bool blocked = false;
            for (int i = 0; i < sends_a_turn && !blocked; ++i) {
                if (rate > 0 ? due > now : sent - arrived >= in_flight) break;
                blocked = !publish();
                if (!blocked && rate > 0) due += gap(random_);
            }
            if (blocked && rate > 0) due = std::max(due, now);  // a publisher that waits makes up for nothing
            serve(waiting_ms(blocked, rate > 0 ? due - now : (sent - arrived >= in_flight ? 1.0 : 0.0)));
        }
    }

    // Until everything has arrived; false: nothing came for `patience` seconds.
    bool drain(double patience) {
        double last = now_s();
        for (uint64_t known = arrived; arrived < sent || held() > 0;) {
            serve(50);
            if (arrived != known) {
                known = arrived;
                last = now_s();
            } else if (now_s() - last > patience) {
                return false;
            }
        }
        return true;
    }

    uint64_t sent = 0, arrived = 0;
    std::vector<double> latencies;  // of stamped messages, from before the send

private:
    static void check_room(const std::string& frame, int64_t at, int64_t size) {
        if (at >= 0 && at + size > static_cast<int64_t>(frame.size()))
            throw UsageError{"E_LAB_LOAD", "a message is shorter than what is to be put into it"};
    }

    static int waiting_ms(bool blocked, double left_s) {
        if (blocked) return 50;
        return left_s > spin_s ? std::min(50, static_cast<int>((left_s - spin_s) * 1000)) : 0;
    }

    size_t held() const {
        return static_cast<size_t>(std::ranges::count_if(pending_, [](const auto& one) { return !one.empty(); }));
    }

    // One message of the next publisher that waits for nothing; false: all wait.
    bool publish() {
        size_t tried = 0;
        while (!pending_[next_].empty()) {
            if (++tried == publishers_) return false;
            next_ = (next_ + 1) % publishers_;
        }
        std::string& frame = frames_[random_() % frames_.size()];
        if (number_at_ >= 0) put_number(frame, turns_[next_]);
        if (stamp_at_ >= 0) put_stamp(frame);
        ++turns_[next_];
        ++sent;
        write(next_, frame);
        next_ = (next_ + 1) % publishers_;
        return true;
    }

    void put_number(std::string& frame, uint32_t number) const {
        for (int i = 0; i < 4; ++i)
            frame[static_cast<size_t>(number_at_ + i)] = static_cast<char>(number >> (24 - 8 * i));
    }

    void put_stamp(std::string& frame) const {
        static constexpr char digits[] = "0123456789abcdef";
        auto stamp = static_cast<uint64_t>(now_s() * 1e9);
        for (size_t i = stamp_digits; i-- > 0; stamp >>= 4)
            frame[static_cast<size_t>(stamp_at_) + i] = digits[stamp & 15];
    }

    // Keeps what the socket does not take.
    void write(size_t publisher, const std::string& data) {
        const ssize_t taken = ::send(sockets_[publisher], data.data(), data.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (taken < 0 && errno != EAGAIN && errno != EINTR) gone();
        const size_t done = taken < 0 ? 0 : static_cast<size_t>(taken);
        if (done == data.size()) return;
        pending_[publisher] = data.substr(done);
        readiness_.watch(EPOLL_CTL_MOD, sockets_[publisher], static_cast<uint32_t>(publisher), true);
    }

    void go_on(size_t publisher) {
        const std::string rest = std::move(pending_[publisher]);
        pending_[publisher].clear();
        write(publisher, rest);
        if (pending_[publisher].empty())
            readiness_.watch(EPOLL_CTL_MOD, sockets_[publisher], static_cast<uint32_t>(publisher), false);
    }

    void serve(int milliseconds) {
        const int ready = readiness_.wait(events_, milliseconds);
        for (int i = 0; i < ready; ++i) {
            const auto [flags, data] = events_[static_cast<size_t>(i)];
            const size_t place = data.u32;
            if ((flags & EPOLLOUT) != 0 && place < publishers_ && !pending_[place].empty()) go_on(place);
            if ((flags & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read(place);
        }
    }

    void read(size_t place) {
        const size_t kept = place == publishers_ ? kept_ : 0;
        const ssize_t size = ::recv(sockets_[place], buffer_.data() + kept, buffer_.size() - kept, MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (size <= 0) gone();
        if (place == publishers_) count(kept + static_cast<size_t>(size));
    }

    // The marks in the buffer; what may be the beginning of one is kept for the next read.
    void count(size_t size) {
        const size_t whole = mark_.size() + (stamp_at_ >= 0 ? stamp_digits : 0);
        const double now = stamp_at_ >= 0 ? now_s() : 0;
        const char *place = buffer_.data(), *const end = buffer_.data() + size;
        while (const void* hit = ::memmem(place, static_cast<size_t>(end - place), mark_.data(), mark_.size())) {
            const char* at = static_cast<const char*>(hit);
            if (static_cast<size_t>(end - at) < whole) break;
            ++arrived;
            if (stamp_at_ >= 0) add_latency(at + mark_.size(), now);
            place = at + whole;
        }
        kept_ = std::min(static_cast<size_t>(end - place), whole - 1);
        std::memmove(buffer_.data(), end - kept_, kept_);
    }

    void add_latency(const char* digits, double now) {
        uint64_t stamp = 0;
        std::from_chars(digits, digits + stamp_digits, stamp, 16);
        latencies.push_back(now - static_cast<double>(stamp) * 1e-9);
    }

    [[noreturn]] static void gone() {
        throw UsageError{"E_LAB_REFUSED", "the broker closed a connection of the load generator"};
    }

    std::vector<int> sockets_;
    size_t publishers_;
    std::vector<std::string> frames_;
    std::string mark_;
    int64_t number_at_, stamp_at_;
    std::vector<std::string> pending_;  // by publisher: what its socket did not take
    std::vector<uint32_t> turns_;       // messages by publisher
    std::vector<epoll_event> events_;
    std::vector<char> buffer_;
    std::mt19937_64 random_;
    Readiness readiness_;
    size_t next_ = 0, kept_ = 0;
};

std::vector<std::string> texts(const std::vector<nb::bytes>& frames) {
    std::vector<std::string> found;
    for (const nb::bytes& one : frames) found.emplace_back(one.c_str(), one.size());
    return found;
}

}  // namespace

static void bind_load_pump(nb::module_& m) {
    nb::class_<LoadPump>(m, "LoadPump",
                         "Publishes ready-made messages, one a send, and counts those that a subscriber gets.")
        .def(
            "__init__",
            [](LoadPump* self, std::vector<int> publishers, int probe, const std::vector<int>& others,
               const std::vector<nb::bytes>& frames, const nb::bytes& mark, int64_t number_at, int64_t stamp_at,
               uint64_t seed) {
                new (self) LoadPump(std::move(publishers), probe, others, texts(frames),
                                    std::string(mark.c_str(), mark.size()), number_at, stamp_at, seed);
            },
            "publishers"_a, "probe"_a, "others"_a, "frames"_a, "mark"_a, nb::kw_only(), "number_at"_a = -1,
            "stamp_at"_a = -1, "seed"_a = 0)
        .def("run", &LoadPump::run, "seconds"_a, "in_flight"_a, "rate"_a, "least"_a = 0,
             nb::call_guard<nb::gil_scoped_release>(),
             "Until the time is over and `least` more are sent: with `in_flight` on their way, or, if there is a rate, "
             "as a Poisson process.")
        .def("drain", &LoadPump::drain, "patience"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Until everything has arrived; False: nothing came for `patience` seconds.")
        .def_ro("sent", &LoadPump::sent)
        .def_ro("arrived", &LoadPump::arrived)
        .def(
            "take_latencies", [](LoadPump& self) { return std::exchange(self.latencies, {}); },
            "Seconds from before the send to the read of each stamped message that arrived since the last call.");
}

static const tidings::Structure structure{"load_pump", bind_load_pump};
