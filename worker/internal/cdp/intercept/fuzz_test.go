package intercept

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzClassify checks that the recipient of a message is that of its first method, found
// by a JSON decoder, and that a decision on the beginning of a message does not change
// with its rest.
func FuzzClassify(f *testing.F) {
	for _, message := range []string{
		svcCall, `{"method":"Svc.x","id":1}`, `{"params":{"method":"Svc.x"},"method":"Page.x"}`, `{"id":1,"m\u0065thod":"\u0053vc.a"}`, `{"method":["Svc.a"]}`,
		`{"method":"Sv"}`, `{"id":1,"method":"Target.createBrowserContext","params":{}}`, `{"method":"DOM.setFileInputFile"}`, `{"id":1,"method":"Runtime.callFunctionOn"}`, `{"method":"Target.disposeBrowserC\u006fntext"}`, `{"method":"Svc"}`, `{"a":-1.5e+9,"b":[{},"]"],"c":null,"method":"Svc."}`, `{}`, `[{"method":"Svc.a"}]`, `{"method":"Svc\u002e"}`, `{"method":"\`, `{"method" "Svc.x"}`, "\ufeff" + svcCall,
		`{"method":"Page.x","method":"Svc.x"}`, `{"Method":"Svc.x"}`, `{"id":"\"","method":"Svc.a"}`, `{"id":"\\","method":"Svc.a"}`,
	} {
		f.Add([]byte(message))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		if len(message) > 512 {
			return
		}
		settled := undecided
		for n := range len(message) + 1 {
			v := classify(message[:n])
			if v != undecided && settled != undecided && v != settled {
				t.Fatalf("%q has recipient %d, its prefix had %d", message[:n], v, settled)
			}
			if v != undecided {
				settled = v
			}
		}
		if want := recipientOf(firstMethod(message)); json.Valid(message) && settled != want && (settled != undecided || want != forBrowser) {
			t.Errorf("%q has recipient %d, want %d", message, settled, want)
		}
	})
}

// firstMethod returns the first method of a JSON object, if it is text.
func firstMethod(message []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(message))
	if open, _ := decoder.Token(); open != json.Delim('{') {
		return ""
	}
	for decoder.More() {
		name, _ := decoder.Token()
		var value any
		_ = decoder.Decode(&value)
		if name == "method" {
			text, _ := value.(string)
			return text
		}
	}
	return ""
}
