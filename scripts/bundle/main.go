// bundle bundles the documents in openapi/ for the programs, without references to
// other files. With --join DIR, it writes the documents of the directory to DIR, each
// as one file.
package main

import (
	"context"
	"flag"
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
	target := flag.String("join", "", "the `directory` for the joined documents")
	flag.Parse()
	if *target != "" {
		return join(flag.Arg(0), *target)
	}
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
