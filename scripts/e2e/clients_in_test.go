package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/browser-svc/svc/shared/testenv"
)

// The ways of a client to get to a browser.
const (
	socketWay     = "webSocketDebuggerUrl"
	httpTokenWay  = "http ?ct="
	httpUserWay   = "http userinfo"
	httpBearerWay = "http Bearer"
	httpHeaderWay = "http X-Svc-Token"
	wsTokenWay    = "ws ?ct="
	wsBearerWay   = "ws Bearer"
	launchWay     = "launch"
	playwrightWay = "playwright"
	playwrightID  = "playwright behind `/w/ID`"
	webDriverWay  = "wd/hub"
	mcpWay        = "mcp"
)

// wayEndpoint returns the endpoint of a way. {host} is the worker's host and port, {id} is its WORKER_ID,
// {socket} is webSocketDebuggerUrl, {token} is the control token and {key} is the
// organization key.
func wayEndpoint(way string) string {
	switch way {
	case socketWay:
		return "{socket}"
	case httpTokenWay:
		return "http://{host}/?ct={token}"
	case httpUserWay:
		return "http://user:{token}@{host}"
	case wsTokenWay:
		return "ws://{host}/?ct={token}"
	case wsBearerWay:
		return "ws://{host}"
	case launchWay:
		return "ws://{host}/launch?token={key}&headless=true&timeout=120000"
	case playwrightWay:
		return "ws://{host}/playwright?token={key}&headless=true"
	case playwrightID:
		return "ws://{host}/w/{id}/playwright?token={key}&headless=true"
	case webDriverWay:
		return "http://user:{key}@{host}/wd/hub"
	case mcpWay:
		return "http://{host}/mcp"
	}
	return "http://{host}"
}

// headerOf returns the header that a client sends in a way, "" for none.
func headerOf(way string) string {
	switch way {
	case httpBearerWay, wsBearerWay:
		return "Authorization: Bearer {token}"
	case httpHeaderWay:
		return "X-Svc-Token: {token}"
	case mcpWay:
		return "Authorization: Bearer {key}"
	}
	return ""
}

// clientIn is a client and the ways in which it gets to a browser.
type clientIn struct {
	name    string
	command []string // reads the input from standard input
	ways    []string
	quick   []string // ways of the quick run; nil: none
	note    string   // why it cannot use the other ways of its protocol, for the table
}

// tested returns the ways that this run tests.
func (c clientIn) tested() []string {
	if testenv.Full() {
		return c.ways
	}
	return c.quick
}

