// Package peeruser finds the local user at the other end of a loopback connection.
package peeruser

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// Unknown is the user of a peer that cannot be determined.
const Unknown = -1

// Of returns the user that owns the other end of an established IPv4 connection
// between two sockets of this network namespace, from the kernel's socket table.
// For a peer that is not in the table, such as one in another network namespace
// or on another machine, it returns Unknown and an error.
func Of(c net.Conn) (uid int, err error) {
	const local, remote, state, user = 1, 2, 3, 7 // columns
	const established = "01"                      // later states may belong to no process and then show user 0
	peer, own := addrPort(c.RemoteAddr()), addrPort(c.LocalAddr())
	if !peer.Addr().Is4() || !own.Addr().Is4() {
		return Unknown, fmt.Errorf("%v is not an IPv4 address", c.RemoteAddr())
	}
	table, err := os.Open("/proc/net/tcp")
	if err != nil {
		return Unknown, err
	}
	defer table.Close()
	peerCell, ownCell := cell(peer), cell(own)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		cells := strings.Fields(lines.Text())
		if len(cells) > user && cells[local] == peerCell && cells[remote] == ownCell && cells[state] == established {
			return strconv.Atoi(cells[user])
		}
	}
	if err := lines.Err(); err != nil {
		return Unknown, err
	}
	return Unknown, errors.New("the connection is not in this machine's socket table")
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// cell formats an IPv4 address like the kernel's table.
func cell(a netip.AddrPort) string {
	ip := a.Addr().As4()
	return fmt.Sprintf("%08X:%04X", binary.NativeEndian.Uint32(ip[:]), a.Port())
}
