package app

import (
	"archive/zip"
	"bytes"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/clock"
	"github.com/browser-svc/svc/worker/internal/browser/extension"
	"github.com/browser-svc/svc/worker/internal/browser/sandbox"
)

func TestExtensions_RefusesProxyPermissionWithoutNetworkNamespace(t *testing.T) {
	store, err := extension.Open(extension.Options{Dir: t.TempDir(), Clock: clock.System{}})
	if err != nil {
		t.Fatal(err)
	}
	for permission, harmful := range map[string]bool{"tabs": false, "proxy": true, "privacy": true} {
		var packed bytes.Buffer
		w := zip.NewWriter(&packed)
		f, err := w.Create("manifest.json")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(`{"manifest_version":3,"name":"x","version":"1","permissions":["` + permission + `"]}`))
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		stored, err := store.Add(t.Context(), &packed)
		if err != nil {
			t.Fatal(err)
		}
		for isolated, report := range map[bool]sandbox.Report{
			false: sandbox.DisabledReport("a test"), true: {Pieces: []sandbox.Piece{{Name: sandbox.NetworkNamespace, On: true}}},
		} {
			found, problem := extensions{store, func() sandbox.Report { return report }}.Find(stored.ID)
			if refused := problem != nil && strings.Contains(problem.Message, "bypass the egress policy"); refused != (harmful && !isolated) {
				t.Errorf("%s, network namespace %v: problem %v", permission, isolated, problem)
			}
			if problem == nil && found.ChromiumID != stored.ChromiumID {
				t.Errorf("found %+v", found)
			}
		}
	}
}
