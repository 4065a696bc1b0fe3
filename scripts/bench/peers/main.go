// Peers launches browsers with other tools, for comparison in the benchmark: `peers
// rod`, `peers chromedp` and `peers chromedriver`. Each is used as its documentation
// recommends for programs that launch many browsers. peers.mjs has the tools for
// Node.js.
//
// The first line on standard input is the setup as JSON; the response is the
// tool's version. Each further line requests a launch; the response contains the
// times to the first answer of the browser and to a loaded page.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// limit is the timeout of one launch.
const limit = 30 * time.Second

// setup contains the settings for the launches.
type setup struct {
	Chromium string `json:"chromium"` // the program
	Driver   string `json:"driver"`   // the program chromedriver
	Page     string `json:"page"`     // the URL to open
	Sandbox  bool   `json:"sandbox"`  // false for root, for which the sandbox does not work
}

// peer launches a browser, sends it a command, opens the page and ends the browser.
type peer interface {
	visit(ctx context.Context, m *marks) error
	close()
}

// marks contains the times of events, in milliseconds since the request.
type marks struct {
	requestTime time.Time
	Answered    float64 `json:"answered"`
	Loaded      float64 `json:"loaded"`
	Error       string  `json:"error,omitempty"`
}

func (m *marks) answered() { m.Answered = m.since() }
func (m *marks) loaded()   { m.Loaded = m.since() }

func (m *marks) since() float64 { return float64(time.Since(m.requestTime).Microseconds()) / 1000 }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[len(os.Args)-1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, name string, input io.Reader, output io.Writer) error {
	lines, answer := bufio.NewScanner(input), json.NewEncoder(output)
	if !lines.Scan() {
		return fmt.Errorf("no setup: %w", lines.Err())
	}
	var s setup
	if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
		return fmt.Errorf("decode the setup: %w", err)
	}
	p, version, err := open(ctx, name, s)
	if err != nil {
		return err
	}
	defer p.close()
	if err := answer.Encode(map[string]string{"version": version}); err != nil {
		return err
	}
	for lines.Scan() {
		m := marks{requestTime: time.Now()}
		ctx, cancel := context.WithTimeout(ctx, limit)
		if err := p.visit(ctx, &m); err != nil {
			m.Error = err.Error()
		}
		cancel()
		if err := answer.Encode(m); err != nil {
			return err
		}
	}
	return lines.Err()
}

func open(ctx context.Context, name string, s setup) (peer, string, error) {
	switch name {
	case "rod":
		p, err := newRod(s)
		return p, module("github.com/go-rod/rod"), err
	case "chromedp":
		return newChromedp(ctx, s), module("github.com/chromedp/chromedp"), nil
	case "chromedriver":
		return newDriver(ctx, s)
	default:
		return nil, "", fmt.Errorf("usage: peers rod|chromedp|chromedriver")
	}
}

// module returns the version of a module in this program.
func module(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return ""
}
