package proxy

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Ports of workers are announced to the other workers of the machine by names
// of Unix sockets in the abstract namespace. Like a port of the loopback, such a
// name is seen by every user of the network namespace and of no other, and the
// kernel takes it back when its process ends, however it ends. Whoever else binds
// such a name denies browsers a port and can open none: names hold a random part.
const (
	launchPortPrefix = "@svc-worker/launch-port/" // slots browsers and Forwarders
	apiPortPrefix    = "@svc-worker/api-port/"    // slots workers themselves
)

// announce makes a port known until the returned function is called, which is
// to be called once.
func announce(kind string, port uint16) (withdraw func(), err error) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("announce a port: %w", os.NewSyscallError("socket", err))
	}
	name := kind + strconv.Itoa(int(port)) + "/" + rand.Text()
	if err := unix.Bind(socket, &unix.SockaddrUnix{Name: name}); err != nil {
		_ = unix.Close(socket)
		return nil, fmt.Errorf("announce a port: %w", os.NewSyscallError("bind", err))
	}
	return func() { _ = unix.Close(socket) }, nil
}

// isAnnounced reports whether a worker of this machine has announced the port as
// one of these kinds. Where that can't be told, each port counts as announced.
func isAnnounced(port uint16, kinds ...string) bool {
	table, err := os.Open("/proc/net/unix")
	if err != nil {
		return true
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		for _, kind := range kinds {
			if strings.Contains(lines.Text(), kind+strconv.Itoa(int(port))+"/") {
				return true
			}
		}
	}
	return lines.Err() != nil
}
