package program

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
)

const healthTimeout = 4 * time.Second

// Health is the command that asks the service on this machine how it is, for
// containers without a shell. The address is what the service listens on.
func Health[C any](address func(C) (host string, port int)) Command[C] {
	return Command[C]{
		Name: "health", Summary: "Succeed if the service on this machine is healthy",
		Run: func(ctx context.Context, config C, _ *slog.Logger) error {
			host, port := address(config)
			if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
				host = "localhost"
			}
			return askHealth(ctx, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+"/health")
		},
	}
}

func askHealth(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, response.Status)
	}
	return nil
}
