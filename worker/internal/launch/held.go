package launch

import (
	"context"
	"fmt"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// held is what a launch holds until its end.
type held struct {
	data    Kept // of a profile that keeps its own; nil for none
	way     Way
	proxied bool // the way leads to a proxy
}

// furnish gives a launch what is held for it until its end: the data of a profile
// that keeps its own, and a way out, which leads to the proxy if there
// is one. After an error nothing is held.
func (s *Service) furnish(ctx context.Context, profile Profile, proxy *Proxy, field string, spec *browser.Spec) (h held, err error) {
	defer func() {
		if err != nil {
			h.release()
			h = held{}
		}
	}()
	if profile.Persist {
		if h.data, err = s.Data.Claim(ctx, profile.ID); err != nil {
			return h, err
		}
		spec.Data = h.data
	}
	if h.way, err = s.Ways.Open(ctx); err != nil {
		return h, fmt.Errorf("open a way out: %w", err)
	}
	if err = h.lead(proxy, field); err != nil {
		return h, err
	}
	spec.ProxyServer, spec.OnProxyListener = h.way.Address(), h.way.Move
	return h, nil
}

// lead takes the way to a proxy; nil leads straight out. field is where the
// proxy is named.
func (h *held) lead(proxy *Proxy, field string) error {
	if err := h.way.Use(proxy); err != nil {
		return proxyFault(err, field)
	}
	h.proxied = proxy != nil
	return nil
}

// restrict keeps the way for the browser's own user: whoever else took it
// would use the proxy's credentials.
func (h held) restrict(uid int) { h.way.Restrict(uid) }

// traffic is what has gone through the proxy; nil without one.
func (h held) traffic() *session.Traffic {
	if !h.proxied {
		return nil
	}
	in, out := h.way.Counts()
	return &session.Traffic{Received: in, Sent: out}
}

func (h held) release() {
	if h.way != nil {
		h.way.Close()
	}
	if h.data != nil {
		h.data.Release()
	}
}
