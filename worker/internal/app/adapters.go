package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/gen/workerapi"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/settings"
	"github.com/browser-svc/svc/worker/internal/api/rest"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/browser"
	"github.com/browser-svc/svc/worker/internal/browser/proxy"
	"github.com/browser-svc/svc/worker/internal/cloud"
	"github.com/browser-svc/svc/worker/internal/media/rfb"
	"github.com/browser-svc/svc/worker/internal/session"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// browserFinder finds running browsers for the routes below /browsers/{launchId}.
type browserFinder struct{ launches *launch.Service }

// Find implements access.Finder.
func (f browserFinder) Find(launchID string) (access.Browser, bool) {
	id, err := uuid.Parse(launchID)
	if err != nil || id.String() != launchID {
		return access.Browser{}, false
	}
	found, ok := f.launches.Running(id)
	if !ok {
		return access.Browser{}, false
	}
	entry, running := found.Session, found.Browser
	b := access.Browser{
		LaunchID: launchID, SessionID: entry.ID.String(), Name: cmp.Or(entry.Name, entry.ProfileName), BrowserVersion: entry.BrowserVersion, Headless: entry.Headless,
		StartedAt: entry.StartedAt, DebugPort: running.DebugPort, Dial: running.Dial, DialPassive: running.DialPassive, Hold: running.Hold, DebugPath: entry.DebugPath, DevTools: entry.DevTools,
		Activity: found.Activity, Calls: running.Calls(), Files: running.Files(), Filled: running.Filled(), Expiry: expiryOf(found.Lifetime), Origins: running.Origins, Done: running.Done(),
		AwaitEnd: func(ctx context.Context) { _, _ = f.launches.AwaitEnd(ctx, id) },
	}
	if display, ok := running.Display(); ok {
		b.Display = &access.Display{Socket: display.Socket, Password: display.Password, ViewPassword: display.ViewPassword}
	}
	return b, true
}

// expiryOf returns a function that returns when a session ends by itself.
func expiryOf(lifetime *launch.Lifetime) func() access.Expiry {
	return func() access.Expiry {
		end, reason := lifetime.Expiry()
		limits := lifetime.Limits()
		limit := map[session.EndReason]time.Duration{
			session.Idle: limits.Idle, session.MaxDuration: limits.Max, session.NeverConnected: limits.Connect,
		}[reason]
		return access.Expiry{Time: end, Reason: string(reason), Limit: limit}
	}
}

// streamer streams a browser to a viewer: its display, or a screencast of its
// pages if the browser is headless.
type streamer struct{}

// Stream implements view.Streamer. Without control, input is blocked twice: by
// the display server, which gets the view-only password, and by the filter.
func (streamer) Stream(ctx context.Context, viewer net.Conn, browser access.Browser, control bool) error {
	defer browser.KeepAwake()() // its display would be frozen too
	access := rfb.Watch
	if control {
		access = rfb.Control
	}
	up, err := openPicture(ctx, browser, access)
	if err != nil {
		return errors.Join(err, viewer.Close())
	}
	return rfb.Serve(ctx, viewer, up, access, browser.Activity.Touch)
}

// openPicture opens the picture of a browser.
func openPicture(ctx context.Context, b access.Browser, level rfb.Access) (*rfb.Upstream, error) {
	if b.Display == nil {
		return rfb.Screencast(ctx, rfb.DevTools{Port: b.DebugPort, Dial: b.Dial}, level)
	}
	password := b.Display.ViewPassword
	if level == rfb.Control {
		password = b.Display.Password
	}
	return rfb.Connect(ctx, b.Display.Socket, password)
}

// cloudContract returns a function that reads the cloud's contract version for
// the REST API.
func cloudContract(client *cloud.Client) func() rest.CloudContract {
	return func() rest.CloudContract {
		contract := client.Contract()
		return rest.CloudContract{Expected: contract.Expected, Actual: contract.Actual, Fit: string(contract.Fit)}
	}
}

// egressProvider gives each browser its network egress.
type egressProvider struct {
	policy *proxy.EgressPolicy
	roots  *x509.CertPool // for the certificates of https proxies; nil: the system's
	log    *slog.Logger
}

// Check implements launch.EgressProvider.
func (w egressProvider) Check(ctx context.Context, config settings.Proxy) error {
	return launchProxyError(proxy.Check(ctx, upstream(config, w.roots), w.policy))
}

// Open implements launch.EgressProvider.
func (w egressProvider) Open(context.Context) (launch.Egress, error) {
	f, err := proxy.Start(w.policy, w.log)
	if err != nil {
		return nil, err
	}
	return egress{f, w.roots}, nil
}

func upstream(config settings.Proxy, roots *x509.CertPool) proxy.Upstream {
	return proxy.Upstream{Server: config.Server, Username: config.Username, Password: config.Password, RootCAs: roots, Bypass: config.Bypass}
}

// egress is a forwarder whose errors are those of package launch.
type egress struct {
	*proxy.Forwarder
	roots *x509.CertPool
}

// SetUpstream implements launch.Egress.
func (w egress) SetUpstream(config *settings.Proxy) error {
	if config == nil {
		return w.Forwarder.SetUpstream(nil)
	}
	return launchProxyError(w.Forwarder.SetUpstream(new(upstream(*config, w.roots))))
}

