package sandbox

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newSocket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// The Go runtime sends signals to its threads at any time.
func TestConnect_SurvivesSignals(t *testing.T) {
	server := newSocket(t)
	if err := unix.Bind(server, &unix.SockaddrInet4{Addr: loopback}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(server, 0); err != nil { // one connection can wait to be accepted
		t.Fatal(err)
	}
	address, err := unix.Getsockname(server)
	if err != nil {
		t.Fatal(err)
	}
	port := address.(*unix.SockaddrInet4).Port
	if err := connectBlocking(newSocket(t), port); err != nil {
		t.Fatal(err)
	}

	client := newSocket(t)
	if err := unix.SetsockoptTimeval(client, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: connectTimeout}); err != nil {
		t.Fatal(err)
	}
	thread, result := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		result <- connectBlocking(client, port) // blocks until the first connection is accepted
	}()
	tid := <-thread
	for range 200 {
		_ = unix.Tgkill(unix.Getpid(), tid, unix.SIGURG)
		time.Sleep(time.Millisecond)
	}
	accepted, _, err := unix.Accept(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(accepted) })
	if err := <-result; err != nil {
		t.Errorf("connect: %v", err)
	}
}
