package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

const (
	maxConnections = 64  // into a room, at once
	backlog        = 512 // maxConnections to the proxy that wait to be accepted
)

var (
	loopback = [4]byte{127, 0, 0, 1}
	// placeholderAddress is the room's address, one of those for examples (RFC 5737).
	placeholderAddress = [4]byte{192, 0, 2, 2}
)

// setupNetwork brings up the network that this process was started in: the
// loopback, and a link that leads nowhere, without which pages would be told
// that they are offline.
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

// bringUp switches a link on.
func bringUp(socket int, name string) error {
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request)
	}
	if err != nil {
		return fmt.Errorf("switch %s on: %w", name, err)
	}
	return nil
}

// setAddress gives a link an address, and with it a route to nobody else.
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
			return fmt.Errorf("address of %s: %w", name, err)
		}
	}
	return nil
}

// createVeth makes eth0 and eth1, the two ends of one link: what every kernel has
// that runs containers. They make no addresses of version 6 for themselves, which
// would be there a second later only: a browser that sees its addresses change
// breaks off what it is loading.
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
		return fmt.Errorf("make a link: %w", err)
	}
	quiet := attribute(unix.IFLA_AF_SPEC, attribute(unix.AF_INET6, attribute(unix.IFLA_INET6_ADDR_GEN_MODE, []byte{noAddress})))
	for _, name := range []string{"eth0", "eth1"} {
		err := setLink(socket, 0, name, quiet)
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) { // there is no version 6
			return fmt.Errorf("set up %s: %w", name, err)
		}
	}
	return nil
}

// setLink makes a link, or changes it, and waits for the kernel's word.
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
		return errors.New("the kernel's answer is not understood")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[len(header):])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// linkMessage begins a message about a link.
func linkMessage(name string) []byte {
	return concat(make([]byte, unix.SizeofIfInfomsg), attribute(unix.IFLA_IFNAME, append([]byte(name), 0)))
}

// attribute is one of a netlink message.
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

// createSockets makes what the worker has of the room's network: a socket to
// listen where the browser looks for its proxy, and those to connect to the
// browser with.
func createSockets() (sockets []int, err error) {
	for range 1 + maxConnections {
		socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, &pieceError{NetworkNamespace, os.NewSyscallError("socket", err)}
		}
		sockets = append(sockets, socket)
	}
	return sockets, nil
}

// listenForProxy has a socket listen where the browser looks for its proxy.
func listenForProxy(socket, port int) error {
	err := unix.Bind(socket, &unix.SockaddrInet4{Addr: loopback, Port: port})
	if err == nil {
		err = unix.Listen(socket, backlog)
	}
	if err != nil {
		return &pieceError{NetworkNamespace, fmt.Errorf("the proxy's address: %w", err)}
	}
	return nil
}