// PresentCertificates implements launch.Egress.
func (w egress) PresentCertificates(byAddress map[string]tls.Certificate, authorities []*x509.Certificate, allowInvalid bool) (*x509.Certificate, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("client certificates: %w", err)
	}
	if w.roots != nil {
		roots = w.roots.Clone()
	}
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	return w.Forwarder.PresentCertificates(proxy.ClientCertificates{ByAddress: byAddress, Roots: roots, AllowInvalid: allowInvalid})
}

// OpenContextProxy implements launch.Egress.
func (w egress) OpenContextProxy(server, bypass string) (address string, closeProxy func(), err error) {
	config, err := proxy.ParseContextProxy(server)
	if err != nil || config == nil {
		return "", nil, err
	}
	config.Bypass, config.RootCAs = bypass, w.roots
	opened, err := w.Forwarder.OpenContextProxy(*config)
	if err != nil {
		return "", nil, err
	}
	return opened.Address(), opened.Close, nil
}

func launchProxyError(err error) error {
	switch {
	case errors.Is(err, proxy.ErrDenied):
		return fmt.Errorf("%w: %w", launch.ErrProxyDenied, err)
	case errors.Is(err, proxy.ErrCredentials):
		return fmt.Errorf("%w: %w", launch.ErrProxyCredentials, err)
	case errors.Is(err, proxy.ErrUnreachable):
		return fmt.Errorf("%w: %w", launch.ErrProxyUnreachable, err)
	}
	return err
}

// maxPortAttempts is how many debug ports a launch tries. Another program can take a
// port between its reservation and its use.
const maxPortAttempts = 3

// denylistLauncher reserves the debug port of each browser in the egress policy
// before the browser opens it, so that no page can reach it.
type denylistLauncher struct {
	launch.Launcher
	policy *proxy.EgressPolicy
}

// Launch implements launch.Launcher.
func (h denylistLauncher) Launch(ctx context.Context, spec browser.Spec) (b *browser.Browser, err error) {
	for range maxPortAttempts {
		if b, err = h.launch(ctx, spec); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return b, err
}

func (h denylistLauncher) launch(ctx context.Context, spec browser.Spec) (*browser.Browser, error) {
	port, release, err := h.policy.ReservePort()
	if err != nil {
		return nil, err
	}
	spec.DebugPort = port
	b, err := h.Launcher.Launch(ctx, spec)
	if err != nil {
		release()
		return nil, err
	}
	go func() {
		<-b.Done()
		release()
	}()
	return b, nil
}

// egressPolicy returns the policy of DENIED_HOSTS and ALLOWED_HOSTS.
func (c Config) egressPolicy() (*proxy.EgressPolicy, error) {
	rules := proxy.Rules{AllowLocal: true}
	var list []string
	for entry := range strings.SplitSeq(c.DeniedHosts, ",") {
		if entry = strings.TrimSpace(entry); entry != "default" {
			list = append(list, entry)
			continue
		}
		list = append(list, proxy.DefaultDenylist)
		rules.DeniedEndpoints = []string{net.JoinHostPort(cmp.Or(c.Host, "0.0.0.0"), strconv.Itoa(c.Port)), c.cloudAddress()}
		if host, port, err := c.Metrics.HostPort(); err == nil {
			rules.DeniedEndpoints = append(rules.DeniedEndpoints, net.JoinHostPort(cmp.Or(host, "0.0.0.0"), strconv.Itoa(port)))
		}
		rules.AllowLocal = false
	}
	var err error
	if rules.Denylist, err = proxy.ParseDenylist(strings.Join(list, ",")); err != nil {
		return nil, fmt.Errorf("DENIED_HOSTS: %w", err)
	}
	if rules.Allowlist, err = proxy.ParseAllowlist(c.AllowedHosts); err != nil {
		return nil, fmt.Errorf("ALLOWED_HOSTS: %w", err)
	}
	return proxy.NewEgressPolicy(rules)
}

// debugPortUsers returns the user ids of DEBUG_PORT_USERS.
func (c Config) debugPortUsers() (uids []int, err error) {
	for _, name := range c.DebugPortUsers {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		number := name
		if found, err := user.Lookup(name); err == nil {
			number = found.Uid
		}
		uid, err := strconv.ParseUint(number, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("DEBUG_PORT_USERS: this host has no user %q", name)
		}
		uids = append(uids, int(uid))
	}
	return uids, nil
}

// cloudAddress returns the cloud's host:port.
func (c Config) cloudAddress() string {
	u, err := url.Parse(c.CloudURL)
	if err != nil {
		return ""
	}
	port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
}

// launchParser returns a function that validates and converts a launch request
// that was not sent as an HTTP body.
func launchParser(guard *oapi.Guard) func(body []byte) (launch.Request, error) {
	return func(body []byte) (launch.Request, error) {
		checked, err := guard.CheckBody("launchProfile", body)
		if err != nil {
			return launch.Request{}, err
		}
		var request workerapi.LaunchProfileRequest
		if err := json.Unmarshal(checked, &request); err != nil {
			return launch.Request{}, fmt.Errorf("decode launch request: %w", err)
		}
		return rest.LaunchRequest(request)
	}
}
