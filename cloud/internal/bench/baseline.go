package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/browser-svc/svc/gen/cloudapi"
)

// serveBaseline answers authorize like the chain does, with net/http and encoding/json
// only. It writes an access log if the tenant's level asks for one. It reads a tenant
// and prints its address.
func serveBaseline(ctx context.Context, in io.Reader, out io.Writer) error {
	t, listener, err := readTenant(ctx, in, out)
	if err != nil {
		return err
	}
	known := map[[sha256.Size]byte]bool{sha256.Sum256([]byte(t.Key)): true}
	var taken atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/license/authorize", func(w http.ResponseWriter, r *http.Request) {
		if !known[sha256.Sum256([]byte(r.Header.Get("X-API-Key")))] {
			http.Error(w, "unknown key", http.StatusUnauthorized)
			return
		}
		var asked cloudapi.AuthorizeRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		slot := newID()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(cloudapi.AuthorizeResponse{Success: true, Data: cloudapi.Authorization{
			Allowed: true, Current: taken.Add(1), SlotId: &slot, ProfileConfig: t.Config,
		}})
	})
	server := &http.Server{Handler: logRequests(mux, t.LogLevel), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// logRequests logs each request.
func logRequests(next http.Handler, level slog.Level) http.Handler {
	if level > slog.LevelInfo {
		return next
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		counted := &responseRecorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(counted, r)
		logger.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", counted.status), slog.Duration("duration", time.Since(began)), slog.Int("bytes", counted.bytes),
			slog.String("remoteAddress", r.RemoteAddr))
	})
}

// responseRecorder records the status and size of a response.
type responseRecorder struct {
	http.ResponseWriter
	status, bytes int
}

func (c *responseRecorder) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *responseRecorder) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += n
	return n, err
}
