package netrules

// Document is the Type of requests for documents of tabs, popups and frames.
const Document = "document"

// Request is a request of a browser.
type Request struct {
	URL    string // as Chromium spells it: see Canonical
	Method string
	Type   string // Document, or a content of Rules.Block; for others, any text
}

// Intercept decides about a request that is intercepted in the browser. It does not
// concern WebSockets, which are not intercepted.
func (p *Policy) Intercept(r Request) (v Verdict) {
	if r.Type == Document {
		if v = p.Navigate(r.URL); v.Denied && !v.Ask {
			return v
		}
	}
	if denied := p.Request(r.Method, r.Type); denied.Denied {
		return denied
	}
	return v
}

// Check decides like everything that enforces the rules: the interception of requests in
// the browser, and then that of connections outside of it. It resolves no names, and does
// not concern what depends on earlier traffic.
func (p *Policy) Check(r Request) (v Verdict) {
	l, socket := destination(r.URL)
	if !socket || r.Type == Document {
		if v = p.Intercept(r); v.Denied && !v.Ask {
			return v
		}
	}
	if l.host == "" {
		return v
	}
	if connect := p.Connect(l.host, l.port); connect.Denied || v.Rule == "" {
		return connect
	}
	return v
}
