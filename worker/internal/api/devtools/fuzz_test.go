package devtools

import (
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/auth/ticket"
	"github.com/browser-svc/svc/worker/internal/cdp/resume"
)

var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)

// FuzzResumption checks that a request to resume has one count and at most one name,
// or is refused with the name of the invalid parameter.
func FuzzResumption(f *testing.F) {
	for _, query := range []string{
		"resume=0", "resume=9007199254740991&client=a_b-9", "resume=9007199254740992", "resume=-1", "resume=+5", "resume=-0", "resume=1e3", "resume=", "resume=1&resume=2",
		"resume=1&client=", "resume=1&client=a&client=b", "resume=1&client=" + strings.Repeat("a", 65), "resume=1&client=a%0A", "client=a", "resume=18446744073709551617", "resume=%31;", "resume=٣",
	} {
		f.Add(query)
	}
	s := &Service{resumable: resume.New(resume.Options{ResumeTimeout: time.Minute, Buffer: 1 << 20})}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		received, name, err := s.resumeParams(echo.New().NewContext(r, nil))
		values, _ := url.ParseQuery(query)
		counts, names := values["resume"], values["client"]
		want := new(big.Int)
		right := len(counts) == 1 && wholeNumber.MatchString(counts[0])
		if right {
			want.SetString(counts[0], 10)
			right = want.Sign() >= 0 && want.BitLen() <= 53
		}
		field := "resume"
		if right && (len(names) > 1 || len(names) == 1 && (len(names[0]) == 0 || len(names[0]) > 64 || strings.Trim(names[0], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "")) {
			right, field = false, "client"
		}
		if (err == nil) != right || right && (received != want.Int64() || len(names) > 0 && name != names[0]) {
			t.Errorf("%q: %d, %q, %v", query, received, name, err)
		}
		if err != nil && (!fault.Is(err, fault.Validation) || fault.From(err).Details[0].Field != field) {
			t.Errorf("%q: %v names %+v, want %s", query, err, fault.From(err).Details, field)
		}
	})
}

// FuzzTargets checks that target lists contain only URLs of the worker and that all
// other members are unchanged.
func FuzzTargets(f *testing.F) {
	for _, text := range []string{
		`[{"id":"A1","title":"ws://127.0.0.1:9222/","type":"page","url":"https://a.example","webSocketDebuggerUrl":"ws://127.0.0.1:9222/devtools/page/A1","devtoolsFrontendUrl":"https://chrome-devtools-frontend.appspot.com/serve_rev/@1/inspector.html?ws=127.0.0.1:9222/devtools/page/A1"}]`,
		`[{"id":"A1","webSocketDebuggerUrl":"x","devtoolsFrontendUrlCompat":"y","devtoolsFrontendUrl":5}]`, `[{"id":["../.."],"webSocketDebuggerUrl":"x"}]`, `[{"id":"../../x?y=#","webSocketDebuggerUrl":"x"}]`,
		`[{"webSocketDebuggerUrl":""},{"webSocketDebuggerUrl":null},null,{}]`, `[]`, `null`, `[{"id":"A","webSocketDebuggerUrl":"x","devtoolsFrontendUrl":"/devtools/../../evil.html?ws=x"}]`,
	} {
		f.Add([]byte(text), true)
		f.Add([]byte(text), false)
	}
	base, err := url.Parse("https://edge.example/w/1")
	if err != nil {
		f.Fatal(err)
	}
	tickets := ticket.New(clock.System{})
	s := &Service{links: access.Links{Address: access.NewAddress(base), Tokens: tickets}}
	f.Fuzz(func(t *testing.T, text []byte, frontEnd bool) {
		var targets, before []targetInfo
		if json.Unmarshal(text, &targets) != nil || json.Unmarshal(text, &before) != nil {
			return
		}
		visit := access.AuthorizedRequest{Browser: access.Browser{LaunchID: "launch-1", DebugPort: 9222, DevTools: frontEnd}, Use: ticket.Control, Token: "token"}
		if err := s.rewriteURLs(visit, targets...); err != nil {
			t.Fatal(err)
		}
		for i, target := range targets {
			for member, value := range target {
				switch {
				case member == socketMember && before[i].text(socketMember) == "":
				case member == socketMember:
					assertOurs(t, "wss", target.text(member))
				case strings.HasPrefix(member, frontEndMember):
					if member != frontEndMember || !frontEnd {
						t.Errorf("%s: the answer contains %s", text, member)
					}
					assertOurs(t, "https", target.text(member))
				case string(value) != string(before[i][member]):
					t.Errorf("%s: %s was changed to %s", text, member, value)
				}
			}
		}
	})
}

// assertOurs fails if a URL is not one of the launch's.
func assertOurs(t *testing.T, scheme, address string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Scheme != scheme || u.Host != "edge.example" || !strings.HasPrefix(u.Path, "/w/1/browsers/launch-1/devtools/") {
		t.Errorf("got URL %q: %v", address, err)
	}
}
