package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/browser-svc/svc/gen/workerapi"
	svc "github.com/browser-svc/svc/openapi/sdk/go"
	"github.com/browser-svc/svc/shared/ws"
)

// finding is the result of one check.
type finding struct {
	Check  string `json:"check"`
	State  string `json:"state"` // ok, warning or failed
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"`

	code int // the exit code, if the check has failed
}

func (a *app) doctorCommand() *cobra.Command {
	var noLaunch bool
	c := &cobra.Command{
		Use: "doctor", Short: "Check the way to the worker, and say what to do", Args: cobra.NoArgs,
		Long: `Checks that the worker can be reached, the proxies on the way, TLS, the clock of this machine, the versions, the key, whether the
worker accepts launches, what its host does not provide, and with a launch of a few seconds that a WebSocket reaches a browser. The exit code is that of the first
check that fails.`,
		RunE: func(*cobra.Command, []string) error { return a.doctor(noLaunch) },
	}
	c.Flags().BoolVar(&noLaunch, "no-launch", false, "launch no browser, which uses a slot for a few seconds")
	return c
}

func (a *app) doctor(noLaunch bool) error {
	settings, err := a.settings()
	if err != nil {
		return err
	}
	worker, err := settings.workerClient()
	if err != nil {
		return err
	}
	ctx, stop := within(callLimit + launchLimit)
	defer stop()
	findings := examine(ctx, settings, worker, noLaunch)
	if a.json {
		err = a.emit(findings)
	} else {
		err = a.table(findingRows(findings))
	}
	for _, f := range findings {
		if err == nil && f.State == "failed" {
			return &endError{f.code}
		}
	}
	return err
}

func findingRows(findings []finding) [][]string {
	var rows [][]string
	for _, f := range findings {
		rows = append(rows, []string{f.State, f.Check, f.Text})
		if f.Advice != "" {
			rows = append(rows, []string{"", "", "→ " + f.Advice})
		}
	}
	return rows
}

// examine runs the checks. Without an answer of the worker, the others are left out.
func examine(ctx context.Context, settings config, worker *svc.Client, noLaunch bool) []finding {
	address, err := url.Parse(settings.Worker)
	if err != nil {
		return []finding{{"address", "failed", err.Error(), "", exitUsage}}
	}
	sent := time.Now()
	answer, health, err := readHealth(ctx, address)
	if err != nil {
		return []finding{unreachable(address, err)}
	}
	findings := []finding{
		{Check: "reachable", State: "ok", Text: fmt.Sprintf("%s answers after %d ms", settings.Worker, time.Since(sent).Milliseconds())},
		checkProxies(address, answer), checkTLS(address, answer.tls), checkClock(answer, sent), checkVersion(health),
	}
	if _, err := worker.Sessions(ctx, false); err != nil {
		return append(findings, failure("key", err, "Get the worker key (API_KEY of the worker) from its operator, then run svc login."))
	}
	findings = append(findings, finding{Check: "key", State: "ok", Text: "the worker accepts it"}, checkReadiness(ctx, address))
	findings = append(findings, checkHost(health)...)
	if !noLaunch {
		findings = append(findings, checkWebSocket(ctx, worker)...)
	}
	return findings
}

func failure(check string, err error, advice string) finding {
	return finding{check, "failed", err.Error(), advice, exitCode(err)}
}

// readHealth returns the answer to GET /health.
func readHealth(ctx context.Context, address *url.URL) (reply, workerapi.WorkerHealth, error) {
	var envelope workerapi.WorkerHealthResponse
	answer, err := get(ctx, address.JoinPath("health"))
	if err == nil && (answer.code != http.StatusOK || json.Unmarshal(answer.text, &envelope) != nil || envelope.Data.ContractVersion == "") {
		err = fmt.Errorf("%s answers, but is not a worker: %s", address.Redacted(), answer.status)
	}
	return answer, envelope.Data, err
}

// reply is an answer and the start of its body.
type reply struct {
	code   int
	status string
	header http.Header
	tls    *tls.ConnectionState
	text   []byte
}

// get follows no redirects.
func get(ctx context.Context, address *url.URL) (reply, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return reply{}, err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: callLimit}
	answer, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return reply{answer.StatusCode, answer.Status, answer.Header, answer.TLS, text}, err
}

