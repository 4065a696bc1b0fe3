package netrules

import (
	"net/netip"
	"strings"
	"testing"
)

func newPolicy(t *testing.T, levels ...Level) *Policy {
	t.Helper()
	p, err := NewPolicy(levels...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNavigate_AppliesPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern        string
		allowed, other string // space-separated
	}{
		{"example.com", "https://example.com/ http://example.com:8080/x https://EXAMPLE.com./", "https://www.example.com/ https://example.com.evil.test/ https://notexample.com/"},
		{"*.example.com", "https://example.com/ https://a.b.example.com/?q", "https://example.com.evil.test/ https://aexample.com/ https://evil.test/.example.com"},
		{"example.com:8443", "https://example.com:8443/", "https://example.com/ https://example.com:443/"},
		{"https://example.com", "https://example.com/a/b", "http://example.com/"},
		{"https://example.com/", "https://example.com/a/b https://example.com", "http://example.com/"},
		{"https://accounts.example.org/login*", "https://accounts.example.org/login https://accounts.example.org/login?next=/a https://accounts.example.org/login/two", "https://accounts.example.org/ https://accounts.example.org/admin?/login"},
		{"https://example.com/a", "https://example.com/a https://example.com/a#part https://user:password@example.com/a https://user:pass%40word@example.com/a", "https://example.com/a?q https://example.com/a/b https://example.com/ https://example.com%40evil.test/a https://example.com%20@evil.test/a"},
		{"*", "https://anything.test/ http://10.0.0.1/", "data:text/html,x file:///etc/passwd chrome://version/ blob:https://example.com/1 javascript:alert(1) view-source:https://example.com/ filesystem:https://example.com/x about:version"},
		{"https://example.com/100%*", "https://example.com/100% https://example.com/100%zz?q", "https://example.com/100"},
		{"data:", "data:text/html,x", "https://example.com/ blob:https://example.com/1"},
		{"10.0.0.0/8", "http://10.1.2.3/ http://0xa010203/ http://167838211/ http://[::ffff:10.1.2.3]/", "http://11.0.0.1/ http://10.example.com/"},
		{"[::1]:3000", "http://[::1]:3000/ http://[0:0::1]:3000/", "http://[::1]/ http://[::2]:3000/"},
		{"bücher.example", "https://xn--bcher-kva.example/", "https://bucher.example/"},
		{"_dmarc.example.com", "https://_dmarc.example.com/", "https://dmarc.example.com/"},
		{"EXAMPLE.com", "https://example.com/", "https://example.org/"},
	} {
		p := newPolicy(t, Level{"launch", &Rules{Navigate: &Filter{Allow: []string{c.pattern}}}})
		denying := newPolicy(t, Level{"launch", &Rules{Navigate: &Filter{Deny: []string{c.pattern}, Allow: []string{"*", "data:"}}}})
		for address := range strings.FieldsSeq(c.allowed) {
			if v := p.Navigate(address); v.Denied {
				t.Errorf("%s is denied by %q: %v", address, c.pattern, v)
			}
			if v := denying.Navigate(address); !v.Denied || v.Rule != "navigate.deny: "+c.pattern {
				t.Errorf("%s is not denied by deny %q: %v", address, c.pattern, v)
			}
		}
		for address := range strings.FieldsSeq(c.other) {
			if v := p.Navigate(address); !v.Denied {
				t.Errorf("%s is allowed by %q", address, c.pattern)
			}
		}
	}
}

func TestNavigate_AllowsBlankDocuments(t *testing.T) {
	p := newPolicy(t, Level{"launch", &Rules{Navigate: &Filter{Allow: []string{}}}})
	for address, denied := range map[string]bool{"about:blank": false, "about:blank#part": false, "about:srcdoc": false, "about:blankets": true, "": false, "https://example.com/": true, "https://exa mple.com/": true} {
		if v := p.Navigate(address); v.Denied != denied {
			t.Errorf("%q: %v", address, v)
		}
	}
}

func TestPolicy_LevelsNarrow(t *testing.T) {
	organization := Level{"organization", &Rules{Navigate: &Filter{Allow: []string{"*.example.com"}}}}
	launch := Level{"launch", &Rules{Navigate: &Filter{Allow: []string{"*", "www.example.com"}, Deny: []string{"admin.example.com"}}}}
	p := newPolicy(t, organization, Level{"profile", nil}, launch)
	for address, want := range map[string]Verdict{
		"https://www.example.com/":   {Level: "organization", Rule: "navigate.allow: *.example.com"},
		"https://evil.test/":         {Denied: true, Level: "organization", Rule: "navigate.allow"},
		"https://admin.example.com/": {Denied: true, Level: "launch", Rule: "navigate.deny: admin.example.com"},
	} {
		if v := p.Navigate(address); v != want {
			t.Errorf("%s: %v, want %v", address, v, want)
		}
	}
	if p := newPolicy(t, Level{"profile", nil}); p != nil || p.Navigate("file:///").Denied || p.Connect("a", 1).Denied || p.Request("POST", "image").Denied {
		t.Errorf("no rules deny: %v", p)
	}
}

