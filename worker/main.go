// svc-worker launches real browsers on its machine and hands out what drives
// and shows them.
package main

import (
	"os"
	_ "time/tzdata" // launches name time zones, also where the machine knows none

	"github.com/browser-svc/svc/worker/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
