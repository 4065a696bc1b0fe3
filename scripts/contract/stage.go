package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// stage is one check of the documents or the servers.
type stage struct {
	name string
	run  func(*testEnvironment, context.Context) (summary string, err error)
	live bool // requires the servers
}

// result is the result of a stage.
type result struct {
	stage    string
	summary  string
	duration time.Duration
	err      error
}

func (r result) failed() bool { return r.err != nil }

// runStages runs the stages one after the other. It continues after a failure, but
// stops when the context ends.
func (h *testEnvironment) runStages(ctx context.Context, chosen []stage) []result {
	var results []result
	for _, s := range chosen {
		logf("%s", s.name)
		began := time.Now()
		summary, err := h.runStage(ctx, s)
		r := result{stage: s.name, summary: summary, duration: time.Since(began), err: err}
		results = append(results, r)
		if r.failed() {
			logf("%s FAILED after %s: %v", s.name, seconds(r.duration), r.err)
		} else {
			logf("%s passed after %s: %s", s.name, seconds(r.duration), r.summary)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return results
}

// runStage runs a stage. A live stage gets newly seeded servers, and fails if the
// proxies found violations.
func (h *testEnvironment) runStage(ctx context.Context, s stage) (string, error) {
	if !s.live {
		return s.run(h, ctx)
	}
	if err := h.startServers(ctx); err != nil {
		return "", fmt.Errorf("start the servers: %w", err)
	}
	quiet := h.reportProgress(s.name)
	summary, err := s.run(h, ctx)
	quiet()
	exchanges, violations := h.proxies.takeFindings(h.outputDir, s.name)
	return fmt.Sprintf("%s; %d exchanges checked", summary, exchanges), errors.Join(err, violations, h.requireRunning())
}

// reportProgress logs the progress of a stage once a minute, until the function that
// it returns is called.
func (h *testEnvironment) reportProgress(stage string) (quiet func()) {
	began, ticker := time.Now(), time.NewTicker(time.Minute)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				exchanges, violations := h.proxies.progress()
				logf("%s: running for %s, %d exchanges checked, %d violations", stage, time.Since(began).Round(time.Second), exchanges, violations)
			case <-stop:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(stop)
		<-ended
	}
}

// table returns a summary of the results.
func table(results []result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "STAGE\tSUMMARY\tDURATION\tRESULT")
	var total time.Duration
	for _, r := range results {
		total += r.duration
		verdict := "passed"
		if r.failed() {
			verdict = "FAILED"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.stage, r.summary, seconds(r.duration), verdict)
	}
	_, _ = fmt.Fprintf(w, "\t\t%s\t\n", seconds(total))
	_ = w.Flush() // a strings.Builder does not fail
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func logf(format string, args ...any) { fmt.Printf("• "+format+"\n", args...) }
