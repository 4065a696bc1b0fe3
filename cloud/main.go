// svc-cloud is the cloud API: profiles, organizations and the license
// accounting that workers ask before they launch.
package main

import (
	"os"
	_ "time/tzdata" // for the time zones of profiles, on machines without time zone data

	"github.com/browser-svc/svc/cloud/internal/app"
)

func main() { os.Exit(app.Main(os.Args[1:])) }
