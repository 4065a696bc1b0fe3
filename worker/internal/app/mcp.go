package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/browser-svc/svc/shared/fault"
	"github.com/browser-svc/svc/shared/netrules"
	"github.com/browser-svc/svc/shared/oapi"
	"github.com/browser-svc/svc/shared/program"
	"github.com/browser-svc/svc/worker/internal/api/mcp"
	"github.com/browser-svc/svc/worker/internal/auth/access"
	"github.com/browser-svc/svc/worker/internal/session/launch"
)

// registerMCP registers /mcp.
func (w *worker) registerMCP(guard *oapi.Guard, key access.Key, logger *slog.Logger) error {
	parse := launchParser(guard)
	rules, err := readMCPNetwork(w.config.MCPNetwork, parse)
	if err != nil {
		return fmt.Errorf("MCP_NETWORK: %w", err)
	}
	w.mcp = mcp.New(mcp.Options{
		Launches: w.launches, Browsers: browserFinder{w.launches}, Pages: w.relay, Logs: w.logs, Address: w.address, WorkerKey: key.Matches,
		Parse: parse, Network: rules, Version: program.Version, Logger: logger,
	})
	w.closers.AddFunc(w.mcp.Close)
	w.mcp.Register(w.web)
	return nil
}

// readMCPNetwork returns the network rules of a setting: a JSON object, or the path of a file
// with one. Nil: there are none. They are checked as those of a launch.
func readMCPNetwork(setting string, parse func([]byte) (launch.Request, error)) (*netrules.Rules, error) {
	text := strings.TrimSpace(setting)
	if text == "" {
		return nil, nil //nolint:nilnil // there are none
	}
	if !strings.HasPrefix(text, "{") {
		content, err := os.ReadFile(text)
		if err != nil {
			return nil, err
		}
		text = string(content)
	}
	body, err := json.Marshal(map[string]any{"profileId": uuid.Nil, "browser": map[string]any{"network": json.RawMessage(text)}})
	if err != nil {
		return nil, errors.New("must be a JSON object with network rules, or the path of a file with one")
	}
	request, err := parse(body)
	details := request.Override.Network.Check("browser.network.")
	if f, ok := errors.AsType[*fault.Error](err); ok {
		details, err = f.PublicDetails(), errors.New(f.Message)
	}
	var problems []string
	for _, d := range details {
		problems = append(problems, strings.TrimPrefix(d.Field, "browser.network.")+" "+d.Message)
	}
	if len(problems) > 0 {
		return nil, errors.New(strings.Join(problems, "; "))
	}
	return request.Override.Network, err
}