func unreachable(address *url.URL, err error) finding {
	f := finding{"reachable", "failed", err.Error(), "Check the address, that the worker runs, and the firewalls between.", exitUnreachable}
	var dns *net.DNSError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &dns):
		f.Advice = "The name " + dns.Name + " cannot be resolved: check the address."
	case errors.As(err, &authority):
		f.Advice = "Install the certificate of the authority on this machine, or set SSL_CERT_FILE to it."
	case errors.As(err, &hostname):
		f.Advice = "The certificate is for another name: use that name in the address."
	case errors.As(err, &invalid):
		f.Advice = "The certificate is not valid now: renew it, or correct the clock of this machine."
	case errors.As(err, &record) || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		f.Advice = "The server does not use TLS on this port: use http://" + address.Host + "."
	case strings.Contains(err.Error(), "connection refused"):
		f.Advice = "No program listens on " + address.Host + ": start the worker, or correct the port."
	case errors.Is(err, context.DeadlineExceeded):
		f.Advice = "Nothing answers: a firewall may drop the packets, or a proxy is needed (HTTPS_PROXY)."
	}
	return f
}

func checkProxies(address *url.URL, answer reply) finding {
	var passed []string
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: address}); err == nil && proxy != nil {
		passed = append(passed, "the proxy of this machine "+proxy.Redacted())
	}
	if via := answer.header.Get("Via"); via != "" {
		passed = append(passed, "via "+via)
	}
	if server := answer.header.Get("Server"); server != "" {
		passed = append(passed, server)
	}
	if len(passed) == 0 {
		return finding{Check: "proxies", State: "ok", Text: "none is visible"}
	}
	return finding{Check: "proxies", State: "ok", Text: strings.Join(passed, ", ")}
}

func checkTLS(address *url.URL, state *tls.ConnectionState) finding {
	const soon = 14 * 24 * time.Hour
	ip := net.ParseIP(address.Hostname())
	switch {
	case state == nil && (address.Hostname() == "localhost" || ip != nil && ip.IsLoopback()):
		return finding{Check: "tls", State: "ok", Text: "not used on this machine"}
	case state == nil:
		return finding{Check: "tls", State: "warning", Text: "not used: everyone on the way can read the key", Advice: "Put the worker behind a proxy with TLS, and set PUBLIC_URL of the worker."}
	}
	expiry := state.PeerCertificates[0].NotAfter
	f := finding{Check: "tls", State: "ok", Text: fmt.Sprintf("%s, the certificate is valid until %s", tls.VersionName(state.Version), expiry.Format(time.DateOnly))}
	if time.Until(expiry) < soon {
		f.State, f.Advice = "warning", "Renew the certificate."
	}
	return f
}

func checkClock(answer reply, sent time.Time) finding {
	const tolerated = 30 * time.Second
	date, err := http.ParseTime(answer.header.Get("Date"))
	if err != nil {
		return finding{Check: "clock", State: "warning", Text: "the answer has no date to compare with"}
	}
	difference := sent.Sub(date).Truncate(time.Second) // the date has no fractions
	f := finding{Check: "clock", State: "ok", Text: fmt.Sprintf("differs by %v from the worker", difference.Abs())}
	if difference.Abs() > tolerated {
		f.State, f.Advice = "warning", "Set the clocks of this machine and of the worker with NTP: tokens and certificates expire at the wrong time."
	}
	return f
}

func checkVersion(health workerapi.WorkerHealth) finding {
	f := finding{Check: "version", State: "ok", Text: fmt.Sprintf("worker %s, contract %s", health.Version, health.ContractVersion)}
	own, _, _ := strings.Cut(workerapi.ContractVersion, ".")
	if major, _, _ := strings.Cut(health.ContractVersion, "."); major != own {
		f.State, f.code, f.Advice = "failed", exitFailure, "Use the svc that was released with the worker: this one is for contract "+workerapi.ContractVersion+"."
	}
	return f
}

