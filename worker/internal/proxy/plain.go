package proxy

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"time"
)

// forwardingHeaders are left as the browser sent them: it is the client here,
// and ReverseProxy takes them for those of a proxy in front.
var forwardingHeaders = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// newPlain handles requests for http URLs. ReverseProxy takes the hop-by-hop
// headers off in both directions.
func (f *Forwarder) newPlain() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host = r.In.Host
			r.Out.URL.RawQuery = r.In.URL.RawQuery
			for _, name := range forwardingHeaders {
				if values, sent := r.In.Header[name]; sent {
					r.Out.Header[name] = values
				}
			}
			if f.upstream.authorization != "" {
				r.Out.Header.Set("Proxy-Authorization", f.upstream.authorization)
			}
		},
		ModifyResponse: func(r *http.Response) error {
			if r.StatusCode == http.StatusProxyAuthRequired {
				return ErrCredentials
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			f.fail(w, err)
		},
		Transport:     f.upstream.transport(),
		FlushInterval: -1, // events and long polls pass as they come
		ErrorLog:      slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
	}
}

// exchange carries one request and its answer, which may begin before the
// request has ended: without full duplex the server then takes the rest of the
// body away from the transport, which breaks the answer off.
func (f *Forwarder) exchange(w http.ResponseWriter, r *http.Request) {
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
		f.fail(w, err)
		return
	}
	f.plain.ServeHTTP(w, r)
}

// transport speaks to the proxy where it understands HTTP, and through it to
// the destination where it speaks SOCKS.
func (u *upstream) transport() *http.Transport {
	t := &http.Transport{
		DisableCompression:     true, // the browser's own Accept-Encoding counts
		MaxIdleConnsPerHost:    32,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 1 << 20,
	}
	if u.url.Scheme == "socks5" {
		t.DialContext = u.dialThrough
		return t
	}
	t.Proxy = http.ProxyURL(u.url)
	t.DialContext = u.dialItself
	t.DialTLSContext = u.dialItself
	return t
}
