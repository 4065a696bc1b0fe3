package proxy_test

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
)

// resolver returns a resolver for these names (with a trailing dot) and their
// comma-separated addresses.
func resolver(t *testing.T, names map[string]string) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			for answerName(server, names) == nil {
			}
		}()
		return client, nil
	}}
}

// startWithResolver starts a Forwarder with a resolver.
func startWithResolver(t *testing.T, policy *proxy.EgressPolicy, by *net.Resolver) (*proxy.Forwarder, *testenv.Log) {
	t.Helper()
	log := &testenv.Log{}
	f, err := proxy.StartWithResolver(policy, by, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f, log
}

// answerName answers one question as a name server does over TCP (RFC 1035, 4).
func answerName(c io.ReadWriter, names map[string]string) error {
	const header, response, unknown, internet = 12, 0x8180, 3, 1
	length := make([]byte, 2)
	if _, err := io.ReadFull(c, length); err != nil {
		return err
	}
	message := make([]byte, binary.BigEndian.Uint16(length))
	if _, err := io.ReadFull(c, message); err != nil {
		return err
	}
	var name strings.Builder
	end := header
	for message[end] != 0 {
		name.WriteString(string(message[end+1:end+1+int(message[end])]) + ".")
		end += 1 + int(message[end])
	}
	kind := binary.BigEndian.Uint16(message[end+1:])
	question := message[header : end+5]
	list, known := names[strings.ToLower(name.String())]
	flags, found, records := uint16(response), uint16(0), []byte{}
	if !known {
		flags |= unknown
	}
	for address := range strings.SplitSeq(list, ",") {
		a, err := netip.ParseAddr(address)
		if err != nil || a.Is4() != (kind == 1) {
			continue
		}
		found++
		records = append(records, 0xc0, header, byte(kind>>8), byte(kind), 0, internet, 0, 0, 0, 1, 0, byte(a.BitLen()/8))
		records = append(records, a.AsSlice()...)
	}
	answer := append([]byte{}, message[:2]...)
	for _, n := range []uint16{flags, 1, found, 0, 0} {
		answer = binary.BigEndian.AppendUint16(answer, n)
	}
	answer = append(append(answer, question...), records...)
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	return err
}
