package fault

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMaskSecrets(t *testing.T) {
	const key = "svc_abcdefghijklmnopqrstuvwxyz234567"
	for text, want := range map[string]string{
		"":                                   "",
		"/v1/plans":                          "/v1/plans",
		key:                                  "svc_***",
		"/v2/" + strings.ToUpper(key) + "/x": "/v2/svc_***/x",
		"svc_short":                          "svc_short",
		"eyJhbGciOiJIUzI1NiJ9.eyJhdWQiOiJ4In0.c2lnbmF0dXJl": "***",
		"http://ann:hunter2@proxy.example:8080/":            "http://***@proxy.example:8080/",
		"socks5://ann@proxy.example":                        "socks5://***@proxy.example",
		"ann@example.com":                                   "ann@example.com",
		"https://example.com/@ann":                          "https://example.com/@ann",
	} {
		got := MaskSecrets(text)
		if got != want || MaskSecrets(got) != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

func TestRedactReceived_TruncatesAtThousandCharacters(t *testing.T) {
	exact, long := strings.Repeat("é", MaxReceived), strings.Repeat("é", MaxReceived+1)
	list := strings.Split(strings.Repeat("a,", MaxReceived), ",")
	encoded, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ received, want any }{
		"a text that fits": {exact, exact},
		"a text":           {long, exact + "…"},
		"cut already":      {exact + "…", exact + "…"},
		"a list":           {list, string(encoded[:MaxReceived]) + "…"},
		"a number":         {7, 7},
		"a password in it": {"http://a:b@c", "http://***@c"},
	} {
		if got := RedactReceived(test.received); got != test.want {
			t.Errorf("%s is %v, want %v", name, got, test.want)
		}
	}
}
