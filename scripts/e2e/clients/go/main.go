// Client drives a browser with one of Go's CDP libraries, as the programs
// beside it do with Node's: `client chromedp` or `client rod`, the input as JSON
// on standard input, what came of it as JSON on standard output. `client socket`
// sends bare messages.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

const limit = 45 * time.Second

// input is what the test asks for. Addresses carry tokens, which belong on no
// command line.
type input struct {
	Endpoint   string `json:"endpoint"`
	URL        string `json:"url"`
	Expression string `json:"expression"`
	Close      bool   `json:"close"` // end the browser, too
	Key        bool   `json:"key"`   // send a proper WebSocket key, where the library doesn't

	// For bare messages.
	Header   http.Header       `json:"header"` // of the handshake
	Messages []json.RawMessage `json:"messages"`
}

// visit is what the page and the browser told.
type visit struct {
	Title      string `json:"title"`
	Value      int    `json:"value"`
	Version    string `json:"version"`
	Screenshot int    `json:"screenshot"` // bytes
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		return err
	}
	var seen any
	var err error
	switch os.Args[len(os.Args)-1] {
	case "chromedp":
		seen, err = byChromedp(ctx, in)
	case "rod":
		seen, err = byRod(ctx, in)
	case "socket":
		seen, err = bySocket(ctx, in)
	default:
		err = errors.New("usage: client chromedp|rod|socket")
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}
