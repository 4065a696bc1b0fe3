package browser_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/browser-svc/svc/shared/netrules"
)

// checkedRequests are requests of a page, with PORT for the port of the site, and one denial or an answer for each rule.
var checkedRequests = []netrules.Request{
	{URL: "http://www.allowed.localhostPORT/document", Method: "GET", Type: netrules.Document},
	{URL: "http://WWW.Allowed.LOCALHOST.PORT/upper", Method: "GET", Type: netrules.Document},
	{URL: "http://user:password@www.allowed.localhostPORT/user", Method: "GET", Type: netrules.Document},
	{URL: "http://www.allowed.localhost@other.localhostPORT/deceptive", Method: "GET", Type: netrules.Document},
	{URL: "http://other.localhostPORT/document", Method: "GET", Type: netrules.Document},
	{URL: "http://denied.allowed.localhostPORT/document", Method: "GET", Type: netrules.Document},
	{URL: "http://www.allowed.localhostPORT/private/page", Method: "GET", Type: netrules.Document},
	{URL: "http://www.allowed.localhostPORT/public/../private/dots", Method: "GET", Type: netrules.Document},
	{URL: "http://www.allowed.localhostPORT/public/%2e%2E/private/escaped", Method: "GET", Type: netrules.Document},
	{URL: `http://www.allowed.localhostPORT/public\..\private\backslashes`, Method: "GET", Type: netrules.Document},
	{URL: "http://www.allowed.localhostPORT/public?/private/query", Method: "GET", Type: netrules.Document},
	{URL: "http://www.allowed.localhostPORT/f%C3%BCr/für", Method: "GET", Type: netrules.Document},
	{URL: "http://tracker.allowed.localhostPORT/document", Method: "GET", Type: netrules.Document},
	{URL: "http://bücher.allowed.localhostPORT/document", Method: "GET", Type: netrules.Document},
	{URL: "http://www.allowed.localhostPORT/other", Method: "GET", Type: "other"},
	{URL: "http://denied.allowed.localhostPORT/other", Method: "GET", Type: "other"},
	{URL: "http://www.allowed.localhostPORT/post", Method: "POST", Type: "other"},
	{URL: "http://tracker.allowed.localhostPORT/other", Method: "GET", Type: "other"},
	{URL: "http://0x7f000002PORT/hexadecimal", Method: "GET", Type: "other"},
	{URL: "http://2130706434PORT/decimal", Method: "GET", Type: "other"},
	{URL: "http://www.allowed.localhostPORT/image", Method: "GET", Type: "image"},
	{URL: "http://ad.allowed.localhostPORT/ad", Method: "GET", Type: "ads"},
	{URL: "ws://www.allowed.localhostPORT/socket", Method: "GET", Type: "other"},
	{URL: "ws://tracker.allowed.localhostPORT/socket", Method: "GET", Type: "other"},
}

// TestGuard_AgreesWithCheck compares what Policy.Check says about requests with what happens to them.
func TestGuard_AgreesWithCheck(t *testing.T) {
	rules := &netrules.Rules{
		Navigate: &netrules.Filter{Allow: []string{allowedHosts}, Deny: []string{"denied.allowed.localhost", "*.allowed.localhost/private*", "*.allowed.localhost/f%C3%BCr/f%C3%BCr"}},
		Connect:  &netrules.Filter{Deny: []string{"tracker.allowed.localhost", "xn--bcher-kva.allowed.localhost", "127.0.0.2"}},
		Methods:  &netrules.Methods{ReadOnly: true},
		Block:    []string{"image", "ads"},
	}
	policy, err := netrules.NewPolicy(netrules.Level{Name: "launch", Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	w := newWall(t, nil, nil)
	if err := w.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.blockList = readList(t, "||ad.allowed.localhost^")
	w.start(t, rules, nil)
	session := w.page(t)
	for _, r := range checkedRequests {
		r.URL = strings.ReplaceAll(r.URL, "PORT", w.port)
		logged, arrived := len(w.log.String()), w.arrivals()
		var host string
		w.eval(t, session, "new URL("+quoted(r.URL)+").host", &host)
		deniedRule := regexp.MustCompile(`request denied by rule".* host=` + regexp.QuoteMeta(host) + ` .*level=launch rule=(?:"([^"]*)"|(\S+))`)
		w.send(t, session, r)
		var denials []string
		eventually(t, 10*time.Second, "a denial or an arrival: "+r.URL, func() bool {
			denials = deniedRule.FindStringSubmatch(w.log.String()[logged:])
			return denials != nil || w.arrivals() > arrived
		})
		address, err := netrules.Canonical(r.URL)
		if err != nil {
			t.Fatal(err)
		}
		r.URL = address
		v := policy.Check(r)
		if v.Denied != (denials != nil) || v.Denied && v.Rule != denials[1]+denials[2] {
			t.Errorf("%s %s %s: checked %+v, happened %q", r.Type, r.Method, r.URL, v, denials)
		}
	}
}

// arrivals counts the requests that the site got.
func (w *wall) arrivals() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

// send makes a page send a request.
func (w *wall) send(t *testing.T, session string, r netrules.Request) {
	t.Helper()
	switch {
	case r.Type == netrules.Document:
		w.navigate(t, w.page(t), r.URL)
	case r.Type == "image":
		w.run(t, session, "new Image().src = "+quoted(r.URL))
	case strings.HasPrefix(r.URL, "ws:"):
		w.run(t, session, "new WebSocket("+quoted(r.URL)+")")
	default:
		w.run(t, session, fmt.Sprintf(`fetch(%s, {method: %q, mode: "no-cors"}).catch(() => {})`, quoted(r.URL), r.Method))
	}
}
