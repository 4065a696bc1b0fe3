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
	if config.Port != 3000 || config.CloudURL != "http://localhost:8080" || config.MinIsolation != "sandbox" {
		t.Errorf("config %+v", config)
	}
}

func TestConfig_ReportsAllProblemsAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name    string
		environ map[string]string
		says    []string
	}{
		{"types", map[string]string{"PORT": "a", "AUTO_ENGINE": "perhaps", "TRUSTED_PROXIES": "10.0.0.0/99", "LOG_LEVEL": "loud"},
			[]string{"PORT", "AUTO_ENGINE", "TRUSTED_PROXIES", "LOG_LEVEL"}},
		{"rules", map[string]string{"PORT": "65536", "WORKER_ID": "a/b", "PUBLIC_URL": "ftp://x", "SVC_CLOUD_URL": "cloud"},
			[]string{"PORT", "WORKER_ID", "PUBLIC_URL", "SVC_CLOUD_URL"}},
		{"isolation", map[string]string{"MIN_ISOLATION": "some"}, []string{`MIN_ISOLATION must be full, sandbox or none, not "some"`}},
		{"not a number", map[string]string{"WARM_POOL": "2-6", "MAX_USAGE_PERCENT": "90%", "IDLE_TIMEOUT": "10"}, []string{"WARM_POOL", "MAX_USAGE_PERCENT", "IDLE_TIMEOUT"}},
		{"too many values", map[string]string{"WARM_POOL": "1,2,3", "MAX_USAGE_PERCENT": "1,2,3", "IDLE_TIMEOUT": "1m,2m,3m", "MAX_DURATION": "1m,2m,3m"},
			[]string{"WARM_POOL must", "MAX_USAGE_PERCENT must", "IDLE_TIMEOUT must", "MAX_DURATION must"}},
		{"values out of range", map[string]string{"WARM_POOL": "101", "MAX_USAGE_PERCENT": "90,NaN", "LAUNCH_DISK_MB": "-1"},
			[]string{"WARM_POOL must", "MAX_USAGE_PERCENT must", "LAUNCH_DISK_MB"}},
		{"a maximum below the minimum", map[string]string{"WARM_POOL": "3,2"}, []string{"WARM_POOL must"}},
		{"an unknown activity log", map[string]string{"AUDIT": "all"}, []string{`AUDIT must be actions or empty, not "all"`}},
		{"an activity log that is not kept", map[string]string{"AUDIT": "actions", "FILES_RETENTION": "0s"}, []string{"AUDIT needs"}},
		{"a retention that is too short", map[string]string{"FILES_RETENTION": "10ms"}, []string{"FILES_RETENTION"}},
		{"lifetimes out of range", map[string]string{"IDLE_TIMEOUT": "169h", "MAX_DURATION": "0s,-1s", "CONNECT_TIMEOUT": "1500ms"},
			[]string{"IDLE_TIMEOUT must", "MAX_DURATION must", "CONNECT_TIMEOUT must"}},
		{"defaults above limits", map[string]string{"IDLE_TIMEOUT": "5m,1m", "MAX_DURATION": "2h,1h"},
			[]string{"IDLE_TIMEOUT: the default (5m0s) must not be greater than the longest value (1m0s)", "MAX_DURATION: the default (2h0m0s)"}},
		{"a worker key as organization key", map[string]string{"SVC_KEY": "wrk_hidden"}, []string{"SVC_KEY", "API_KEY"}},
		{"an organization key with a line break", map[string]string{"SVC_KEY": "svc_hidden\nx"}, []string{"SVC_KEY"}},
		{"no port", map[string]string{"PORT": "0"}, []string{"PORT"}},
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
