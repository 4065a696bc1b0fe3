// write is the program that scripts/release-documents runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/browser-svc/svc/scripts/releases"
)

func main() {
	replace := flag.Bool("replace", false, "overwrite a released version that no client has yet")
	flag.Parse()
	files, err := releases.Write(context.Background(), os.DirFS("openapi"), "openapi/released", *replace)
	for _, file := range files {
		fmt.Println("Released", file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release-documents:", err)
		os.Exit(1)
	}
}
