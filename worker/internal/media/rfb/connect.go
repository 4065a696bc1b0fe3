package rfb

import (
	"bytes"
	"context"
	"crypto/des" //nolint:gosec // required by VNC authentication
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"time"
)

const connectTimeout = 10 * time.Second

// Connect connects to the VNC server on a socket, shared with other clients. The
// password determines the access. ctx bounds only the handshake.
func Connect(ctx context.Context, socket, password string) (*Upstream, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to the display: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	init, err := clientHandshake(conn, password)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to the display: %w", err)
	}
	return &Upstream{conn: conn, init: init}, nil
}

// clientHandshake performs the client's handshake of version 3.8 and returns the ServerInit message.
func clientHandshake(conn io.ReadWriter, password string) ([]byte, error) {
	version := make([]byte, len(protocolVersion))
	if _, err := io.ReadFull(conn, version); err != nil {
		return nil, err
	}
	if string(version) != protocolVersion {
		return nil, fmt.Errorf("the server has the unsupported protocol version %q", version)
	}
	if _, err := conn.Write(version); err != nil {
		return nil, err
	}
	if err := authenticate(conn, password); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{1}); err != nil { // ClientInit: shared
		return nil, err
	}
	return readInit(conn)
}

func authenticate(conn io.ReadWriter, password string) error {
	count := make([]byte, 1)
	if _, err := io.ReadFull(conn, count); err != nil {
		return err
	}
	if count[0] == 0 {
		return readRefusal(conn)
	}
	types := make([]byte, count[0])
	if _, err := io.ReadFull(conn, types); err != nil {
		return err
	}
	if !bytes.Contains(types, []byte{securityVNC}) {
		return fmt.Errorf("the server does not offer VNC authentication, only security types %v", types)
	}
	if _, err := conn.Write([]byte{securityVNC}); err != nil {
		return err
	}
	challenge := make([]byte, 2*des.BlockSize)
	if _, err := io.ReadFull(conn, challenge); err != nil {
		return err
	}
	response, err := encryptChallenge(challenge, password)
	if err != nil {
		return err
	}
	if _, err := conn.Write(response); err != nil {
		return err
	}
	var result [4]byte
	if _, err := io.ReadFull(conn, result[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(result[:]) != 0 {
		return readRefusal(conn)
	}
	return nil
}

// readRefusal reads the server's reason for a refusal.
func readRefusal(r io.Reader) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return errors.New("the server refused the connection")
	}
	reason, _ := io.ReadAll(io.LimitReader(r, int64(min(binary.BigEndian.Uint32(length[:]), maxName))))
	return fmt.Errorf("the server refused the connection: %q", reason)
}

// encryptChallenge encrypts the challenge with the password. VNC authentication uses
// DES with keys whose bits are reversed in each byte (RFC 6143, 7.2.2). This is weak,
// but only the worker and the browser's user can connect to the socket.
func encryptChallenge(challenge []byte, password string) ([]byte, error) {
	key := make([]byte, 8)
	copy(key, password)
	for i, b := range key {
		key[i] = bits.Reverse8(b)
	}
	block, err := des.NewCipher(key) //nolint:gosec // required by the protocol
	if err != nil {
		return nil, err
	}
	out := make([]byte, len(challenge))
	for i := 0; i+des.BlockSize <= len(challenge); i += des.BlockSize {
		block.Encrypt(out[i:], challenge[i:])
	}
	return out, nil
}
