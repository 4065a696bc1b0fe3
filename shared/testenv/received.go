package testenv

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// Received returns what has arrived at a TCP connection, without waiting, and whether the
// connection has ended.
func Received(t testing.TB, conn net.Conn) (received []byte, ended bool) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1<<20)
	err = raw.Control(func(fd uintptr) {
		for {
			n, _, err := unix.Recvfrom(int(fd), buffer, unix.MSG_DONTWAIT)
			received = append(received, buffer[:max(n, 0)]...)
			if n <= 0 {
				ended = !errors.Is(err, unix.EAGAIN)
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return received, ended
}
