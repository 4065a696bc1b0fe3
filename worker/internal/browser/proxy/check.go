package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	checkTimeout = 5 * time.Second
	// checkTarget does not exist (RFC 6761, 6.4): the proxy checks the credentials but
	// connects to no host.
	checkTarget = "preflight.invalid:443"
)

// Check checks that an upstream is reachable and accepts the credentials, in at most
// five seconds. Errors: ErrDenied, ErrCredentials, ErrUnreachable (including
// timeouts and TLS failures), context.Canceled if ctx was canceled, or an invalid
// upstream. Errors never contain the credentials. A proxy that checks credentials
// only after it has found the destination passes.
func Check(ctx context.Context, settings Upstream, policy *EgressPolicy) error {
	open := newConnSet(policy)
	defer open.close()
	up, err := newUpstream(settings, open)
	if err != nil {
		return fmt.Errorf("check the upstream proxy: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err = up.check(bounded)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("check the upstream proxy: %w", ctx.Err())
	case errors.Is(err, ErrCredentials), errors.Is(err, ErrUnreachable):
		return fmt.Errorf("check the upstream proxy: %w", err)
	default:
		return fmt.Errorf("check the upstream proxy: %w: %w", ErrUnreachable, err)
	}
}

func (u *upstream) check(ctx context.Context) error {
	handshake := func(c duplex) (duplex, error) { return u.requestTunnel(c, checkTarget, nil) }
	if u.url.Scheme == "socks5" {
		handshake = func(c duplex) (duplex, error) { return c, u.authenticateSOCKS(c) }
	}
	c, err := u.open(ctx, handshake)
	if err == nil {
		return c.Close()
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}
