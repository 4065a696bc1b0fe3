package proxy

import (
	"fmt"
	"os"
	"syscall"
)

// ReservePort denies a free port of this machine's loopback before a program listens
// there, until release is called. Call release once. Until then the kernel assigns
// the port to no other program, but a program that knows the port can bind it.
func (p *EgressPolicy) ReservePort() (port int, release func(), err error) {
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("reserve a port: %w", os.NewSyscallError("socket", err))
	}
	if port, err = bindFreePort(socket); err != nil {
		_ = syscall.Close(socket)
		return 0, nil, fmt.Errorf("reserve a port: %w", err)
	}
	allow, err := p.DenyPort(port)
	if err != nil {
		_ = syscall.Close(socket)
		return 0, nil, fmt.Errorf("reserve a port: %w", err)
	}
	return port, func() {
		allow()
		_ = syscall.Close(socket)
	}, nil
}

// bindFreePort binds a socket with SO_REUSEADDR, so that another program can bind
// the port while the socket does not listen.
func bindFreePort(socket int) (port int, err error) {
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	name, err := syscall.Getsockname(socket)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	bound, ok := name.(*syscall.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("bound to a %T", name)
	}
	return bound.Port, nil
}
