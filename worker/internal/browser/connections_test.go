package browser_test

import (
	"testing"

	"github.com/browser-svc/svc/worker/internal/browser"
)

func TestConnectionLimit_KeepsOtherState(t *testing.T) {
	const limits = `"max_connections_per_proxy":256,"max_connections_per_proxy_for_websocket":256`
	for kept, want := range map[string]string{
		``:                                     `{"net":{` + limits + `}}`,
		`no JSON`:                              `{"net":{` + limits + `}}`,
		`null`:                                 `{"net":{` + limits + `}}`,
		`[1]`:                                  `{"net":{` + limits + `}}`,
		`{"net":7}`:                            `{"net":{` + limits + `}}`,
		`{"a":{"b":9007199254740993}}`:         `{"a":{"b":9007199254740993},"net":{` + limits + `}}`,
		`{"net":{"a":1.50,"z":"` + "ä" + `"}}`: `{"net":{"a":1.50,` + limits + `,"z":"ä"}}`,
		`{"net":{"max_connections_per_proxy":32}}`: `{"net":{` + limits + `}}`,
	} {
		if got := string(browser.WithConnectionLimit([]byte(kept))); got != want {
			t.Errorf("%s: %s, want %s", kept, got, want)
		}
	}
}
