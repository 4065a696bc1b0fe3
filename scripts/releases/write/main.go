// write is scripts/release-documents.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/browser-svc/svc/scripts/releases"
)

func main() {
	replace := flag.Bool("replace", false, "write a version again that nobody has got yet")
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
