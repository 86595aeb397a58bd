// Asks the system when the oldest unread bytes of a socket arrived.
#pragma once
#include <sys/socket.h>
#include <sys/time.h>

#include <cstring>
#include <ctime>

namespace tidings {

inline bool note_arrivals(int socket) {
    const int on = 1;
    return ::setsockopt(socket, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) == 0;
}

// Seconds since the oldest unread bytes arrived; negative: there are none, or the system did not note it.
inline double waited_s(int socket) {
    char byte = 0;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
    iovec piece{&byte, 1};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    if (::recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT) <= 0) return -1;
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
        if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_TIMESTAMPNS) continue;
        timespec arrived{}, now{};
        std::memcpy(&arrived, CMSG_DATA(one), sizeof arrived);
        ::clock_gettime(CLOCK_REALTIME, &now);
        const double seconds = static_cast<double>(now.tv_sec - arrived.tv_sec) +
                               1e-9 * static_cast<double>(now.tv_nsec - arrived.tv_nsec);
        return seconds < 0 ? 0 : seconds;  // the clock was set back
    }
    return -1;
}

}  // namespace tidings
