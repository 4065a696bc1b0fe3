package oapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/oapi/bundled"
)

func TestLoad_Bundles(t *testing.T) {
	doc := load(t)
	for form, text := range map[string][]byte{"JSON": doc.JSON(), "YAML": doc.YAML(), "JSON31": doc.JSON31(), "YAML31": doc.YAML31()} {
		if bytes.Contains(text, []byte("common.yaml")) {
			t.Errorf("%s still refers to another file", form)
		}
		alone, err := openapi3.NewLoader().LoadFromData(text)
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if err := alone.Validate(t.Context()); err != nil {
			t.Errorf("%s: %v", form, err)
		}
		if alone.Components.Schemas["Point"] == nil || alone.Components.Schemas["Color"] == nil {
			t.Errorf("%s lost a component of the other file", form)
		}
	}
	if !bytes.Contains(doc.YAML31(), []byte("\nopenapi: 3.1.0\n")) {
		t.Error("YAML31 is not OpenAPI 3.1")
	}
	if got := doc.T().OpenAPI; got != "3.0.3" {
		t.Errorf("version %s", got)
	}
}

func TestJSON31_Upgrades(t *testing.T) {
	var doc struct {
		OpenAPI    string
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Examples   []any
				Example    any
			}
		}
	}
	if err := json.Unmarshal(load(t).JSON31(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi: %s", doc.OpenAPI)
	}
	thing := doc.Components.Schemas["Thing"].Properties
	got := map[string]any{"ratio": thing["ratio"], "shade": thing["shade"], "hue": thing["hue"], "override": thing["override"]}
	want := map[string]any{
		"ratio": map[string]any{"type": "number", "format": "double", "exclusiveMinimum": 0.0, "maximum": 1.0},
		"shade": map[string]any{"type": []any{"string", "null"}, "enum": []any{"dark", "light", nil}},
		"hue":   map[string]any{"type": []any{"string", "null"}, "enum": []any{"warm", "cold", nil}},
		"override": map[string]any{"anyOf": []any{
			map[string]any{"allOf": []any{map[string]any{"$ref": "#/components/schemas/Proxy"}}},
			map[string]any{"type": "null"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if color := doc.Components.Schemas["Color"]; color.Example != nil || len(color.Examples) != 1 {
		t.Errorf("example of Color: %+v", color)
	}
}

func TestNewGuard_RefusesUnsupportedDocuments(t *testing.T) {
	text, err := os.ReadFile("testdata/api.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ old, replacement, want string }{
		"a scheme without authenticator": {"{session: []}, {bearer: []}", "{viewer: []}", "viewer has no authenticator"},
		"no word about security":         {"security: []\n      requestBody:\n        required: true\n        content: {application/octet", "requestBody:\n        required: true\n        content: {application/octet", "security is missing"},
		"an unknown format":              {"format: uri}", "format: link}", `format "link"`},
		"an object in the query":         {"name: on, in: query, schema: {type: boolean}", "name: on, in: query, schema: {type: object}", "parameter on"},
		"roles that are no list":         {"x-roles: [owner, admin]", "x-roles: owner", "x-roles"},
		"an unknown organization rule":   {"x-active-organization: any", "x-active-organization: own", "x-active-organization"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(text), test.old, test.replacement, 1)
			if changed == string(text) {
				t.Fatal("the text to replace is missing")
			}
			common, err := os.ReadFile("testdata/common.yaml")
			if err != nil {
				t.Fatal(err)
			}
			files := fstest.MapFS{"api.yaml": {Data: []byte(changed)}, "common.yaml": {Data: common}}
			doc, err := bundled.Load(t.Context(), files, "api.yaml")
			if err != nil {
				t.Fatal(err)
			}
			_, err = oapi.NewGuard(doc.Document, oapi.Options{Authenticators: authenticators()})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestOperationID_OfMethodAndRoute(t *testing.T) {
	doc := load(t)
	for _, test := range []struct{ method, route, want string }{
		{"GET", "/open", "getOpen"},
		{"POST", "/open", "postOpen"},
		{"HEAD", "/open", "getOpen"},
		{"GET", "/raw/:any", "getRaw"}, // without a guard
		{"GET", "/things/:thingId", "getThing"},
		{"DELETE", "/open", ""},
		{"MADE-UP", "/open", ""},
		{"GET", "/*", ""},
		{"GET", "", ""},
	} {
		if got := doc.OperationID(test.method, test.route); got != test.want {
			t.Errorf("%s %s: got %q, want %q", test.method, test.route, got, test.want)
		}
	}
}
