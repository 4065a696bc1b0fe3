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

// forwardingHeaders are left as the browser sent them: it is the client here,
// and ReverseProxy takes them for those of a proxy in front.
var forwardingHeaders = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// newReverseProxy handles requests for http URLs. ReverseProxy takes the hop-by-hop
// headers off in both directions.
func (f *Forwarder) newReverseProxy(out outbound) *httputil.ReverseProxy {
	transport := out.transport()
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host = r.In.Host
			preserveTarget(r, transport.Proxy != nil)
			for _, name := range forwardingHeaders {
				if values, sent := r.In.Header[name]; sent {
					r.Out.Header[name] = values
				}
			}
			if out.authorization() != "" {
				r.Out.Header.Set("Proxy-Authorization", out.authorization())
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
		Transport:     transport,
		FlushInterval: -1, // events and long polls pass as they come
		BufferPool:    &f.buffers,
		ErrorLog:      slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}
}

// preserveTarget asks for exactly what the browser did: package url would escape
// some of it that browsers leave as it is.
func preserveTarget(r *httputil.ProxyRequest, ofProxy bool) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery
	_, target, _ := strings.Cut(r.In.RequestURI, "://")
	at := strings.IndexAny(target, "/?")
	if at < 0 || target[at] != '/' {
		return
	}
	path, _, _ := strings.Cut(target[at:], "?")
	if ofProxy {
		r.Out.URL.Opaque = (&url.URL{Host: r.In.URL.Host}).String() + path // //host, escaped where it must be
	} else if !strings.HasPrefix(path, "//") { // which Opaque would take for a host
		r.Out.URL.Opaque = path
	}
}

// roundTrip carries one request and its answer, which may begin before the
// request has ended: without full duplex the server then takes the rest of the
// body away from the transport, which breaks the answer off.
func (f *Forwarder) forwardPlain(w http.ResponseWriter, r *http.Request, by *route) {
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		f.fail(w, r.Host, err)
		return
	}
	by.reverseProxy.ServeHTTP(w, r)
}

// buffers are those that answers are copied with.
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
		DisableCompression:     true, // the browser's own Accept-Encoding counts
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}
}
