package bundled_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/browser-svc/svc/shared/oapi/bundled"
)

func TestLoadRefuses(t *testing.T) {
	head := "openapi: 3.0.3\ninfo: {title: t, version: '1'}\n"
	named := head + "paths: {}\ncomponents: {schemas: {A: {type: string}}}"
	op := func(ref string) string {
		return `{description: d, content: {application/json: {schema: {$ref: '` + ref + `'}}}}`
	}
	tests := map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"missing file": {fstest.MapFS{}, "not exist"},
		"not YAML":     {fstest.MapFS{"a.yaml": {Data: []byte("{")}}, "load a.yaml"},
		"invalid":      {fstest.MapFS{"a.yaml": {Data: []byte(head)}}, "validate a.yaml"},
		"remote":       {fstest.MapFS{"a.yaml": {Data: []byte(head + "paths: {/a: {$ref: 'http://127.0.0.1:1/x.yaml'}}")}}, "only references to local files"},
		"one name, two": {fstest.MapFS{
			"a.yaml": {Data: []byte(head + "paths: {/a: {get: {responses: {'200': " + op("b.yaml#/components/schemas/A") + ", '201': " + op("c.yaml#/components/schemas/A") + "}}}}")},
			"b.yaml": {Data: []byte(named)}, "c.yaml": {Data: []byte(named)},
		}, "duplicate component schemas/A"},
		"one name, own and other": {fstest.MapFS{
			"a.yaml": {Data: []byte(head + "paths: {/a: {get: {responses: {'200': " + op("b.yaml#/components/schemas/A") + ", '201': " + op("#/components/schemas/A") + "}}}}\ncomponents: {schemas: {A: {type: integer}}}")},
			"b.yaml": {Data: []byte(named)},
		}, "duplicate component schemas/A"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := bundled.Load(t.Context(), test.files, "a.yaml")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// TestLoad_NamesEnumValues covers generators that declare the constants of all enums in
// one scope.
func TestLoad_NamesEnumValues(t *testing.T) {
	text := `openapi: 3.0.3
info: {title: t, version: '1'}
paths: {}
components:
  schemas:
    State: {type: string, nullable: true, enum: [in_progress, lastSeenAt, NOT_FOUND, no-preference, '7', null]}
    Flag: {type: boolean, enum: [true]}
    Text: {type: string}`
	doc, err := bundled.Load(t.Context(), fstest.MapFS{"a.yaml": {Data: []byte(text)}}, "a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"State": []any{"StateInProgress", "StateLastSeenAt", "StateNotFound", "StateNoPreference", "State7"}, "Flag": nil, "Text": nil}
	for name, names := range want {
		if got := doc.T().Components.Schemas[name].Value.Extensions["x-enum-varnames"]; !reflect.DeepEqual(got, names) {
			t.Errorf("%s: got %v, want %v", name, got, names)
		}
	}
}