func TestConnect_MatchesHostsAndAddresses(t *testing.T) {
	p := newPolicy(t, Level{"profile", &Rules{Connect: &Filter{Allow: []string{"*.example.com", "192.0.2.0/24", "api.test:443"}, Deny: []string{"10.0.0.0/8", "ads.example.com", "192.0.2.7"}}}})
	for _, c := range []struct {
		host   string
		port   uint16
		denied bool
	}{
		{"www.example.com", 443, false}, {"WWW.EXAMPLE.COM.", 443, false}, {"ads.example.com", 443, true}, {"a.ads.example.com", 443, false},
		{"192.0.2.1", 80, false}, {"0xC0000201", 80, false}, {"192.0.2.7", 80, true}, {"3221225991", 80, true}, {"[::ffff:192.0.2.7]", 80, true},
		{"api.test", 443, false}, {"api.test", 80, true}, {"evil.test", 443, true}, {"10.1.1.1", 80, true},
	} {
		if v := p.Connect(c.host, c.port); v.Denied != c.denied {
			t.Errorf("%s:%d: %v", c.host, c.port, v)
		}
	}
	for address, denied := range map[string]bool{"10.0.0.1:443": true, "[::ffff:10.0.0.1]:443": true, "[64:ff9b::a00:1]:443": true, "203.0.113.1:443": false} {
		if v := p.ConnectAddress(netip.MustParseAddrPort(address)); v.Denied != denied {
			t.Errorf("%s: %v", address, v)
		}
	}
}

func TestRequest_RefusesMethodsAndTypes(t *testing.T) {
	p := newPolicy(t, Level{"profile", &Rules{Methods: &Methods{ReadOnly: true}, Block: []string{"image"}}})
	for method, want := range map[string]Verdict{
		"GET": {}, "HEAD": {}, "OPTIONS": {}, "POST": {Denied: true, Level: "profile", Rule: "methods.readOnly"}, "get": {Denied: true, Level: "profile", Rule: "methods.readOnly"}, "PATCH": {Denied: true, Level: "profile", Rule: "methods.readOnly"},
	} {
		if v := p.Request(method, "document"); v != want {
			t.Errorf("%s: %v", method, v)
		}
	}
	if v := p.Request("GET", "image"); v.Rule != "block: image" {
		t.Errorf("image: %v", v)
	}
}

func TestCheck_NamesEachInvalidPattern(t *testing.T) {
	invalid := []string{"", "a b", "ftp://example.com", "example.com:0", "example.com:99999", "*.10.0.0.1", "ex*mple.com", "[::1", "1.2.3", "10.0.0.0/33", "https://", "https://a/ b", "user@example.com"}
	r := &Rules{Navigate: &Filter{Allow: invalid, Deny: []string{"ok.test"}}, Connect: &Filter{Allow: []string{"*", "::1"}, Deny: []string{"https://example.com", "data:", "example.com/path"}}}
	details := r.Check("browser.network.")
	if len(details) != len(invalid)+3 {
		for _, d := range details {
			t.Log(d.Field, d.Received)
		}
		t.Fatalf("%d details, want %d", len(details), len(invalid)+3)
	}
	if details[1].Field != "browser.network.navigate.allow[1]" || details[1].Received != "a b" || details[len(details)-1].Field != "browser.network.connect.deny[2]" {
		t.Errorf("details: %+v", details)
	}
	if _, err := NewPolicy(Level{"launch", r}); err == nil {
		t.Error("invalid patterns make a policy")
	}
}

func TestNavigate_Asks(t *testing.T) {
	organization := Level{"organization", &Rules{Navigate: &Filter{Ask: []string{"*.bank.test"}, Deny: []string{"evil.bank.test"}}}}
	launch := Level{"launch", &Rules{Navigate: &Filter{Allow: []string{"*.test"}, Ask: []string{"https://pay.test/orders*", "other.example"}, Deny: []string{"admin.bank.test"}}}}
	p := newPolicy(t, organization, launch)
	for address, want := range map[string]Verdict{
		"https://www.test/":           {Level: "launch", Rule: "navigate.allow: *.test"},
		"https://pay.test/":           {Level: "launch", Rule: "navigate.allow: *.test"},
		"https://pay.test/orders/1":   {Denied: true, Ask: true, Level: "launch", Rule: "navigate.ask: https://pay.test/orders*"},
		"https://other.example/":      {Denied: true, Ask: true, Level: "launch", Rule: "navigate.ask: other.example"},
		"https://www.bank.test/":      {Denied: true, Ask: true, Level: "organization", Rule: "navigate.ask: *.bank.test"},
		"https://evil.bank.test/":     {Denied: true, Level: "organization", Rule: "navigate.deny: evil.bank.test"},
		"https://admin.bank.test/":    {Denied: true, Level: "launch", Rule: "navigate.deny: admin.bank.test"},
		"https://www.example/":        {Denied: true, Level: "launch", Rule: "navigate.allow"},
		"data:text/html,bank.test":    {Denied: true, Level: "organization", Rule: "navigate.allow"},
		"view-source:https://a.test/": {Denied: true, Level: "organization", Rule: "navigate.allow"},
	} {
		if v := p.Navigate(address); v != want {
			t.Errorf("%s: %+v, want %+v", address, v, want)
		}
	}
	if !p.FiltersPaths() {
		t.Error("a service worker of an allowed document could answer for the person")
	}
	details := (&Rules{Navigate: &Filter{Ask: []string{"ok.test", "data:", "a b"}}}).Check("network.")
	if len(details) != 2 || details[0].Field != "network.navigate.ask[1]" {
		t.Errorf("details: %+v", details)
	}
}
