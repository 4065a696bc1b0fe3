package rfb

import (
	"bytes"
	"context"
	"crypto/des" //nolint:gosec // what VNC authentication is made of
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"time"
)

const connectTimeout = 10 * time.Second

// Connect opens the VNC server that listens on a socket, and shares it with
// other clients. What it may do there is decided by which of the server's
// passwords it is given. The context bounds the handshake only.
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

// clientHandshake is a client's of version 3.8; it returns the ServerInit.
func clientHandshake(conn io.ReadWriter, password string) ([]byte, error) {
	version := make([]byte, len(protocolVersion))
	if _, err := io.ReadFull(conn, version); err != nil {
		return nil, err
	}
	if string(version) != protocolVersion {
		return nil, fmt.Errorf("the server speaks %q", version)
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
		return fmt.Errorf("the server offers security types %v, not VNC authentication", types)
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

// readRefusal reads why the server refuses.
func readRefusal(r io.Reader) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return errors.New("the server refuses")
	}
	reason, _ := io.ReadAll(io.LimitReader(r, int64(min(binary.BigEndian.Uint32(length[:]), maxName))))
	return fmt.Errorf("the server refuses: %q", reason)
}

// encryptChallenge encrypts the challenge with the password. VNC authentication is
// defined with DES and keys whose bytes are read backwards (RFC 6143, 7.2.2).
// Weak as that is, it guards nothing alone: the socket is closed to all but
// the worker and the browser's own user.
func encryptChallenge(challenge []byte, password string) ([]byte, error) {
	key := make([]byte, 8)
	copy(key, password)
	for i, b := range key {
		key[i] = bits.Reverse8(b)
	}
	block, err := des.NewCipher(key) //nolint:gosec // the protocol's choice
	if err != nil {
		return nil, err
	}
	out := make([]byte, len(challenge))
	for i := 0; i+des.BlockSize <= len(challenge); i += des.BlockSize {
		block.Encrypt(out[i:], challenge[i:])
	}
	return out, nil
}
