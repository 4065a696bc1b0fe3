package program_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/program"
)

type config struct {
	Port    int    `env:"PORT" envDefault:"3000" doc:"The port to listen on."`
	Key     string `env:"KEY" secret:"true" doc:"A key."`
	Logging program.Logging
}

// run runs a program with two commands and returns the result.
func run(environ map[string]string, args ...string) (status int, out, errs, ran string) {
	var stdout, stderr bytes.Buffer
	status = program.Program[config]{
		Name: "prog", Summary: "does things", Environ: environ, Out: &stdout, Err: &stderr,
		Logging: func(c config) program.Logging { return c.Logging },
		Commands: []program.Command[config]{
			{Name: "serve", Summary: "Serve", Run: func(_ context.Context, _ config, logger *slog.Logger) error {
				ran = "serve"
				logger.Info("serving")
				return nil
			}},
			{Name: "fail", Summary: "Fail", Run: func(context.Context, config, *slog.Logger) error {
				ran = "fail"
				return errors.New("no luck")
			}},
		},
	}.Main(args)
	return status, stdout.String(), stderr.String(), ran
}

func TestMain(t *testing.T) {
	for _, tc := range []struct {
		name    string
		environ map[string]string
		args    []string
		status  int
		ran     string
		out     string
		errs    string
	}{
		{"the first command is the default", nil, nil, 0, "serve", "", "serving"},
		{"a command by name", nil, []string{"serve"}, 0, "serve", "", "serving"},
		{"a failure", nil, []string{"fail"}, 1, "fail", "", "prog fail: no luck"},
		{"an unknown command", nil, []string{"dance"}, 2, "", "", `unknown command "dance"`},
		{"too many words", nil, []string{"serve", "now"}, 2, "", "", `prog serve: unexpected argument "now"`},
		{"help", nil, []string{"serve", "--help"}, 0, "", "The port to listen on.", ""},
		{"version", nil, []string{"version"}, 0, "", program.Version, ""},
		{"a bad variable", map[string]string{"PORT": "x"}, nil, 1, "", "", "PORT"},
		{"a bad log format", map[string]string{"LOG_FORMAT": "xml"}, nil, 1, "", "", "LOG_FORMAT"},
		{"json logs", map[string]string{"LOG_FORMAT": "json"}, nil, 0, "serve", "", `"msg":"serving"`},
		{"less log", map[string]string{"LOG_LEVEL": "error"}, nil, 0, "serve", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.environ == nil {
				tc.environ = map[string]string{}
			}
			status, out, errs, ran := run(tc.environ, tc.args...)
			if status != tc.status || ran != tc.ran {
				t.Errorf("status %d, ran %q; want %d, %q\n%s", status, ran, tc.status, tc.ran, errs)
			}
			if !strings.Contains(out, tc.out) || !strings.Contains(errs, tc.errs) {
				t.Errorf("out %q, errors %q; want %q, %q in them", out, errs, tc.out, tc.errs)
			}
			if tc.name == "less log" && errs != "" {
				t.Errorf("logged %q", errs)
			}
		})
	}
}

func TestHealth_IgnoresProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	environment := http.DefaultTransport // it reads the environment once in a process
	//nolint:reassign // there is no other way to give it a proxy
	t.Cleanup(func() { http.DefaultTransport = environment })
	//nolint:reassign // see above
	http.DefaultTransport = &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return nil, errors.New("the proxy is used") }}
	address := server.Listener.Addr().(*net.TCPAddr)
	health := program.Health(func(config) (string, int) { return address.IP.String(), address.Port })
	if err := health.Run(t.Context(), config{}, nil); err != nil {
		t.Error(err)
	}
}

func TestHealth_ReadinessAndLiveness(t *testing.T) {
	status, path := http.StatusOK, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"success":false,"error":{"code":"X","message":"m","details":[{"field":"license","message":"The key is refused."}]}}`))
	}))
	defer server.Close()
	address := server.Listener.Addr().(*net.TCPAddr)
	health := program.Health(func(config) (string, int) { return address.IP.String(), address.Port })
	if err := health.Run(t.Context(), config{}, nil); err != nil || path != "/readyz" {
		t.Errorf("ready service, %s: %v", path, err)
	}
	status = http.StatusServiceUnavailable
	if err := health.Run(t.Context(), config{}, nil); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "license: The key is refused.") {
		t.Errorf("service that is not ready: %v", err)
	}
	flags := flag.NewFlagSet("health", flag.ContinueOnError)
	health.Flags(flags)
	if err := flags.Parse([]string{"--live"}); err != nil {
		t.Fatal(err)
	}
	status = http.StatusOK
	if err := health.Run(t.Context(), config{}, nil); err != nil || path != "/livez" {
		t.Errorf("live service, %s: %v", path, err)
	}
	server.Close()
	if err := health.Run(t.Context(), config{}, nil); err == nil {
		t.Error("a stopped service is healthy")
	}
}

func TestMain_LogsNoSecret(t *testing.T) {
	_, _, errs, _ := run(map[string]string{"KEY": "very-secret", "LOG_LEVEL": "debug"}, "serve")
	if !strings.Contains(errs, "configuration") || strings.Contains(errs, "very-secret") {
		t.Errorf("got the log %q", errs)
	}
}

func TestLogging_MasksKeys(t *testing.T) {
	const key = "svc_abcdefghijklmnopqrstuvwxyz234567"
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		logger, err := program.Logging{Format: format}.New(&out)
		if err != nil {
			t.Fatal(err)
		}
		logger.Info("pulled "+key, "path", "/v2/"+strings.ToUpper(key)+"/local-api", "error", errors.New("no image "+key),
			slog.Group("request", "query", "key="+key))
		if log := strings.ToLower(out.String()); strings.Contains(log, key[4:]) || strings.Count(log, "svc_***") != 4 {
			t.Errorf("got the log %s", out.String())
		}
	}
}
