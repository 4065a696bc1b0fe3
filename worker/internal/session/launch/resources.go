package launch

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/session"
)

// resources belong to a launch until its end.
type resources struct {
	data    SavedData // nil if the profile keeps no data
	egress  Egress
	proxied bool // egress uses an upstream proxy

	extensions func() // releases the extensions; nil without any
}

// acquireResources acquires the profile's data, if the profile keeps any, and an
// egress with the upstream proxy, if there is one. After an error no resources are
// held.
func (s *Service) acquireResources(ctx context.Context, profile Profile, use DataUse, proxy *settings.Proxy, field string, spec *browser.Spec) (h resources, err error) {
	defer func() {
		if err != nil {
			h.release()
			h = resources{}
		}
	}()
	if profile.Persist {
		data, err := s.Data.Acquire(ctx, use)
		if err != nil {
			return h, err
		}
		h.data = trackedData{data, s.saves, use}
		spec.Data = h.data
	}
	if h.egress, err = s.Egress.Open(ctx); err != nil {
		return h, fmt.Errorf("open egress: %w", err)
	}
	h.egress.SetRules(spec.Rules)
	if err = h.setUpstream(proxy, field); err != nil {
		return h, err
	}
	if len(spec.ClientCertificates) > 0 {
		var authority *x509.Certificate
		if authority, err = h.egress.PresentCertificates(spec.ClientCertificates, spec.CACertificates, settings.Enabled(spec.IgnoreHTTPSErrors)); err != nil {
			return h, err
		}
		spec.CACertificates = append(slices.Clip(spec.CACertificates), authority)
	}
	spec.ProxyServer, spec.OnProxyListener, spec.OpenContextProxy = h.egress.Address(), h.egress.MoveTo, h.egress.OpenContextProxy
	spec.CountDenied = h.egress.CountDenied
	return h, nil
}

// setUpstream sets the upstream proxy of the egress; nil means direct. field is the
// name of the proxy's field for errors.
func (h *resources) setUpstream(proxy *settings.Proxy, field string) error {
	if err := h.egress.SetUpstream(proxy); err != nil {
		return proxyError(err, field)
	}
	h.proxied = proxy != nil
	return nil
}

// restrict allows only the browser's user to use the egress: another user would use
// the proxy's credentials.
func (h resources) restrict(uid int) { h.egress.Restrict(uid) }

// traffic returns the bytes that passed the upstream proxy, or nil if there is none.
func (h resources) traffic() *session.Traffic {
	if !h.proxied {
		return nil
	}
	received, sent := h.egress.Counts()
	return &session.Traffic{Received: received, Sent: sent}
}

func (h resources) release() {
	if h.egress != nil {
		h.egress.Close()
	}
	if h.data != nil {
		h.data.Release()
	}
	if h.extensions != nil {
		h.extensions()
	}
}