// withoutMechanism says what a host without an isolation mechanism means for its users.
func withoutMechanism(name workerapi.IsolationPieceName) string {
	switch name {
	case workerapi.UserId:
		return "browsers run as the user of the worker"
	case workerapi.PidNamespace, workerapi.ProcessList:
		return "browsers see the processes of the host"
	case workerapi.NetworkNamespace:
		return "only Chromium's settings keep traffic on the proxy, and users of the host reach the debug ports"
	case workerapi.MountNamespace:
		return "browsers see the files of the host"
	case workerapi.PrivateFiles:
		return "the files of a browser have no limit but the disk"
	case workerapi.MemoryLimit:
		return "a page can use the memory of the host"
	case workerapi.ProcessLimit:
		return "a page can use all processes of the host"
	case workerapi.CgroupKill:
		return "processes are killed one by one"
	case workerapi.Sandbox:
		return "Chromium runs without its own sandbox: open only sites that you trust"
	}
	return "not in effect"
}

// checkHost warns of what the host of the worker does not provide.
func checkHost(health workerapi.WorkerHealth) (findings []finding) {
	for _, name := range health.Isolation.Missing {
		findings = append(findings, finding{Check: "isolation", State: "warning", Text: "no " + string(name) + ": " + withoutMechanism(name)})
	}
	if len(findings) == 0 {
		findings = append(findings, finding{Check: "isolation", State: "ok", Text: "complete"})
	} else {
		findings[len(findings)-1].Advice = "Run the worker as root or from its image. svc-worker selftest says why a mechanism is missing."
	}
	if health.MissingScripts != nil && len(*health.MissingScripts) > 0 {
		var scripts []string
		for _, script := range *health.MissingScripts {
			scripts = append(scripts, string(script))
		}
		findings = append(findings, finding{"fonts", "warning", "pages show boxes instead of " + strings.Join(scripts, ", "), "Install Noto fonts on the host of the worker.", 0})
	}
	return findings
}

func checkReadiness(ctx context.Context, address *url.URL) finding {
	answer, err := get(ctx, address.JoinPath("readyz"))
	var refused struct{ Error svc.Error } // the names of its fields are those of the envelope
	switch {
	case err != nil:
		return failure("ready", err, "")
	case answer.code == http.StatusOK:
		return finding{Check: "ready", State: "ok", Text: "the worker accepts launches"}
	case json.Unmarshal(answer.text, &refused) != nil:
		return finding{"ready", "failed", answer.status, "", exitUnreachable}
	}
	return finding{"ready", "failed", refused.Error.Error(), "Ask the operator of the worker; /readyz and the console show the reasons.", exitUnreachable}
}

// checkWebSocket launches a browser and sends it a command.
func checkWebSocket(ctx context.Context, worker *svc.Client) []finding {
	began := time.Now()
	name := "svc doctor"
	options := svc.LaunchOptions{Browser: workerapi.BrowserSettings{Name: &name}}
	session, err := worker.Launch(ctx, options)
	if err != nil {
		return []finding{failure("launch", err, "Launch with --wait, end a session (svc ls, svc end), or ask the operator.")}
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
		defer cancel()
		_, _ = session.End(end) // otherwise the limits of the worker end it
	}()
	launched := finding{Check: "launch", State: "ok", Text: fmt.Sprintf("%s after %d ms", browserName(session.Info), time.Since(began).Milliseconds())}
	took, err := askBrowser(ctx, session.WebSocketURL)
	if err == nil {
		return []finding{launched, {Check: "websocket", State: "ok", Text: fmt.Sprintf("the browser answers after %v", took.Round(100*time.Microsecond))}}
	}
	f := finding{"websocket", "failed", err.Error(), "WebSockets go to the host of PUBLIC_URL of the worker: set it to the address that clients use.", exitUnreachable}
	var refused *ws.RefusedError
	if errors.As(err, &refused) {
		f.Advice = "A proxy on the way does not pass on WebSockets: let it forward the headers Upgrade and Connection, with HTTP/1.1."
	}
	return []finding{launched, f}
}

// askBrowser returns the time that a command takes on an open WebSocket.
func askBrowser(ctx context.Context, address string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	conn, err := ws.Dial(ctx, address, nil, ws.Options{})
	var refused *ws.RefusedError
	switch {
	case errors.As(err, &refused):
		return 0, err
	case err != nil:
		return 0, errors.New(strings.ReplaceAll(err.Error(), address, "the WebSocket of the browser")) // without the token
	}
	defer conn.CloseNow()
	sent := time.Now()
	if err := conn.Write(ctx, ws.Text, []byte(`{"id":1,"method":"Browser.getVersion"}`)); err != nil {
		return 0, err
	}
	if _, _, err := conn.Read(ctx); err != nil {
		return 0, err
	}
	return time.Since(sent), nil
}
