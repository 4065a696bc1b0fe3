package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	checkTimeout = 5 * time.Second
	// checkTarget exists nowhere (RFC 6761, 6.4): whatever a proxy answers,
	// it has read the credentials and visits nobody.
	checkTarget = "preflight.invalid:443"
)

// Check asks whether an upstream is there and takes the credentials; it takes
// five seconds at most. Its errors are ErrDenied, ErrCredentials or
// ErrUnreachable (silence and failures of TLS too), context.Canceled when ctx
// was, or that its description is not usable; none carries the credentials. A
// proxy that looks at credentials only after a destination was found passes.
func Check(ctx context.Context, to Upstream, wall *EgressPolicy) error {
	open := newConnSet(wall)
	defer open.close()
	up, err := newUpstream(to, open)
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
	greet := func(c duplex) (duplex, error) { return u.requestTunnel(c, checkTarget, "") }
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
