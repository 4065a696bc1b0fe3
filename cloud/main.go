// svc-cloud is the cloud API: profiles, organizations and the license
// accounting that workers ask before they launch.
package main

import (
	"os"
	_ "time/tzdata" // profiles name time zones, also where the machine knows none

	"github.com/browser-svc/svc/cloud/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
