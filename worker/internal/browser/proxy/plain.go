package proxy

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// forwardingHeaders are passed on as the browser sent them. ReverseProxy would
// otherwise treat them as headers of a proxy in front of it.
var forwardingHeaders = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// newReverseProxy handles requests for http URLs. ReverseProxy removes hop-by-hop
// headers in both directions.
func (f *Forwarder) newReverseProxy(out outbound, transport *http.Transport) *httputil.ReverseProxy {
	var via http.RoundTripper = transport
	if up, ok := out.(*upstream); ok && up.relaysAuth {
		via = challengeTransport{transport}
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host = r.In.Host
			preserveTarget(r, transport.Proxy != nil)
			for _, name := range forwardingHeaders {
				if values, ok := r.In.Header[name]; ok {
					r.Out.Header[name] = values
				}
			}
			if value := out.authorization(r.In.Header.Get("Proxy-Authorization")); value != "" {
				r.Out.Header.Set("Proxy-Authorization", value)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusProxyAuthRequired {
				return ErrCredentials
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			f.failPlain(w, r, out, err)
		},
		Transport:     via,
		FlushInterval: -1, // do not delay events and long polls
		BufferPool:    &f.buffers,
		ErrorLog:      slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}
}

// preserveTarget sends the browser's exact request target: net/url would escape
// characters that browsers do not escape.
func preserveTarget(r *httputil.ProxyRequest, ofProxy bool) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	_, target, _ := strings.Cut(r.In.RequestURI, "://")
	start := strings.IndexAny(target, "/?")
	if start < 0 || target[start] != '/' {
		return
	}
	path, _, _ := strings.Cut(target[start:], "?")
	if ofProxy {
		r.Out.URL.Opaque = (&url.URL{Host: r.In.URL.Host}).String() + path // //host, escaped as necessary
	} else if !strings.HasPrefix(path, "//") { // Opaque would treat it as a host
		r.Out.URL.Opaque = path
	}
}

// forwardPlain forwards one request and its answer. The answer may begin before the
// request has ended: without full duplex the server would drain the request body,
// and the transport would abort the answer.
func (f *Forwarder) forwardPlain(w http.ResponseWriter, r *http.Request, via *route) {
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		f.fail(w, r.Host, err)
		return
	}
	via.reverseProxy.ServeHTTP(w, r.WithContext(withTrace(r.Context())))
}

// challengeTransport returns a proxy's demand for credentials as an error, before
// ReverseProxy removes its header.
type challengeTransport struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t challengeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.Transport.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusProxyAuthRequired {
		return answer, err
	}
	_ = answer.Body.Close()
	return nil, &challengeError{answer.Header.Values(challengeHeader)}
}

// buffers is the buffer pool for copying answers.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 128<<10)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }

func newTransport() *http.Transport {
	return &http.Transport{
		DisableCompression:     true, // keep the browser's Accept-Encoding
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}
}
