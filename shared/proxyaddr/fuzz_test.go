package proxyaddr

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// address matches scheme://host[:port] as in the documents and RFC 3986, for hosts
// without percent-encoding.
var address = regexp.MustCompile(`^(https?|socks5)://([A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// FuzzCheck compares Check with the grammar, and checks that accepted addresses work
// with a proxy client.
func FuzzCheck(f *testing.F) {
	for _, server := range []string{
		"http://proxy.example:3128", "https://p", "socks5://[::1]:1080", "http://p:", "http://p:0", "http://p:65536", "http://p:+1", "http://p:00080",
		"socks5://:1", "HTTP://p", "http://p:3128/", "http://a@p:1", "http://[::1", "http://[::1]:", "http://p:1:2", "://", "http://%70:1", "http://p:18446744073709551617",
	} {
		f.Add(server, "robot", "secret")
		f.Add(server, "ro:bot", "")
		f.Add(server, "", "secret")
	}
	f.Fuzz(func(t *testing.T, server, username, password string) {
		wrong := map[string]bool{}
		for _, p := range Check(server, username, password) {
			if p.Message == "" || len(password) > 3 && strings.Contains(p.Message, password) && !strings.Contains(strings.Join(messages(), " "), password) {
				t.Errorf("it is said of %s: %q", p.Field, p.Message)
			}
			wrong[p.Field] = true
		}
		u, err := url.Parse(server)
		if !wrong["server"] {
			if err != nil || u.Hostname() == "" {
				t.Fatalf("%q names no host", server)
			}
			if port, err := strconv.Atoi(u.Port()); u.Port() != "" && (err != nil || port < 1 || port > 65535) {
				t.Fatalf("%q names the port %q", server, u.Port())
			}
		}
		if match := address.FindStringSubmatch(server); match != nil && err == nil {
			port, _ := strconv.ParseUint(strings.TrimPrefix(match[3], ":"), 10, 64)
			if fits := match[3] == "" || port >= 1 && port <= 65535; fits == wrong["server"] {
				t.Errorf("%q is refused: %v", server, wrong["server"])
			}
		}
		socks := strings.HasPrefix(server, "socks5:")
		if want := !socks && strings.Contains(username, ":") || socks && (username == "" && password != "" || len(username) > 255); want != wrong["username"] || wrong["password"] != (socks && len(password) > 255) {
			t.Errorf("%q with %q and a password: %v, which is refused: %v", server, username, password != "", wrong)
		}
	})
}

// messages returns the messages that do not repeat the input.
func messages() (all []string) {
	for _, c := range [][3]string{{"", "", ""}, {"http://p", "a:b", ""}, {"socks5://p", "", "x"}} {
		for _, p := range Check(c[0], c[1], c[2]) {
			all = append(all, p.Message)
		}
	}
	return all
}
