// svc-worker launches real browsers on its machine and gives clients access to drive
// and view them.
package main

import (
	"os"
	_ "time/tzdata" // time zones of launches, for machines without a time zone database

	"github.com/browser-svc/svc/worker/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
