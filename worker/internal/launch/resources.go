package launch

import (
	"context"
	"fmt"

	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// delayed is what a launch holds until its end.
type resources struct {
	data    SavedData // of a profile that keeps its own; nil for none
	egress  Egress
	proxied bool // the way leads to a proxy
}

// acquireResources gives a launch what is held for it until its end: the data of a profile
// that keeps its own, and a way out, which leads to the proxy if there
// is one. After an error nothing is held.
func (s *Service) acquireResources(ctx context.Context, profile Profile, proxy *Proxy, field string, spec *browser.Spec) (h resources, err error) {
	defer func() {
		if err != nil {
			h.release()
			h = resources{}
		}
	}()
	if profile.Persist {
		if h.data, err = s.Data.Acquire(ctx, profile.ID); err != nil {
			return h, err
		}
		spec.Data = h.data
	}
	if h.egress, err = s.Egress.Open(ctx); err != nil {
		return h, fmt.Errorf("open a way out: %w", err)
	}
	if err = h.setUpstream(proxy, field); err != nil {
		return h, err
	}
	spec.ProxyServer, spec.OnProxyListener = h.egress.Address(), h.egress.MoveTo
	return h, nil
}

// setUpstream takes the way to a proxy; nil leads straight out. field is where the
// proxy is named.
func (h *resources) setUpstream(proxy *Proxy, field string) error {
	if err := h.egress.SetUpstream(proxy); err != nil {
		return proxyError(err, field)
	}
	h.proxied = proxy != nil
	return nil
}

// restrict keeps the way for the browser's own user: whoever else took it
// would use the proxy's credentials.
func (h resources) restrict(uid int) { h.egress.Restrict(uid) }

// traffic is what has gone through the proxy; nil without one.
func (h resources) traffic() *session.Traffic {
	if !h.proxied {
		return nil
	}
	in, out := h.egress.Counts()
	return &session.Traffic{Received: in, Sent: out}
}

func (h resources) release() {
	if h.egress != nil {
		h.egress.Close()
	}
	if h.data != nil {
		h.data.Release()
	}
}
