package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	preflightTimeout = 5 * time.Second
	// preflightTarget exists nowhere (RFC 6761, 6.4): whatever a proxy answers,
	// it has read the credentials and visits nobody.
	preflightTarget = "preflight.invalid:443"
)

// Preflight asks whether the upstream is there and takes the credentials; it
// takes five seconds at most. Its errors are ErrCredentials or ErrUnreachable
// (silence and failures of TLS too), or context.Canceled when ctx was. A proxy
// that looks at credentials only after a destination was found passes.
func (f *Forwarder) Preflight(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	err := f.upstream.preflight(bounded)
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("preflight of the upstream proxy: %w", ctx.Err())
	case errors.Is(err, ErrCredentials), errors.Is(err, ErrUnreachable):
		return fmt.Errorf("preflight of the upstream proxy: %w", err)
	default:
		return fmt.Errorf("preflight of the upstream proxy: %w: %w", ErrUnreachable, err)
	}
}

func (u *upstream) preflight(ctx context.Context) error {
	greet := func(c duplex) (duplex, error) { return u.requestTunnel(c, preflightTarget, "") }
	if u.url.Scheme == "socks5" {
		greet = func(c duplex) (duplex, error) { return c, u.authenticateSOCKS(c) }
	}
	c, err := u.open(ctx, greet)
	if err == nil {
		return c.Close()
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}
