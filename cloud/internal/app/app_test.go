package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/browser-svc/svc/cloud/internal/api/rest"
	"github.com/browser-svc/svc/db/dbtest"
	"github.com/browser-svc/svc/shared/contracttest"
	"github.com/browser-svc/svc/shared/httpd"
	"github.com/browser-svc/svc/shared/testenv"
)

// routed is a cloud with all its routes that serves until the test ends.
func routed(t *testing.T) (*echo.Echo, httpd.Options) {
	t.Helper()
	config := Config{Port: 8080, DataDir: t.TempDir()}
	pools, err := (&database{dsn: dbtest.NewDSN(t)}).pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pools.closers.Close() })
	parts, err := assemble(t.Context(), config, pools, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = parts.closers.Close() })
	web, options, err := parts.newWebServer(config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return web, options
}

func TestRoutes_AreAllInOpenAPI(t *testing.T) {
	web, _ := routed(t)
	document := contracttest.Load(t, "cloud.yaml")
	explorer := regexp.MustCompile(`^/(docs|openapi|assets/)`)
	parameter := regexp.MustCompile(`:([A-Za-z]+)`)
	operations := 0
	for _, route := range web.Routes() {
		if explorer.MatchString(route.Path) || slices.Contains(rest.DashboardRoutes, route.Path) || route.Method == "echo_route_not_found" {
			continue
		}
		item := document.T().Paths.Find(parameter.ReplaceAllString(route.Path, "{$1}"))
		if item != nil && route.Method == "HEAD" && item.Head == nil && item.Get != nil {
			continue // on the same paths as GET
		}
		if item == nil || item.GetOperation(route.Method) == nil {
			t.Errorf("%s %s is served, but not in the document", route.Method, route.Path)
		}
		operations++
	}
	documented := 0
	for _, item := range document.T().Paths.Map() {
		documented += len(item.Operations())
	}
	if operations != documented {
		t.Errorf("%d operations are served, %d are documented", operations, documented)
	}
}

func TestServe_EmbeddedPostgresShutsDownCleanly(t *testing.T) {
	port := testenv.FreePort(t)
	config := Config{Host: "127.0.0.1", Port: port, DataDir: testenv.PublicTempDir(t)}
	for _, round := range []string{"a new directory", "the same directory again"} {
		t.Run(round, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- Serve(ctx, config, slog.New(slog.DiscardHandler)) }()
			health := awaitHealth(t, port, done)
			if health.Data.Status != "ok" || !health.Success {
				t.Errorf("health is %+v", health)
			}
			stop()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Serve returned %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("Serve did not return")
			}
		})
	}
}

func TestConfig_ErrorsNameTheVariable(t *testing.T) {
	for variable, config := range map[string]Config{
		"PUBLIC_URL":  {PublicURL: "ftp://x"},
		"SECRET_KEYS": {SecretKeys: "1:too short"},
		"RETENTION":   {Retention: -time.Hour},
	} {
		if err := config.Validate(); err == nil || !regexp.MustCompile(variable).MatchString(err.Error()) {
			t.Errorf("%s: %v", variable, err)
		}
	}
}

type health struct {
	Success bool
	Data    struct{ Status string }
}

func awaitHealth(t *testing.T, port int, done <-chan error) (h health) {
	t.Helper()
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-done:
			t.Fatalf("Serve returned early: %v", err)
		default:
		}
		response, err := http.Get("http://" + address + "/health")
		if err != nil {
			continue
		}
		err = json.NewDecoder(response.Body).Decode(&h)
		_ = response.Body.Close()
		if err == nil && response.StatusCode == http.StatusOK {
			return h
		}
	}
	t.Fatal("the cloud did not become healthy")
	return h
}
