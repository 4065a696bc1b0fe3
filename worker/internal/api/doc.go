// Package api groups everything that a client of the worker can call: handlers of the
// document (rest), CDP and /json (devtools), /launch (launchsock), /wd/hub (webdriver),
// /mcp (mcp), the live view (view), files (fileserver) and console messages (pagelog).
// Only app imports its packages. A connection owns the goroutines that serve it and ends
// them before its handler returns; locks protect the tables of connections and sessions.
package api
