package netrules

import "testing"

func TestCheck_NamesTheRuleThatDecides(t *testing.T) {
	organization := Level{"organization", &Rules{Connect: &Filter{Deny: []string{"10.0.0.0/8", "tracker.test"}}, Block: []string{"ads"}}}
	profile := Level{"profile", &Rules{Navigate: &Filter{Allow: []string{"*.shop.test", "10.0.0.1"}, Ask: []string{"pay.shop.test", "https://tracker.test/ask"}}, Methods: &Methods{ReadOnly: true}}}
	launch := Level{"launch", &Rules{Connect: &Filter{Allow: []string{"*.test"}}}}
	p := newPolicy(t, organization, profile, launch)
	for _, c := range []struct {
		request Request
		want    Verdict
	}{
		{Request{"https://www.shop.test/", "GET", Document}, Verdict{Level: "profile", Rule: "navigate.allow: *.shop.test"}},
		{Request{"https://www.shop.test/", "POST", Document}, Verdict{Denied: true, Level: "profile", Rule: "methods.readOnly"}},
		{Request{"https://pay.shop.test/", "GET", Document}, Verdict{Denied: true, Ask: true, Level: "profile", Rule: "navigate.ask: pay.shop.test"}},
		{Request{"https://tracker.test/ask", "GET", Document}, Verdict{Denied: true, Level: "organization", Rule: "connect.deny: tracker.test"}},
		{Request{"https://other.test/", "GET", Document}, Verdict{Denied: true, Level: "profile", Rule: "navigate.allow"}},
		{Request{"https://other.test/", "GET", "other"}, Verdict{Level: "launch", Rule: "connect.allow: *.test"}},
		{Request{"http://10.0.0.1/", "GET", Document}, Verdict{Denied: true, Level: "organization", Rule: "connect.deny: 10.0.0.0/8"}},
		{Request{"https://www.shop.test/x", "GET", "ads"}, Verdict{Denied: true, Level: "organization", Rule: "block: ads"}},
		{Request{"wss://tracker.test/", "GET", "other"}, Verdict{Denied: true, Level: "organization", Rule: "connect.deny: tracker.test"}},
		{Request{"ws://live.test:8080/", "GET", "ads"}, Verdict{Level: "launch", Rule: "connect.allow: *.test"}},
		{Request{"ws://live.test/", "GET", Document}, Verdict{Denied: true, Level: "profile", Rule: "navigate.allow"}},
		{Request{"about:blank", "GET", Document}, Verdict{}},
		{Request{"data:text/html,x", "GET", Document}, Verdict{Denied: true, Level: "profile", Rule: "navigate.allow"}},
		{Request{"data:image/png,x", "GET", "image"}, Verdict{}},
	} {
		if v := p.Check(c.request); v != c.want {
			t.Errorf("%+v: %+v, want %+v", c.request, v, c.want)
		}
	}
	if v := (*Policy)(nil).Check(Request{"https://example.com/", "POST", Document}); v != (Verdict{}) {
		t.Errorf("without rules: %+v", v)
	}
}

func TestCanonical_SpellsLikeChromium(t *testing.T) {
	for text, want := range map[string]string{
		"HTTPS://Example.COM./a/../b?q#part":     "https://example.com/b?q#part",
		"https://bücher.example:8443/ü":          "https://xn--bcher-kva.example:8443/%C3%BC",
		"https://user:password@_dmarc.example":   "https://user:password@_dmarc.example/",
		" wss://[::1]:3000/x ":                   "wss://[::1]:3000/x",
		"https://example.com/100%":               "https://example.com/100%",
		"https://example.com/a|b":                "https://example.com/a|b",
		"https://example.com/a%7Cb":              "https://example.com/a%7Cb",
		"data:text/html,x":                       "data:text/html,x",
		"about:blank":                            "about:blank",
		"http://0xa010203/":                      "http://0xa010203/",
		"":                                       "",
		"example.com":                            "",
		"example.com/path":                       "",
		"//example.com":                          "",
		"https://":                               "",
		"https:///path":                          "",
		"ws://":                                  "",
		"https://exa mple.com/":                  "",
		`https:\\example.com\.evil.test/`:        "https://example.com/.evil.test/",
		"https://bücher.example/100%":            "",
		"https://example.com/100%\n":             "https://example.com/100%",
		"https://example.com/10\n0%":             "",
		"https://example.com/a/%2E%2e/%2e/b?/..": "https://example.com/b?/..",
		"https://example.com:99999/":             "",
	} {
		got, err := Canonical(text)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
