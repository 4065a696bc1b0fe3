package apikey_test

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oasdiff/yaml"

	"github.com/browser-svc/svc/cloud/internal/tenancy/apikey"
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
			" --volume svc-worker:/data --shm-size 2g --stop-timeout 80 --security-opt seccomp=worker/seccomp.json --security-opt systempaths=unconfined" +
			" registry.example.com/<org-key-lower>/local-api",
		Binary: "SVC_KEY=<org-key> SVC_CLOUD_URL=https://cloud.example.com svc-worker",
		Source: "SVC_KEY=<org-key> SVC_CLOUD_URL=https://cloud.example.com go run ./worker",
	}
	want.Compose, want.Kubernetes = got.Compose, got.Kubernetes // see the next test
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("guide (-want +got):\n%s", diff)
	}
	without := apikey.Connector{Cloud: cloud}.Guide()
	if without.Image != "" || without.Docker != "" || without.Compose != "" || without.Kubernetes != "" || !strings.Contains(without.Source, "go run ./worker") {
		t.Errorf("without a registry: %+v", without)
	}
}

// The files have the options of the command and of docker-compose.yml.
func TestConnector_GuideHasDeploymentFiles(t *testing.T) {
	got := apikey.Connector{Cloud: cloud, Registry: "registry.example.com"}.Guide()

	compose := parseYAML(t, got.Compose)
	if len(compose) != 1 {
		t.Fatalf("compose: %d documents", len(compose))
	}
	worker := valueAt(compose[0], "services", "worker")
	production := valueAt(parseFile(t, "../../../../docker-compose.yml"), "services", "worker")
	for path, want := range map[string]any{
		"image": "registry.example.com/<org-key-lower>/local-api", "restart": "unless-stopped",
		"environment.SVC_KEY": "<org-key>", "environment.API_KEY": "${API_KEY:-}",
		"environment.SVC_CLOUD_URL": "https://cloud.example.com", "environment.PUBLIC_URL": "http://localhost:38923",
		"ports": []any{"127.0.0.1:38923:38923"}, "volumes": valueAt(production, "volumes").([]any)[:1], "shm_size": valueAt(production, "shm_size"),
		"security_opt": []any{"seccomp:worker/seccomp.json", "systempaths=unconfined"}, "stop_grace_period": "80s",
		"healthcheck.test": []any{"CMD", "svc-worker", "health", "--live"},
	} {
		if diff := cmp.Diff(want, valueAt(worker, strings.Split(path, ".")...)); diff != "" {
			t.Errorf("compose %s (-want +got):\n%s", path, diff)
		}
	}

	objects := map[string]any{}
	for _, object := range parseYAML(t, got.Kubernetes) {
		objects[valueAt(object, "kind").(string)] = object
		if name := valueAt(object, "metadata", "name"); name != "svc-worker" {
			t.Errorf("%s is named %v", valueAt(object, "kind"), name)
		}
	}
	pod := valueAt(objects["Deployment"], "spec", "template", "spec")
	container := valueAt(pod, "containers").([]any)[0]
	for _, test := range []struct {
		document any
		path     string
		want     any
	}{
		{objects["Secret"], "stringData.SVC_KEY", "<org-key>"},
		{objects["PersistentVolumeClaim"], "spec.accessModes", []any{"ReadWriteOnce"}},
		{objects["Service"], "spec.selector", valueAt(objects["Deployment"], "spec", "template", "metadata", "labels")},
		{objects["Service"], "spec.publishNotReadyAddresses", true},
		{objects["Deployment"], "spec.selector.matchLabels", valueAt(objects["Deployment"], "spec", "template", "metadata", "labels")},
		{pod, "terminationGracePeriodSeconds", 80.0},
		{container, "image", "registry.example.com/<org-key-lower>/local-api"},
		{container, "readinessProbe.httpGet.path", "/readyz"},
		{container, "livenessProbe.httpGet.path", "/livez"},
		{container, "livenessProbe.httpGet.port", 38923.0},
		{container, "env", []any{
			map[string]any{"name": "SVC_CLOUD_URL", "value": "https://cloud.example.com"},
			map[string]any{"name": "PUBLIC_URL", "value": "http://svc-worker:38923"},
		}},
	} {
		if diff := cmp.Diff(test.want, valueAt(test.document, strings.Split(test.path, ".")...)); diff != "" {
			t.Errorf("manifest %s (-want +got):\n%s", test.path, diff)
		}
	}
	for name, text := range map[string]string{"compose": got.Compose, "manifest": got.Kubernetes} {
		if strings.Contains(text, "%!") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

func parseFile(t *testing.T, name string) any {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return parseYAML(t, string(text))[0]
}

// parseYAML returns the documents of a YAML text.
func parseYAML(t *testing.T, text string) (documents []any) {
	t.Helper()
	for part := range strings.SplitSeq(text, "\n---\n") {
		var document any
		if _, err := yaml.Unmarshal([]byte(part), &document, yaml.DecodeOpts{}); err != nil {
			t.Fatalf("%v:\n%s", err, part)
		}
		documents = append(documents, document)
	}
	return documents
}

// valueAt returns the value at a path of keys, nil if there is none.
func valueAt(value any, path ...string) any {
	for _, key := range path {
		members, _ := value.(map[string]any)
		value = members[key]
	}
	return value
}
