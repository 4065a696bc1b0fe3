// Client uses a browser with a CDP library for Go: `client chromedp` or `client
// rod`. It reads its input as JSON from standard input and writes the result as
// JSON to standard output. `client socket` sends raw messages. `client namespace
// ADDRESS SOCKET COMMAND...` runs a command that can reach only ADDRESS.
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

// input is the input of the test. URLs contain tokens, which must not be on a
// command line.
type input struct {
	Endpoint   string `json:"endpoint"` // ws, or http for the library's discovery
	URL        string `json:"url"`
	Expression string `json:"expression"`
	Close      bool   `json:"close"` // end the browser, too
	Key        bool   `json:"key"`   // send a valid WebSocket key if the library does not

	// For raw messages.
	Header   http.Header       `json:"header"` // of the handshake
	Messages []json.RawMessage `json:"messages"`
}

// visit contains the values that the page and the browser returned.
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
	if len(os.Args) > 4 && os.Args[1] == "namespace" {
		return runInNamespace(os.Args[2], os.Args[3], os.Args[4:])
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var task input
	if err := json.NewDecoder(os.Stdin).Decode(&task); err != nil {
		return err
	}
	var result any
	var err error
	switch os.Args[len(os.Args)-1] {
	case "chromedp":
		result, err = byChromedp(ctx, task)
	case "rod":
		result, err = byRod(ctx, task)
	case "socket":
		result, err = bySocket(ctx, task)
	default:
		err = errors.New("usage: client chromedp|rod|socket")
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
