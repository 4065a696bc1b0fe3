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

// Workers announce ports to other workers on the same machine with Unix sockets in the
// abstract namespace. Every user of the network namespace sees these names, and the
// kernel removes them when the process ends. A foreign process that binds such a name
// can only deny browsers a port, never allow one. Names contain a random part.
const (
	launchPortPrefix = "@svc-worker/launch-port/" // of browsers and Forwarders
	apiPortPrefix    = "@svc-worker/api-port/"    // of the workers' APIs
)

// announce announces a port until withdraw is called. Call withdraw once.
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

// isAnnounced reports whether a worker of this machine has announced the port as one
// of the kinds. It returns true if that cannot be determined.
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