// clientsIn returns all clients. The quick run has those that are installed anyway.
func clientsIn(goClient string) []clientIn {
	script := func(name string) []string { return []string{"node", "clients/" + name + ".mjs"} }
	python := func(name string) []string {
		return []string{filepath.Join(root, "bin", "clients", "bin", "python"), "clients/full/visit.py", name}
	}
	http := []string{httpTokenWay, httpUserWay, httpBearerWay, httpHeaderWay}
	ws, own := []string{wsTokenWay, wsBearerWay}, []string{playwrightWay, playwrightID}
	const noHTTP = "it asks for a WebSocket URL"
	const noHeaders = "it sends no headers"
	return []clientIn{
		{name: "Playwright (Node.js)", command: script("playwright"), ways: slices.Concat([]string{socketWay}, http, ws, []string{launchWay}, own),
			quick: []string{httpBearerWay, httpTokenWay, playwrightID}},
		{name: "Playwright (Python)", command: python("playwright"), ways: slices.Concat([]string{socketWay}, http, ws, []string{launchWay}, own)},
		{name: "puppeteer", command: script("puppeteer"), ways: slices.Concat([]string{socketWay}, ws, []string{launchWay}),
			quick: []string{wsTokenWay, launchWay}, note: "`browserURL` drops the query and sends no headers: use `browserWSEndpoint`"},
		{name: "chrome-remote-interface", command: script("chrome-remote-interface"), ways: []string{socketWay, httpTokenWay, wsTokenWay, launchWay},
			quick: []string{httpTokenWay}, note: noHeaders},
		{name: "chromedp", command: []string{goClient, "chromedp"}, ways: []string{socketWay, httpTokenWay, wsTokenWay, launchWay},
			quick: []string{httpTokenWay}, note: noHeaders},
		{name: "rod", command: []string{goClient, "rod"}, ways: []string{socketWay, httpTokenWay, httpUserWay, wsTokenWay, launchWay},
			quick: []string{httpUserWay}, note: "its launcher sends no headers"},
		{name: "Stagehand", command: script("full/stagehand"), ways: slices.Concat([]string{socketWay}, ws, []string{launchWay}), note: noHTTP},
		{name: "browser-use", command: python("browser_use"), ways: slices.Concat([]string{socketWay}, http, ws, []string{launchWay})},
		{name: "crawl4ai", command: python("crawl4ai"), ways: []string{socketWay, httpTokenWay, wsTokenWay, launchWay}, note: noHeaders},
		{name: "scrapy-playwright", command: python("scrapy_playwright"), ways: slices.Concat([]string{socketWay}, http, ws, []string{launchWay})},
		{name: "pydoll", command: python("pydoll"), ways: []string{socketWay, wsTokenWay},
			note: noHTTP + ", and opens a socket for each tab, which `/launch` does not have"},
		{name: "DrissionPage", command: python("drissionpage"), ways: []string{wsTokenWay},
			note: "it calls `/json` without the token unless the URL has no path, and opens a socket for each tab, which `/launch` does not have"},
		{name: "nodriver", command: python("nodriver"), ways: []string{httpBearerWay, httpHeaderWay},
			note: "it takes a host and a port, and fetches the rest with urllib, whose opener can have headers"},
		{name: "Lighthouse (puppeteer)", command: script("full/lighthouse"), ways: slices.Concat([]string{socketWay}, ws, []string{launchWay}),
			note: "as puppeteer"},
		{name: "@playwright/mcp", command: append(script("full/mcp-servers"), "@playwright/mcp"), ways: slices.Concat([]string{socketWay}, http, ws, []string{launchWay})},
		{name: "chrome-devtools-mcp", command: append(script("full/mcp-servers"), "chrome-devtools-mcp"),
			ways: slices.Concat([]string{socketWay}, ws, []string{launchWay}), note: "as puppeteer; use `--wsEndpoint`"},
		{name: "Selenium (JavaScript)", command: script("webdriver"), ways: []string{webDriverWay}, quick: []string{webDriverWay}},
		{name: "Selenium (Java)", command: javaCommand("visit"), ways: []string{webDriverWay}},
		{name: "Selenium (Python)", command: python("selenium"), ways: []string{webDriverWay}},
		{name: "webdriverio", command: script("full/webdriverio"), ways: []string{webDriverWay}},
		{name: "MCP SDK (TypeScript)", command: script("mcp-visit"), ways: []string{mcpWay}, quick: []string{mcpWay}},
		{name: "MCP SDK (Python)", command: python("mcp"), ways: []string{mcpWay}},
	}
}

// clientTable returns the table of CLIENTS.md.
func clientTable(clients []clientIn) string {
	columns := []string{socketWay, "http", "ws", launchWay, playwrightWay, webDriverWay, mcpWay}
	var table strings.Builder
	table.WriteString("| Client | `webSocketDebuggerUrl` | `http://worker` | `ws://worker` | `/launch` | `/playwright` | `/wd/hub` | `/mcp` | Other ways |\n")
	table.WriteString("|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range clients {
		cells := []string{c.name}
		for _, column := range columns {
			var names []string
			for _, way := range c.ways {
				if variant, ok := strings.CutPrefix(way, column+" "); ok {
					names = append(names, strings.ReplaceAll(variant, "?ct=", "`?ct=`"))
				} else if way == column {
					names = append(names, "yes")
				}
			}
			cells = append(cells, strings.Join(names, ", "))
		}
		_, _ = fmt.Fprintf(&table, "| %s | %s |\n", strings.Join(cells, " | "), c.note)
	}
	return table.String()
}

// TestClients_TableIsCurrent compares the table of CLIENTS.md with the clients.
func TestClients_TableIsCurrent(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join(root, "openapi", "CLIENTS.md"))
	if err != nil {
		t.Fatal(err)
	}
	if table := clientTable(clientsIn("")); !strings.Contains(string(document), table) {
		t.Errorf("CLIENTS.md must contain:\n%s", table)
	}
}
