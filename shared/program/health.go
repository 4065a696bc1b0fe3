package program

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	healthTimeout    = 4 * time.Second
	maxResponseBytes = 64 << 10
)

// Health returns the command that checks the service on this machine: readiness
// (GET /readyz) or, with --live, liveness (GET /livez). It is for containers
// without a shell. The address is the one that the service listens on.
func Health[C any](address func(C) (host string, port int)) Command[C] {
	var live bool
	return Command[C]{
		Name: "health", Summary: "Check whether the service on this machine is ready",
		Detail: "Exits with status 1 and prints the reasons if the service is not ready. A service may be unready because it is full or waits for another service; restart it only if --live fails.",
		Flags: func(f *flag.FlagSet) {
			f.BoolVar(&live, "live", false, "check liveness instead of readiness")
		},
		Run: func(ctx context.Context, config C, _ *slog.Logger) error {
			host, port := address(config)
			if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
				host = "localhost"
			}
			path := "/readyz"
			if live {
				path = "/livez"
			}
			return checkHealth(ctx, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+path)
		},
	}
}

func checkHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	direct := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // HTTP_PROXY is not for this machine
	response, err := direct.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	var failure struct {
		Error struct {
			Message string
			Details []struct{ Field, Message string }
		}
	}
	answered := fmt.Errorf("%s answered %s", url, response.Status)
	if json.NewDecoder(io.LimitReader(response.Body, maxResponseBytes)).Decode(&failure) != nil {
		return answered
	}
	for _, reason := range failure.Error.Details {
		answered = fmt.Errorf("%w; %s: %s", answered, reason.Field, reason.Message)
	}
	return answered
}
