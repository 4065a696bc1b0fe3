package browser_test

import (
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestProxySettings_KeepOtherState(t *testing.T) {
	const off = `"dns_over_https":{"mode":"off"},`
	const limits = `"max_connections_per_proxy":256,"max_connections_per_proxy_for_websocket":256`
	for kept, want := range map[string]string{
		``:                                     `{` + off + `"net":{` + limits + `}}`,
		`no JSON`:                              `{` + off + `"net":{` + limits + `}}`,
		`null`:                                 `{` + off + `"net":{` + limits + `}}`,
		`[1]`:                                  `{` + off + `"net":{` + limits + `}}`,
		`{"net":7}`:                            `{` + off + `"net":{` + limits + `}}`,
		`{"a":{"b":9007199254740993}}`:         `{"a":{"b":9007199254740993},` + off + `"net":{` + limits + `}}`,
		`{"net":{"a":1.50,"z":"` + "ä" + `"}}`: `{` + off + `"net":{"a":1.50,` + limits + `,"z":"ä"}}`,
		`{"dns_over_https":{"mode":"secure","templates":"https://resolver.example/"}}`: `{` + off + `"net":{` + limits + `}}`,
		`{"net":{"max_connections_per_proxy":32}}`:                                     `{` + off + `"net":{` + limits + `}}`,
	} {
		if got := string(browser.WithProxySettings([]byte(kept))); got != want {
			t.Errorf("%s: %s, want %s", kept, got, want)
		}
	}
}
