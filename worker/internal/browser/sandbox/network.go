package sandbox

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// MaxConnections limits the connections of clients to one browser, at once.
	MaxConnections = 64

	// socketCount is the number of sockets into a sandbox. Those above MaxConnections are
	// for the worker's own connections.
	socketCount = MaxConnections + 16

	backlog = 512 // of connections to the proxy
)

var (
	loopback = [4]byte{127, 0, 0, 1}
	// placeholderAddress is the address of a sandbox, from the documentation range (RFC 5737). It
	// has no route to other hosts.
	placeholderAddress = net.IPNet{IP: net.IPv4(192, 0, 2, 2), Mask: net.CIDRMask(32, 32)}
)

// setupNetwork brings up the loopback interface and a pair of connected links. Without a
// link, Chromium reports that it is offline.
func setupNetwork() error {
	links := netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}
	if err := netlink.LinkAdd(&links); err != nil {
		return &pieceError{NetworkNamespace, fmt.Errorf("create veth pair: %w", err)}
	}
	if err := netlink.AddrAdd(&links, &netlink.Addr{IPNet: &placeholderAddress}); err != nil {
		return &pieceError{NetworkNamespace, fmt.Errorf("set address of eth0: %w", err)}
	}
	for _, name := range []string{"lo", "eth0", "eth1"} {
		if err := bringUp(name); err != nil {
			return &pieceError{NetworkNamespace, fmt.Errorf("bring up %s: %w", name, err)}
		}
	}
	return nil
}

// noAddress is the mode in which the kernel gives a link no IPv6 address. Otherwise one
// appears up to a second after the link is up, and Chromium, which takes this for a change
// of the network, ends its requests.
const noAddress = 1

// bringUp brings a link up.
func bringUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if name != "lo" {
		err := netlink.LinkSetIP6AddrGenMode(link, noAddress)
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) { // IPv6 is disabled
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

// createSockets creates the sockets that the worker uses in the sandbox's
// network: one to listen where the browser expects its proxy, the others to
// connect to the browser.
func createSockets() (sockets []int, err error) {
	for range 1 + socketCount {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, &pieceError{NetworkNamespace, os.NewSyscallError("socket", err)}
		}
		sockets = append(sockets, socket)
	}
	return sockets, nil
}

// listenForProxy makes a socket listen where the browser expects its proxy, and at all
// other addresses of the sandbox: a browser context with a proxy of its own has its own
// address.
func listenForProxy(socket, port int) error {
	err := unix.Bind(socket, &unix.SockaddrInet4{Port: port})
	if err == nil {
		err = unix.Listen(socket, backlog)
	}
	if err != nil {
		return &pieceError{NetworkNamespace, fmt.Errorf("listen on the proxy address: %w", err)}
	}
	return nil
}
