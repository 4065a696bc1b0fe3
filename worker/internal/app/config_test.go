package app_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/env"
	"github.com/browser-svc/svc/shared/testenv"
	"github.com/browser-svc/svc/worker/internal/app"
)

var update = flag.Bool("update", false, "rewrite the generated files")

func TestReadme_ListsConfiguration(t *testing.T) {
	const page = "../../CONFIGURATION.md"
	var err error
	if *update {
		err = testenv.UpdateMarkdown(page, "worker", env.Table[app.Config]())
	} else {
		err = testenv.CheckMarkdown(page, "worker", env.Table[app.Config]())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestConfig_EmptyEnvironmentIsValid(t *testing.T) {
	config, err := env.Parse[app.Config](map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if config.Port != 3000 || config.CloudURL != "http://localhost:8080" || config.AllowNoSandbox {
		t.Errorf("config %+v", config)
	}
}

func TestConfig_ReportsAllProblemsAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name    string
		environ map[string]string
		says    []string
	}{
		{"types", map[string]string{"PORT": "a", "ALLOW_NO_SANDBOX": "perhaps", "TRUSTED_PROXIES": "10.0.0.0/99", "LOG_LEVEL": "loud"},
			[]string{"PORT", "ALLOW_NO_SANDBOX", "TRUSTED_PROXIES", "LOG_LEVEL"}},
		{"rules", map[string]string{"PORT": "65536", "WORKER_ID": "a/b", "PUBLIC_URL": "ftp://x", "SVC_CLOUD_URL": "cloud"},
			[]string{"PORT", "WORKER_ID", "PUBLIC_URL", "SVC_CLOUD_URL"}},
		{"profile data", map[string]string{"PROFILE_DATA_MB": "-1"}, []string{"PROFILE_DATA_MB"}},
		{"a retention that is too short", map[string]string{"FILES_RETENTION": "10ms"}, []string{"FILES_RETENTION"}},
		{"lifetimes out of range", map[string]string{"IDLE_TIMEOUT": "169h", "IDLE_TIMEOUT_LIMIT": "-1s", "CONNECT_TIMEOUT": "1500ms"},
			[]string{"IDLE_TIMEOUT must", "IDLE_TIMEOUT_LIMIT must", "CONNECT_TIMEOUT must"}},
		{"defaults above limits", map[string]string{"IDLE_TIMEOUT": "5m", "IDLE_TIMEOUT_LIMIT": "1m", "MAX_DURATION": "2h", "MAX_DURATION_LIMIT": "1h"},
			[]string{"IDLE_TIMEOUT (5m0s) must not be greater than IDLE_TIMEOUT_LIMIT (1m0s)", "MAX_DURATION (2h0m0s)"}},
		{"no port", map[string]string{"PORT": "0"}, []string{"PORT"}},
		{"resume limits out of range", map[string]string{"RESUME_SECONDS": "86400"}, []string{"RESUME_SECONDS"}},
		{"a public URL without a host", map[string]string{"PUBLIC_URL": "https://"}, []string{"PUBLIC_URL"}},
		{"a password in a URL", map[string]string{"SVC_CLOUD_URL": "https://u:hidden@cloud.example"}, []string{"SVC_CLOUD_URL"}},
		{"a directive after an origin", map[string]string{"VIEW_FRAME_ANCESTORS": "https://app.example; script-src *"}, []string{"VIEW_FRAME_ANCESTORS"}},
		{"an origin with a path", map[string]string{"VIEW_FRAME_ANCESTORS": "https://app.example/a"}, []string{"VIEW_FRAME_ANCESTORS"}},
		{"a query", map[string]string{"PUBLIC_URL": "https://x.example/?a=b"}, []string{"PUBLIC_URL"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := env.Parse[app.Config](tc.environ)
			if err == nil {
				t.Fatal("no error")
			}
			for _, name := range tc.says {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("the error does not name %s:\n%v", name, err)
				}
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error contains a password:\n%v", err)
			}
		})
	}
}
