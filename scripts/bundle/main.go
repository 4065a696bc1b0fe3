// bundle bundles the documents in openapi/ for the programs, without references to
// other files.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/browser-svc/svc/shared/oapi/bundled"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run() error {
	for _, name := range []string{"cloud", "worker"} {
		document, err := bundled.Load(context.Background(), os.DirFS("openapi"), name+".yaml")
		if err != nil {
			return err
		}
		if err := os.WriteFile("gen/"+name+"api/openapi.json", document.JSON(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
