package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

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
	// placeholderAddress is the address of a sandbox, from the documentation range (RFC 5737).
	placeholderAddress = [4]byte{192, 0, 2, 2}
)

// setupNetwork brings up the loopback interface and a dummy link without a
// route. Without the link, Chromium reports that it is offline.
func setupNetwork() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return &pieceError{NetworkNamespace, os.NewSyscallError("socket", err)}
	}
	defer func() { _ = unix.Close(socket) }()
	for _, step := range []func() error{
		func() error { return bringUp(socket, "lo") },
		createVeth,
		func() error { return setAddress(socket, "eth0") },
		func() error { return bringUp(socket, "eth0") },
		func() error { return bringUp(socket, "eth1") },
	} {
		if err := step(); err != nil {
			return &pieceError{NetworkNamespace, err}
		}
	}
	return nil
}

// bringUp brings a link up.
func bringUp(socket int, name string) error {
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
	}
	if err != nil {
		return fmt.Errorf("bring up %s: %w", name, err)
	}
	return nil
}

// setAddress gives a link an address with no route to other hosts.
func setAddress(socket int, name string) error {
	for _, set := range []struct {
		request uint
		to      [4]byte
	}{{unix.SIOCSIFADDR, placeholderAddress}, {unix.SIOCSIFNETMASK, [4]byte{255, 255, 255, 255}}} {
		request, err := unix.NewIfreq(name)
		if err == nil {
			err = request.SetInet4Addr(set.to[:])
		}
		if err == nil {
			err = unix.IoctlIfreq(socket, set.request, request)
		}
		if err != nil {
			return fmt.Errorf("set address of %s: %w", name, err)
		}
	}
	return nil
}

// createVeth creates the veth pair eth0 and eth1, which every kernel that runs
// containers supports. IPv6 address generation is off: addresses would appear a
// second later, and Chromium cancels its requests when addresses change.
func createVeth() error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(socket) }()
	const peer, noAddress = 1, 1 // VETH_INFO_PEER, IN6_ADDR_GEN_MODE_NONE
	err = setLink(socket, unix.NLM_F_CREATE|unix.NLM_F_EXCL, "eth0", attribute(unix.IFLA_LINKINFO, concat(
		attribute(unix.IFLA_INFO_KIND, []byte("veth\x00")),
		attribute(unix.IFLA_INFO_DATA, attribute(peer, linkMessage("eth1"))),
	)))
	if err != nil {
		return fmt.Errorf("create veth pair: %w", err)
	}
	quiet := attribute(unix.IFLA_AF_SPEC, attribute(unix.AF_INET6, attribute(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{noAddress})))
	for _, name := range []string{"eth0", "eth1"} {
		err := setLink(socket, 0, name, quiet)
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) { // IPv6 is disabled
			return fmt.Errorf("set up %s: %w", name, err)
		}
	}
	return nil
}

// setLink creates or changes a link and waits for the kernel's acknowledgement.
func setLink(socket int, flags uint16, name string, attributes []byte) error {
	message := concat(linkMessage(name), attributes)
	header := make([]byte, unix.SizeofNlMsghdr)
	binary.NativeEndian.PutUint32(header, uint32(len(header)+len(message)))
	binary.NativeEndian.PutUint16(header[4:], unix.RTM_NEWLINK)
	binary.NativeEndian.PutUint16(header[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags)
	if err := unix.Sendto(socket, concat(header, message), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	switch {
	case err != nil:
		return os.NewSyscallError("recvfrom", err)
	case n < len(header)+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.NLMSG_ERROR:
		return errors.New("unexpected netlink response")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[len(header):])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// linkMessage returns the start of a netlink message about a link.
func linkMessage(name string) []byte {
	return concat(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_IFNAME, append([]byte(name), 0)))
}

// attribute returns a netlink attribute.
func attribute(kind uint16, value []byte) []byte {
	head := make([]byte, unix.SizeofRtAttr)
	binary.NativeEndian.PutUint16(head, uint16(len(head)+len(value)))
	binary.NativeEndian.PutUint16(head[2:], kind)
	return concat(head, value, make([]byte, -len(value)&(unix.RTA_ALIGNTO-1)))
}

func concat(parts ...[]byte) (joined []byte) {
	for _, part := range parts {
		joined = append(joined, part...)
	}
	return joined
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
