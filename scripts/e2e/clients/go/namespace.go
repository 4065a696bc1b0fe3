package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// runInNamespace runs a command like on another machine, in the network namespace
// that the test started this process in. The only server there is the given address;
// its connections are forwarded to a Unix socket of the test.
func runInNamespace(address, socket string, command []string) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if err := addAddress(addr.Addr()); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go forward(listener, socket)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// addAddress starts the loopback interface and gives it another address.
func addAddress(address netip.Addr) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(socket) }()
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, up); err != nil {
		return fmt.Errorf("start the loopback interface: %w", err)
	}
	own, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := own.SetInet4Addr(address.AsSlice()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, own); err != nil {
		return fmt.Errorf("add the address %s: %w", address, err)
	}
	return nil
}

// forward connects clients to the Unix socket until the process ends.
func forward(listener net.Listener, socket string) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		go func() {
			defer func() { _ = client.Close() }()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			server, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
			if err != nil {
				return
			}
			defer func() { _ = server.Close() }()
			ended := make(chan struct{}, 2)
			for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					ended <- struct{}{}
				}()
			}
			<-ended
		}()
	}
}
