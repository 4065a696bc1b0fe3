package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/shared/contracttest"
)

// proxies are the proxies in front of the two servers. They check all exchanges and
// store the findings. Clients may send invalid requests intentionally; servers must
// always match the documents.
type proxies struct {
	mu        sync.Mutex
	exchanges int
	reports   []string
	clients   atomic.Uint32
}

// proxy is the proxy in front of one server.
type proxy struct {
	url    string
	server *http.Server
	done   chan struct{}
}

// start starts a proxy on a free loopback port. It forwards requests to the target
// with base. The target may start later.
func (p *proxies) start(ctx context.Context, document contracttest.Document, target *url.URL, base http.RoundTripper) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the servers compare it with Origin
			r.Out.Header.Set("X-Forwarded-For", cmp.Or(r.In.Header.Get("X-Forwarded-For"), p.nextClientIP()))
			r.Out = r.Out.WithContext(contracttest.AllowInvalidRequest(contracttest.AllowUndocumentedRoute(r.Out.Context())))
		},
		Transport:     contracttest.NewValidator(document).Transport(base, p.record),
		FlushInterval: -1,
		ErrorHandler:  p.noteUnanswered,
		ErrorLog:      log.New(io.Discard, "", 0), // ErrorHandler records the errors
	}
	s := &proxy{
		url:    "http://" + listener.Addr().String(),
		server: &http.Server{Handler: forward, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)},
		done:   make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		_ = s.server.Serve(listener) // until close
	}()
	return s, nil
}

func (s *proxy) close() {
	_ = s.server.Close()
	<-s.done
}

// directTransport returns a transport that ignores proxy environment variables.
func directTransport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.DisableCompression = nil, true
	transport.MaxIdleConnsPerHost = 32
	return transport
}

// nextClientIP returns a new client address of the benchmark network (RFC 2544) for
// requests without X-Forwarded-For, so that the limits per client address do not
// refuse the requests of the stages.
func (p *proxies) nextClientIP() string {
	const hosts = 1 << 17 // of 198.18.0.0/15
	first := binary.BigEndian.Uint32([]byte{198, 18, 0, 0})
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], first+p.clients.Add(1)%hosts)
	return netip.AddrFrom4(address).String()
}

func (p *proxies) record(x *contracttest.Exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges++
	if len(x.Findings) > 0 {
		p.reports = append(p.reports, x.Report())
	}
}

// noteUnanswered records a request that got no response.
func (p *proxies) noteUnanswered(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		p.mu.Lock()
		p.reports = append(p.reports, fmt.Sprintf("contract: %s %s got no response: %v", r.Method, r.URL.EscapedPath(), err))
		p.mu.Unlock()
	}
	http.Error(w, "the server did not respond", http.StatusBadGateway)
}

// progress returns the numbers of exchanges and violations since the last call of
// takeFindings.
func (p *proxies) progress() (exchanges, violations int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exchanges, len(p.reports)
}

// takeFindings returns the number of exchanges since its last call, and an error for
// violations. It writes all findings to a file of the stage.
func (p *proxies) takeFindings(dir, stage string) (exchanges int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	exchanges, reports := p.exchanges, p.reports
	p.exchanges, p.reports = 0, nil
	file := filepath.Join(dir, stage+".findings.log")
	if len(reports) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return exchanges, err
		}
		return exchanges, nil
	}
	if err := os.WriteFile(file, []byte(strings.Join(reports, "\n")+"\n"), 0o600); err != nil {
		return exchanges, err
	}
	return exchanges, fmt.Errorf("%d exchanges violate the documents, see %s:\n%s", len(reports), file, summarizeReports(reports, 10))
}

// summarizeReports returns the first report of each kind and the number of reports
// of that kind. Reports with the same operation and first finding are of one kind.
func summarizeReports(reports []string, most int) string {
	count := map[string]int{}
	var kinds []string
	for _, report := range reports {
		head, rest, _ := strings.Cut(report, "\n")
		finding, _, _ := strings.Cut(rest, "\n")
		if index := strings.IndexByte(head, '('); index >= 0 {
			head = head[index:]
		}
		kind := head + strings.TrimRight(" "+strings.TrimSpace(finding), " ")
		if count[kind]++; count[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	slices.SortStableFunc(kinds, func(a, b string) int { return count[b] - count[a] })
	var b strings.Builder
	for i, kind := range kinds {
		if i == most {
			fmt.Fprintf(&b, "  and %d other kinds\n", len(kinds)-most)
			break
		}
		fmt.Fprintf(&b, "  %d × %s\n", count[kind], kind)
	}
	return strings.TrimRight(b.String(), "\n")
}
