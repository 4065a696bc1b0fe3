package proxy

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
)

const (
	socksVersion         = 5 // RFC 1928
	methodNoAuth         = 0
	methodPassword       = 2
	methodNoneAcceptable = 0xff
	commandConnect       = 1
	addressIPv4          = 1
	addressName          = 3
	addressIPv6          = 4

	passwordVersion = 1 // RFC 1929
)

var socksReplies = [...]string{1: "general failure", "not allowed by its rules", "network unreachable", "host unreachable",
	"connection refused", "TTL expired", "command not supported", "address type not supported"}

// connectSOCKS requests a connection to target (host:port). Names are resolved by
// the proxy.
func (u *upstream) connectSOCKS(c io.ReadWriter, target string) error {
	destination, err := socksAddress(target)
	if err != nil {
		return err
	}
	if err := u.authenticateSOCKS(c); err != nil {
		return fmt.Errorf("SOCKS: %w", err)
	}
	if _, err := c.Write(append([]byte{socksVersion, commandConnect, 0}, destination...)); err != nil {
		return fmt.Errorf("SOCKS: %w", err)
	}
	// Version, reply, reserved, type of address, and its first byte: a name's length.
	var answer [5]byte
	if _, err := io.ReadFull(c, answer[:4]); err != nil {
		return fmt.Errorf("SOCKS: %w", err)
	}
	if answer[0] != socksVersion {
		return fmt.Errorf("SOCKS: version %d in the answer", answer[0])
	}
	if code := int(answer[1]); code != 0 {
		text := "SOCKS error " + strconv.Itoa(code)
		if code < len(socksReplies) {
			text += ", " + socksReplies[code]
		}
		return &refusedError{text}
	}
	if _, err := io.ReadFull(c, answer[4:]); err != nil {
		return fmt.Errorf("SOCKS: %w", err)
	}
	rest, ok := map[byte]int64{addressIPv4: 3, addressIPv6: 15, addressName: int64(answer[4])}[answer[3]]
	if !ok {
		return fmt.Errorf("SOCKS: address type %d in the answer", answer[3])
	}
	if _, err := io.CopyN(io.Discard, c, rest+2); err != nil { // the bound address and port are not needed
		return fmt.Errorf("SOCKS: %w", err)
	}
	return nil
}

func (u *upstream) authenticateSOCKS(c io.ReadWriter) error {
	methods := []byte{methodNoAuth}
	if u.username != "" {
		methods = []byte{methodNoAuth, methodPassword}
	}
	answer, err := roundTrip(c, append([]byte{socksVersion, byte(len(methods))}, methods...))
	if err != nil {
		return err
	}
	switch {
	case answer[0] != socksVersion:
		return fmt.Errorf("version %d in the answer", answer[0])
	case answer[1] == methodNoAuth:
		return nil
	case answer[1] == methodNoneAcceptable:
		return fmt.Errorf("%w: the proxy requires another authentication method", ErrCredentials)
	case answer[1] != methodPassword || u.username == "":
		return fmt.Errorf("the proxy chose method %d, which was not offered", answer[1])
	}
	login := append([]byte{passwordVersion, byte(len(u.username))}, u.username...)
	login = append(append(login, byte(len(u.password))), u.password...)
	if answer, err = roundTrip(c, login); err != nil {
		return err
	}
	if answer[1] != 0 {
		return ErrCredentials
	}
	return nil
}

// roundTrip sends a message and reads a two-byte answer.
func roundTrip(c io.ReadWriter, message []byte) (answer [2]byte, err error) {
	if _, err = c.Write(message); err != nil {
		return answer, err
	}
	_, err = io.ReadFull(c, answer[:])
	return answer, err
}

// socksAddress encodes target as type, address and port.
func socksAddress(target string) ([]byte, error) {
	host, service, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port: %w", err)
	}
	var out []byte
	if ip, err := netip.ParseAddr(host); err != nil {
		if len(host) > 255 {
			return nil, fmt.Errorf("the host name has %d bytes; the maximum is 255", len(host))
		}
		out = append([]byte{addressName, byte(len(host))}, host...)
	} else if ip = ip.Unmap(); ip.Is4() {
		out = append([]byte{addressIPv4}, ip.AsSlice()...)
	} else {
		out = append([]byte{addressIPv6}, ip.AsSlice()...)
	}
	return append(out, byte(port>>8), byte(port)), nil
}
