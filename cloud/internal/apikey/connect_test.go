package apikey_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/browser-svc/svc/cloud/internal/apikey"
)

var cloud = &url.URL{Scheme: "https", Host: "cloud.example.com"}

func TestConnector_ImageHasLowercaseKey(t *testing.T) {
	for registry, want := range map[string]string{
		"registry.example.com":          "registry.example.com/svc_ab12/local-api",
		"registry.example.com:5000/":    "registry.example.com:5000/svc_ab12/local-api",
		"https://registry.example.com/": "registry.example.com/svc_ab12/local-api",
		"":                              "",
	} {
		if got := (apikey.Connector{Cloud: cloud, Registry: registry}).Image("SVC_Ab12"); got != want {
			t.Errorf("at %q: %q, want %q", registry, got, want)
		}
	}
}

func TestConnector_GuideHasPlaceholders(t *testing.T) {
	got := apikey.Connector{Cloud: cloud, Registry: "registry.example.com"}.Guide()
	want := apikey.Guide{
		CloudURL: "https://cloud.example.com",
		Image:    "registry.example.com/<org-key-lower>/local-api",
		Docker: "SVC_KEY=<org-key> docker run --detach --name svc-worker --env SVC_KEY" +
			" --env SVC_CLOUD_URL=https://cloud.example.com --publish 127.0.0.1:38923:38923" +
			" --volume svc-worker:/data --shm-size 2g --security-opt seccomp=worker/seccomp.json" +
			" registry.example.com/<org-key-lower>/local-api",
		Source: "SVC_KEY=<org-key> SVC_CLOUD_URL=https://cloud.example.com go run ./worker",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("guide (-want +got):\n%s", diff)
	}
	without := apikey.Connector{Cloud: cloud}.Guide()
	if without.Image != "" || without.Docker != "" || !strings.Contains(without.Source, "go run ./worker") {
		t.Errorf("without a registry: %+v", without)
	}
}
