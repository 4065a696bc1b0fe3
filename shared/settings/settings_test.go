package settings

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/gen/cloudapi"
	"github.com/browser-svc/svc/gen/workerapi"
)

// document has the parts of an OpenAPI document that describe settings.
type document struct {
	Components struct {
		Schemas map[string]struct {
			Properties map[string]struct {
				Ref string `json:"$ref"`
			}
			Enum []any
		}
	}
}

// TestSettings_EqualDocuments compares the JSON names and the enums of the type with those
// of the API documents.
func TestSettings_EqualDocuments(t *testing.T) {
	var cloud, worker document
	if err := json.Unmarshal(cloudapi.Document, &cloud); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(workerapi.Document, &worker); err != nil {
		t.Fatal(err)
	}
	var all Settings
	names := jsonNames(reflect.TypeOf(all))
	properties := func(d document, schema string, others ...string) (found []string) {
		for name := range d.Components.Schemas[schema].Properties {
			if !slices.Contains(others, name) {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		return found
	}
	profile := []string{"name", "notes", "tags", "browserVersion", "os", "clientCertificates", "persist", "metadata"}
	for _, schema := range []string{"CreateProfileRequest", "UpdateProfileRequest"} {
		if diff := cmp.Diff(names, properties(cloud, schema, profile...)); diff != "" {
			t.Errorf("%s (-type +document):\n%s", schema, diff)
		}
	}
	for _, name := range properties(worker, "BrowserSettings", "name", "headless", "engine", "extensions", "state", "replay", "timeoutMs", "connectTimeoutSeconds",
		"logs", "readOnly", "keepAlive", "keepFiles", "clientCertificates", "metadata") {
		if !slices.Contains(names, name) {
			t.Errorf("BrowserSettings has %s, the type has not", name)
		}
	}
	compare := func(name string, _ *string, enum []string) {
		ref := cloud.Components.Schemas["CreateProfileRequest"].Properties[name].Ref
		var documented []string
		for _, value := range cloud.Components.Schemas[ref[strings.LastIndex(ref, "/")+1:]].Enum {
			if value, ok := value.(string); ok {
				documented = append(documented, value)
			}
		}
		if diff := cmp.Diff(documented, enum); diff != "" {
			t.Errorf("%s (-document +type):\n%s", name, diff)
		}
	}
	VisitEnums(&all.Identity, compare)
	VisitEnums(&all.Emulation, compare)
}

func jsonNames(group reflect.Type) (names []string) {
	for field := range group.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			names = append(names, jsonNames(field.Type)...)
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestWithDefaults_KeepsWhatIsSet(t *testing.T) {
	base := Settings{
		Identity: Identity{Model: "M"}, Emulation: Emulation{Locale: "de-DE", IsMobile: new(true), Viewport: &Size{1, 2}},
		Options: Options{Args: []string{"--base"}, Permissions: []string{"camera"}}, IdleTimeoutSeconds: new(int32(5)),
	}
	own := Settings{Emulation: Emulation{Locale: "fr-FR", IsMobile: new(false)}, Options: Options{Args: []string{}}, IdleTimeoutSeconds: new(int32(0))}
	want := base
	want.Locale, want.IsMobile, want.Args, want.IdleTimeoutSeconds = "fr-FR", own.IsMobile, own.Args, own.IdleTimeoutSeconds
	if diff := cmp.Diff(want, own.WithDefaults(base)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkConvert(b *testing.B) {
	var s Settings
	s.Locale, s.Viewport, s.StartURLs = "de-DE", &Size{1280, 720}, []string{"https://example.com/"}
	for b.Loop() {
		if _, err := Convert[cloudapi.ProfileConfig](s); err != nil {
			b.Fatal(err)
		}
	}
}
